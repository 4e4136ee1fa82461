"""DeepSpeed's checkpoint folders: told by the names of their files; complete when the files of all ranks are there (V07, V11).

Layout: ``latest`` names a folder beside it (``global_step1200``). In that folder, by ZeRO stage and kind of parallelism:
``mp_rank_MM_model_states.pt``, ``zero_pp_rank_D_mp_rank_MM_optim_states.pt`` (with ``bf16_`` or ``fp16_`` before it, and ``_model_states``
for stage 3), ``layer_LL-model_MM-model_states.pt``, ``layer_L_expert_E_mp_rank_MM_model_states.pt`` and
``expp_rank_E_mp_rank_MM_optim_states.pt``. The states of the first model rank say how many ranks there are; where they
do not, the highest rank that is seen counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bridgehead.model.snapshot import Finding
from bridgehead.vault.formats.pickleshape import MAX_PICKLE_BYTES, Table, Unreadable, read_pickle
from bridgehead.vault.formats.tree import Tree, lacking, missing
from bridgehead.vault.formats.zipdirectory import read_archives

MARK: Final = "latest"
_STATES: Final = re.compile(r".*_(?:optim|model)_states\.pt")
_TAG: Final = re.compile(r"global_step[0-9]+")
_ZERO: Final = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_([0-9]{1,6})_mp_rank_([0-9]{1,6})_(?:optim|model)_states\.pt")
_RANKS: Final = (
    re.compile(r"mp_rank_([0-9]{1,6})_model_states\.pt"),
    re.compile(r"(?:bf16_|fp16_)?expp_rank_([0-9]{1,6})_mp_rank_([0-9]{1,6})_optim_states\.pt"),
)
_LAYERS: Final = (
    re.compile(r"layer_([0-9]{1,6})-model_([0-9]{1,6})-model_states\.pt"),
    re.compile(r"layer_([0-9]{1,6})_expert_([0-9]{1,6})_mp_rank_([0-9]{1,6})_model_states\.pt"),
)


def deepspeed_findings(tree: Tree) -> Iterator[Finding]:
    """What lacks in each folder of this kind, and folders that ``latest`` names and that are not there."""
    folders = {folder: names for folder, names in tree.folders.items() if any(map(_is_states, names))}
    for folder, names in sorted(tree.folders.items()):
        tag = tree.mark(folder + MARK) if MARK in names else ""
        ours = _TAG.fullmatch(tag) or any(other.startswith(folder) and other != folder for other in folders)
        if tag and ours and "/" not in tag and not tree.has_folder(f"{folder}{tag}/"):
            yield missing(f"{folder}{tag}/", f"{folder}{MARK} names this folder, and it is not there")
    for folder, names in sorted(folders.items()):
        data, model = _world(tree, folder, names)
        rows = [*lacking(names, _ZERO, counts=(data, model)), *lacking(names, _RANKS[0], counts=(model,)), *lacking(names, _RANKS[1])]
        rows += [name for pattern in _LAYERS for name in lacking(names, pattern, free=1)]
        if not any(name.endswith("model_states.pt") for name in names):
            rows.append("mp_rank_00_model_states.pt")
        for name in rows:
            yield missing(folder + name, "the files of other ranks are there, and this one is not")


def _is_states(name: str) -> bool:
    return _STATES.fullmatch(name) is not None


def _world(tree: Tree, folder: str, names: set[str]) -> tuple[int, int]:
    """How many ranks wrote it, (data parallel, model parallel), as the first rank's states say; zeros when they do not."""
    first = next((name for name in sorted(names) if name.endswith("mp_rank_00_model_states.pt")), None)
    if first is None:
        return 0, 0
    path = folder + first
    archives = read_archives(tree.files[path].size_bytes, lambda offset, size: tree.part(path, offset, size))
    for archive in archives.archives if archives else ():
        for member in archive.members:
            if member.name.endswith("/data.pkl") and member.place is not None and member.place.size_bytes <= MAX_PICKLE_BYTES:
                return _sizes(tree.part(path, member.place.offset_bytes, member.place.size_bytes))
    return 0, 0


def _sizes(pickle: bytes) -> tuple[int, int]:
    try:
        root = read_pickle(pickle, persistent=lambda _: None, call=lambda call: call)
    except Unreadable:
        return 0, 0
    found = {key: value for key, value in root.pairs if isinstance(key, str)} if isinstance(root, Table) else {}
    sizes = [found.get("dp_world_size"), found.get("mp_world_size")]
    data, model = (size if type(size) is int and 0 < size < 1_000_000 else 0 for size in sizes)
    return data, model
