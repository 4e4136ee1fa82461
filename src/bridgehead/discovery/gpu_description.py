"""Descriptions of GPUs as ``nvidia-smi -q`` gives them, gathered by either of its forms and stated in one way (M2). Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.discovery.nvidia import bus_id, printed_note
from bridgehead.discovery.nvidia_readings import BY_PATH, MIG_READINGS, NODE_WORDS, READINGS, fabric_note, fabric_ready, state_reading
from bridgehead.discovery.parsing import Statements

Leaf = tuple[str, int]
"""What stands at a path, and in which line."""
_FABRIC: Final = ("fabric/state", "fabric/status", ("fabric/cliqueid", "fabric/clique_id"), ("fabric/clusteruuid", "fabric/cluster_uuid"))
_NAMED: Final = 8


class Described(msgspec.Struct):
    """One GPU: its address as printed (empty where the output does not say), its readings by path, its instances."""

    address: str
    line: int
    leaves: dict[str, Leaf] = msgspec.field(default_factory=dict)
    instances: list[dict[str, Leaf]] = msgspec.field(default_factory=list)


class Description(msgspec.Struct):
    """All that one output says. ``left_out``: sections of readings that no fact is made of and that ``gpus`` do not have, with a line."""

    node: dict[str, Leaf] = msgspec.field(default_factory=dict)
    gpus: list[Described] = msgspec.field(default_factory=list)
    left_out: dict[str, int] = msgspec.field(default_factory=dict)


def state_description(say: Statements, found: Description) -> None:
    """State the facts of the node and of each GPU.

    A GPU is named by its index, which is its place in the output, only where all attached GPUs are described. Otherwise the place says
    nothing (``-i 3`` describes one of eight), and the PCI address names it.
    """
    for path, attribute in NODE_WORDS.items():
        if path in found.node:
            text, line = found.node[path]
            say.word(say.node, attribute, text, line=line)
    whole = _state_count(say, found)
    left_out = dict(found.left_out)
    for place, gpu in enumerate(found.gpus):
        subject = f"{say.node}/gpu:{place if whole else bus_id(gpu.address) or '?'}"
        _state_gpu(say, subject, gpu)
        for path, (_, line) in gpu.leaves.items():
            if path not in BY_PATH:
                left_out.setdefault(path.partition("/")[0], line)
    if left_out:
        names = ", ".join(list(left_out)[:_NAMED]) + (", ..." if len(left_out) > _NAMED else "")
        say.skip(min(left_out.values()), f"readings that no fact is made of, in {len(left_out)} sections: {names}")


def _state_count(say: Statements, found: Description) -> bool:
    """State how many GPUs are attached; whether all of them are described."""
    described = len(found.gpus)
    if "attached_gpus" not in found.node:
        return False
    text, line = found.node["attached_gpus"]
    if not text.strip().isascii() or not text.strip().isdigit() or len(text.strip()) > 4:
        say.unknown(say.node, "gpu-count", line=line, note=printed_note(text))
        return False
    attached = int(text)
    if attached == described:
        say.known(say.node, "gpu-count", attached, line=line)
        return True
    note = f"{attached} are said to be attached, {described} described: a part of the output, or GPUs are missing"
    say.conflict(say.node, "gpu-count", attached, line=line, note=note)
    say.skip(line, note)
    return False


def _state_gpu(say: Statements, subject: str, gpu: Described) -> None:
    leaves = gpu.leaves
    if gpu.address and not any(path in leaves for path in ("pci/pci_bus_id", "pci/bus_id")):
        leaves["pci/bus_id"] = (gpu.address, gpu.line)
    for reading in READINGS:
        for path in reading.paths:
            if path in leaves:
                text, line = leaves[path]
                state_reading(say, subject, (reading.attribute, reading.kind, reading.unit), text, line=line)
                break
    _state_fabric(say, subject, leaves)
    if gpu.instances:
        say.known(subject, "mig-instances", len(gpu.instances), line=gpu.line)
    for instance in gpu.instances:
        if "index" not in instance:
            continue
        for path, what in MIG_READINGS.items():
            if path in instance:
                text, line = instance[path]
                state_reading(say, f"{subject}/mig:{instance['index'][0].strip()[:20]}", what, text, line=line)


def _state_fabric(say: Statements, subject: str, leaves: dict[str, Leaf]) -> None:
    found = [_first(leaves, path if isinstance(path, tuple) else (path,)) for path in _FABRIC]
    if found[0] is None:
        return
    line = found[0][1]
    texts = [leaf[0] if leaf else "" for leaf in found]
    ready = fabric_ready(*texts)
    if ready is None:
        say.unknown(subject, "fabric-ready", line=line, note=fabric_note(*texts))
    else:
        say.known(subject, "fabric-ready", ready, line=line)


def _first(leaves: dict[str, Leaf], paths: tuple[str, ...]) -> Leaf | None:
    return next((leaves[path] for path in paths if path in leaves), None)
