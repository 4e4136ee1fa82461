"""Marks: what a checkpoint still lacks by the rules of the format that wrote it (V07, V11). Formats are told by their files.

| format | complete when |
|---|---|
| Hugging Face Trainer | ``trainer_state.json`` is there, and all shards that an index names |
| Accelerate | ``random_states_*.pkl`` is there, which it writes last |
| DeepSpeed | ``latest`` beside it names it or a later one; the files of all ranks are there |
| Megatron | ``latest_checkpointed_iteration.txt`` beside it names it or a later one; all ranks have the same files |
| torch distributed (DCP) | ``.metadata`` is there, and every file that it names |
| any | no shard ``...-00001-of-00004`` is missing; no file is named as being written; the marks that the user named are there |

Nothing is unpickled: names are found in the bytes, numbers by the bounded reader of pickles.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.vault.checkpoints import Checkpoint
from bridgehead.vault.formats import index_findings
from bridgehead.vault.formats.pickleshape import MAX_PICKLE_BYTES, Table, Unreadable, read_pickle
from bridgehead.vault.formats.shardindex import MAX_INDEX_BYTES
from bridgehead.vault.formats.zipdirectory import read_archives
from bridgehead.vault.tensor_ledger import MAX_NAMED_MISSING, missing_of_series

MAX_METADATA_BYTES: Final = 256 << 20
_MAX_NAMES: Final = 100_000
_MAX_RANKS: Final = 1_000_000
_MAX_MARK_BYTES: Final = 4096
_DCP_FILE: Final = re.compile(r"__[0-9]+_[0-9]+\.distcp")
_RANK: Final = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_([0-9]{1,6})_mp_rank_([0-9]{1,6})_(optim|model)_states\.pt")
_STATES: Final = re.compile(r".*(?:model|optim)_states\.pt")
_MEGATRON_RANK: Final = re.compile(r"mp_rank_([0-9]{2,6})(?:_([0-9]{3,6}))?(?:_([0-9]{3,6}))?")
_MEGATRON_NAME: Final = re.compile(r"iter_[0-9]{7,}")
_TRAINER_NAME: Final = re.compile(r"checkpoint-[0-9]+")
_MODEL_CONFIGS: Final = frozenset({"config.json", "adapter_config.json"})
_BEING_WRITTEN: Final = re.compile(r".*\.(?:tmp|part|partial|incomplete)")


class MarkKind(msgspec.Struct, frozen=True):
    """How the trainer says that a checkpoint is complete, besides what its format says. Both empty: not at all.

    Attributes:
        inside: a file in the checkpoint's folder (``.metadata``, ``_SUCCESS``).
        beside: a file beside the checkpoints that names the newest complete one, or its step (``latest``).
    """

    inside: str = ""
    beside: str = ""


class _Look:
    """One checkpoint: its files by name, and those of each folder in it."""

    def __init__(self, checkpoint: Checkpoint, mark: MarkKind) -> None:
        self.path, self.step, self.mark = checkpoint.path, checkpoint.step, mark
        self.sizes = {name: size for name, size, *_ in checkpoint.signature}
        self.names = frozenset(self.sizes)

    @cached_property
    def folders(self) -> dict[str, set[str]]:
        """Names of files by the folder in the checkpoint that holds them; the folder ends with a slash, or is empty."""
        found: dict[str, set[str]] = {}
        for name in self.names:
            folder, slash, base = name.rpartition("/")
            found.setdefault(folder + slash, set()).add(base)
        return found


def missing(checkpoint: Checkpoint, *, mark: MarkKind) -> tuple[str, ...]:
    """What stands between it and being complete, in words; empty when nothing does."""
    look = _Look(checkpoint, mark)
    if checkpoint.is_file:
        return tuple(f"lacks {lack}" for lack in _beside(look, mark.beside)) if mark.beside else ()
    rules: tuple[Callable[[_Look], Iterator[str]], ...] = (_asked, _trainer, _deepspeed, _megatron, _distributed, _shards)
    try:
        lacks = dict.fromkeys(f"lacks {lack}" for rule in rules for lack in islice(rule(look), MAX_NAMED_MISSING))
        return (*_being_written(look), *lacks)
    except OSError as error:
        return (f"{error.filename} cannot be read ({error.strerror})",)


def _asked(look: _Look) -> Iterator[str]:
    if look.mark.inside and look.mark.inside not in look.names:
        yield f"the mark {look.mark.inside}"
    if look.mark.beside:
        yield from _beside(look, look.mark.beside)


def _being_written(look: _Look) -> Iterator[str]:
    yield from (f"{name} is still being written" for name in sorted(look.names) if _BEING_WRITTEN.fullmatch(name))


def _beside(look: _Look, file: str) -> Iterator[str]:
    """A file beside the checkpoint must name it, or a later one: it names only the newest."""
    text = _text(look.path.parent / file)
    number = re.search(r"([0-9]+)\D*\Z", text)
    if text != look.path.name and (number is None or int(number[1]) < look.step):
        yield f"{file} beside it, which {f'names {text[:80]!r}' if text else 'is not there'}"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_MARK_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _trainer(look: _Look) -> Iterator[str]:
    top = look.folders.get("", set())
    if any(name.startswith("random_states_") for name in top):
        return  # Accelerate writes them last, and has no trainer_state.json
    of_trainer = "training_args.bin" in top or (_TRAINER_NAME.fullmatch(look.path.name) and top & _MODEL_CONFIGS)
    if of_trainer and "trainer_state.json" not in top:
        yield "trainer_state.json"
    elif {"optimizer.bin", "scheduler.bin"} <= top:
        yield "random_states_0.pkl"


def _deepspeed(look: _Look) -> Iterator[str]:
    for folder, names in sorted(look.folders.items()):
        if not any(_STATES.fullmatch(name) for name in names):
            continue
        if folder == "":
            yield from _beside(look, "latest")
        elif folder.count("/") == 1 and "latest" in look.names and _text(look.path / "latest") != folder[:-1]:
            yield f"latest in it, which does not name {folder[:-1]}"
        yield from (folder + name for name in _ranks_missing(names, _world(look.path / folder, names)))


def _world(folder: Path, names: set[str]) -> tuple[int, int]:
    """How many ranks wrote it, (data parallel, model parallel), as the states of the first one say; zeros when they do not."""
    first = next((name for name in sorted(names) if name.endswith("mp_rank_00_model_states.pt")), None)
    if first is None:
        return 0, 0
    try:
        shape = read_pickle(_pickle_in(folder / first), persistent=lambda _: None, call=lambda call: call)
    except (OSError, Unreadable):
        return 0, 0
    pairs = {key: value for key, value in shape.pairs if isinstance(key, str)} if isinstance(shape, Table) else {}
    sizes = [pairs.get(key) for key in ("dp_world_size", "mp_world_size")]
    data, model = (size if type(size) is int and 0 < size < 1_000_000 else 0 for size in sizes)
    return data, model


def _pickle_in(file: Path) -> bytes:
    """``data.pkl`` of a torch zip; empty when there is none that can be read."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = read_archives(os.fstat(descriptor).st_size, lambda offset, size: os.pread(descriptor, size, offset))
        members = found.archives[0].members if found is not None and found.archives else ()
        place = next((one.place for one in members if one.name.endswith("/data.pkl")), None)
        small = place is not None and place.size_bytes <= MAX_PICKLE_BYTES
        return os.pread(descriptor, place.size_bytes, place.offset_bytes) if place is not None and small else b""
    finally:
        os.close(descriptor)


