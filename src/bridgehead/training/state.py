"""State: a tree of arrays and plain values, as files of a snapshot and back, bit for bit.

Numpy arrays go into ``arrays.safetensors``, torch tensors into ``tensors.safetensors`` and the shape of the tree with all plain values into
``tree.json``. Nothing is pickled. Neither numpy nor torch is imported before the script itself brings arrays of that kind (or a snapshot
that holds such is loaded).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

ARRAYS, TENSORS, TREE = "arrays.safetensors", "tensors.safetensors", "tree.json"
_NUMPY_KINDS = "fiub"
"""What safetensors can hold of numpy's kinds: floats, integers, booleans (not text, dates, objects)."""


class Capture:
    """A copy of a state tree. Its buffers are used again by the next ``take``, so that saving costs one copy and no allocation.

    Memory: one copy of the state, plus one more while ``files`` encodes it.
    """

    def __init__(self) -> None:
        self._tree: Any = None
        self._arrays: dict[str, Any] = {}
        self._tensors: dict[str, Any] = {}

    def take(self, state: Mapping[str, Any]) -> None:
        """Copy ``state``: dicts, lists and tuples of numpy arrays, torch tensors, numbers, text, booleans and None.

        Raises:
            BridgeheadError: ``bad-usage`` for a value of any other kind; its place in the tree is named.
        """
        old_arrays, old_tensors = self._arrays, self._tensors
        self._arrays, self._tensors = {}, {}
        self._tree = self._copy(state, "", old_arrays, old_tensors)

    def files(self) -> dict[str, bytes]:
        """The captured state as the files of a snapshot."""
        files = {TREE: json.dumps(self._tree, separators=(",", ":"), allow_nan=False).encode()}
        if self._arrays:
            from safetensors.numpy import save as save_arrays

            files[ARRAYS] = save_arrays(self._arrays)
        if self._tensors:
            from safetensors.torch import save as save_tensors

            files[TENSORS] = save_tensors(self._tensors)
        return files

    def _copy(self, node: Any, place: str, old_arrays: dict[str, Any], old_tensors: dict[str, Any]) -> Any:
        match node:
            case None | bool() | int() | str():
                return {"value": node}
            case float():
                # As text, because JSON has no word for infinities and NaN. (A numpy float64 is a float, too.)
                return {"float": float(node).hex()}
            case Mapping():
                return {
                    "dict": [[_key(key, place), self._copy(item, _join(place, key), old_arrays, old_tensors)] for key, item in node.items()]
                }
            case list() | tuple():
                kind = "list" if isinstance(node, list) else "tuple"
                return {kind: [self._copy(item, _join(place, number), old_arrays, old_tensors) for number, item in enumerate(node)]}
            case _ if _is_tensor(node):
                name = _free_name(place, self._tensors)
                self._tensors[name] = _copy_tensor(node, old_tensors.get(name))
                return {"tensor": name}
            case _ if hasattr(node, "__array_interface__"):
                name = _free_name(place, self._arrays)
                self._arrays[name] = _copy_array(node, old_arrays.get(name), place)
                return {"array": name}
            case _:
                raise _unsaveable(place, f"a {type(node).__name__} is neither an array nor a plain value")


def decode(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The state tree that ``Capture.files`` encoded; arrays are writable and of the saved kind.

    Raises:
        BridgeheadError: ``bad-input`` when the files are not a state that this library saved.
    """
    try:
        tree = json.loads(files[TREE])
        arrays: dict[str, Any] = {}
        if ARRAYS in files:
            from safetensors.numpy import load as load_arrays

            arrays = load_arrays(files[ARRAYS])
        if TENSORS in files:
            from safetensors.torch import load as load_tensors

            arrays |= {f"tensor:{name}": tensor for name, tensor in load_tensors(files[TENSORS]).items()}
        state = _build(tree, arrays)
        assert isinstance(state, dict)
        return state
    except (KeyError, ValueError, AssertionError) as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read a training state",
            subject=f"files {', '.join(sorted(files)) or '(none)'}",
            happened=f"not saved by bridgehead.training ({type(error).__name__}: {error})",
            remedy="Load such a snapshot with the tool that wrote its files; `Vault.load` returns them.",
        ) from error


def _build(node: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    ((kind, content),) = node.items()
    match kind:
        case "value":
            return content
        case "float":
            return float.fromhex(content)
        case "dict":
            return {key: _build(item, arrays) for key, item in content}
        case "list":
            return [_build(item, arrays) for item in content]
        case "tuple":
            return tuple(_build(item, arrays) for item in content)
        case "array":
            return arrays[content]
        case "tensor":
            return arrays[f"tensor:{content}"]
        case _:
            raise ValueError(f"unknown kind of node {kind!r}")


def _is_tensor(node: Any) -> bool:
    """Duck typing: a torch tensor, without importing torch."""
    return hasattr(node, "detach") and hasattr(node, "device") and hasattr(node, "data_ptr")


def _copy_tensor(tensor: Any, old: Any) -> Any:
    tensor = tensor.detach()
    if old is not None and old.shape == tensor.shape and old.dtype == tensor.dtype:
        return old.copy_(tensor)
    return tensor.to("cpu", copy=True).contiguous()


def _copy_array(array: Any, old: Any, place: str) -> Any:
    import numpy as np

    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("=")
    if (dtype.kind not in _NUMPY_KINDS and dtype != np.complex64) or dtype.itemsize > 8:
        raise _unsaveable(place, f"safetensors cannot hold the numpy type {dtype}")
    if old is None or old.shape != array.shape or old.dtype != dtype:
        old = np.empty(array.shape, dtype=dtype)
    np.copyto(old, array)
    return old


def _key(key: object, place: str) -> int | str:
    if isinstance(key, int | str) and not isinstance(key, bool):
        return key
    raise _unsaveable(place, f"the key {key!r} is neither text nor an integer")


def _join(place: str, key: object) -> str:
    return f"{place}/{key}" if place else str(key)


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    """Two places may read the same as text ({"a/b": ...} and {"a": {"b": ...}}): the second gets a mark."""
    while name in taken:
        name += "'"
    return name


def _unsaveable(place: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="save a training state",
        subject=f"the value at {place or 'the top'}",
        happened=happened,
        remedy="Save arrays, numbers and text; turn anything else into those first.",
    )
