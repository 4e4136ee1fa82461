"""Megatron's checkpoint folders: told by their names; complete when all ranks have the same files (V07, V11).

Layout: ``latest_checkpointed_iteration.txt`` holds a number, or ``release``; beside it ``iter_0001200`` (seven digits) or ``release`` with
a folder for each rank: ``mp_rank_TT``, ``mp_rank_TT_PPP``, ``mp_rank_TT_PPP_EEE`` (tensor, pipeline, expert parallel), each of which holds
``model_optim_rng.pt`` and possibly ``distrib_optim.pt``. Where the folder holds a distributed checkpoint of torch, its own rules say
the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bridgehead.model.snapshot import Finding
from bridgehead.vault.formats.tree import Tree, lacking, missing

MARK: Final = "latest_checkpointed_iteration.txt"
_RANK: Final = re.compile(r"mp_rank_([0-9]{2,6})(?:_([0-9]{3,6}))?(?:_([0-9]{3,6}))?")


def megatron_findings(tree: Tree) -> Iterator[Finding]:
    """Ranks that lack, files that lack in a rank, and iterations that the tracker names and that are not there."""
    for folder, names in sorted(tree.folders.items()):
        if MARK in names:
            text = tree.mark(folder + MARK)
            name = f"iter_{int(text):07d}" if text.isascii() and text.isdigit() else text
            if re.fullmatch(r"iter_[0-9]{7,}|release", name) and not tree.has_folder(f"{folder}{name}/"):
                yield missing(f"{folder}{name}/", f"{folder}{MARK} names this folder, and it is not there")
    parents: dict[str, dict[str, set[str]]] = {}
    for folder, names in tree.folders.items():
        parent, _, rank = folder.rstrip("/").rpartition("/")
        if _RANK.fullmatch(rank):
            parents.setdefault(f"{parent}/" if parent else "", {})[rank] = {name for name in names if name.endswith(".pt")}
    for parent, ranks in sorted(parents.items()):
        every = set().union(*ranks.values())
        for rank in lacking(ranks, _RANK):
            yield missing(f"{parent}{rank}/", "the folders of other ranks are there, and this one is not")
        for rank, names in sorted(ranks.items()):
            for name in sorted(every - names):
                yield missing(f"{parent}{rank}/{name}", "other ranks have this file, and this one does not")
