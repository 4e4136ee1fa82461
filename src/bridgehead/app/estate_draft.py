"""Estate drafts: what discovery proves as an estate file, or as the difference to the file that is there (M5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bridgehead.app.declared import complete
from bridgehead.app.estate_files import load_estate
from bridgehead.app.whole_file import whole_file
from bridgehead.app.wiring import driver_options
from bridgehead.discovery.draft import Draft, draft
from bridgehead.discovery.draft_notes import Lack
from bridgehead.discovery.knowledge import Knowledge
from bridgehead.kernel.document import dump
from bridgehead.kernel.ids import SiteId
from bridgehead.model.difference import Difference, differences
from bridgehead.model.estatefile import estate_data, read_estate_data

_NAME = "discovered"


class Kept(msgspec.Struct, frozen=True):
    """What became of the estate file.

    Attributes:
        written: whether the file is new or was overwritten.
        differences: from the file that was there to what was discovered; empty when there was none.
        lacks: what planning needs and nobody said; empty where something was declared, but for what was measured between sites,
            since an assessment then knows it better.
        disputes: what was discovered (``before``, which stays) and declared (``after``) where they differ.
        alone: paths of sites and nodes that were declared and not discovered.
    """

    written: bool
    differences: tuple[Difference, ...]
    lacks: tuple[Lack, ...]
    disputes: tuple[Difference, ...] = ()
    alone: tuple[str, ...] = ()


def keep_estate(known: Mapping[SiteId, Knowledge], path: Path, *, force: bool, declared: Sequence[Path] = ()) -> Kept:
    """Write the estate file. One that is there already is compared, and overwritten only with ``force``.

    Args:
        known: what was found, by site.
        declared: files with what people know and no tool prints; their order changes nothing.

    Raises BAD_INPUT when a file is there that is no estate (also with ``force``: it is somebody's), or for a place that cannot be
    written to, OSError for a full disk.
    """
    drivers = driver_options()
    before = load_estate(path) if path.exists() else None
    drawn = draft(known, name=_NAME if before is None else before.name)
    disputes: tuple[Difference, ...] = ()
    alone: tuple[str, ...] = ()
    if declared:
        completed = complete(drawn.estate, *declared, waiting=drawn.waiting)
        drawn = Draft(completed.estate, completed.lacks)
        disputes, alone = completed.disputes, completed.alone
    if before is not None:
        found = tuple(differences(estate_data(before, drivers=drivers), estate_data(drawn.estate, drivers=drivers)))
        if not force or not found:
            return Kept(False, found, drawn.lacks, disputes, alone)
        _write(path, drawn)
        return Kept(True, found, drawn.lacks, disputes, alone)
    _write(path, drawn)
    return Kept(True, (), drawn.lacks, disputes, alone)


def estate_text(drawn: Draft) -> str:
    """The file: what is lacking as comments, then the estate. Raises BAD_INPUT should it not read back."""
    head = ["# Written by `bridgehead discover`. Only what captured output proves, or was declared, stands here."]
    if drawn.lacks:
        head += ["# What planning still lacks, and what settles it:"]
        head += [f"# - {_one_line(lack.what)}: {_one_line(lack.settled_by)}" for lack in drawn.lacks]
    data = estate_data(drawn.estate, drivers=driver_options())
    read_estate_data(data, file="what was discovered", drivers=driver_options())
    return "\n".join(head) + "\n" + dump(data)


def _write(path: Path, drawn: Draft) -> None:
    text = estate_text(drawn)
    with whole_file(path, what="estate") as stream:
        stream.write(text.encode())


def _one_line(text: str) -> str:
    """Names come from files: nothing in them ends a comment."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