def _ranks_missing(names: set[str], world: tuple[int, int]) -> Iterator[str]:
    """Each data-parallel rank of each model-parallel rank has a file, of each kind that is there at all."""
    kinds: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for name in names:
        match = _RANK.fullmatch(name)
        if match is not None:
            kinds.setdefault((name[: name.index("zero_pp")], match[3]), set()).add((int(match[1]), int(match[2])))
    for (prefix, kind), ranks in sorted(kinds.items()):
        data = max(world[0], max(rank for rank, _ in ranks) + 1)
        model = max(world[1], max(rank for _, rank in ranks) + 1)
        if data * model > _MAX_RANKS:
            continue  # no cluster has so many: the names mean something else
        lacking = ((d, m) for d in range(data) for m in range(model) if (d, m) not in ranks)
        yield from (f"{prefix}zero_pp_rank_{d}_mp_rank_{m:02d}_{kind}_states.pt" for d, m in lacking)


def _megatron(look: _Look) -> Iterator[str]:
    ranks = {folder[:-1]: names for folder, names in look.folders.items() if _MEGATRON_RANK.fullmatch(folder[:-1])}
    if not ranks and not _MEGATRON_NAME.fullmatch(look.path.name):
        return
    yield from _beside(look, "latest_checkpointed_iteration.txt")
    every = set().union(*ranks.values())
    for rank, names in sorted(ranks.items()):
        yield from (f"{rank}/{name}" for name in sorted(every - names) if name.endswith(".pt"))
    numbers = {tuple(int(part) for part in rank.split("_")[2:]) for rank in ranks}
    for width in {len(one) for one in numbers}:
        tensor = {one[0] for one in numbers if len(one) == width}
        rest = {one[1:] for one in numbers if len(one) == width}
        if (max(tensor) + 1) * len(rest) > _MAX_RANKS:
            continue
        for first in range(max(tensor) + 1):
            for others in sorted(rest):
                if (first, *others) not in numbers:
                    yield "mp_rank_" + "_".join([f"{first:02d}", *(f"{other:03d}" for other in others)])


def _distributed(look: _Look) -> Iterator[str]:
    for folder, names in sorted(look.folders.items()):
        if ".metadata" in names:
            wanted = _named_in(look.path / folder / ".metadata")
            yield from (folder + name for name in sorted(wanted) if folder + name not in look.names)
        elif any(_DCP_FILE.fullmatch(name) for name in names):
            yield f"{folder}.metadata"


def _named_in(metadata: Path) -> set[str]:
    """Names of ``.distcp`` files in a pickle: texts with their length before them, one byte or four."""
    if metadata.stat().st_size > MAX_METADATA_BYTES:
        return set()
    data = metadata.read_bytes()
    found = set()
    for match in islice(re.finditer(rb"\.distcp", data), _MAX_NAMES):
        end = match.end()
        for size in range(len(".distcp") + 1, 256):
            begin = end - size
            short = begin >= 2 and data[begin - 2 : begin] == bytes([0x8C, size])
            if short or (begin >= 5 and data[begin - 5 : begin] == b"X" + size.to_bytes(4, "little")):
                found.add(data[begin:end].decode("utf-8", "replace"))
                break
    return found


def _shards(look: _Look) -> Iterator[str]:
    yield from missing_of_series(look.names)
    for name in sorted(look.names):
        if name.endswith(".index.json") and look.sizes[name] <= MAX_INDEX_BYTES:
            found = index_findings(name, (look.path / name).read_bytes(), {one: () for one in look.names})
            yield from found.missing
            yield from (f"a whole {name}: {sentence}" for sentence in found.stale if "cannot be read" in sentence)
