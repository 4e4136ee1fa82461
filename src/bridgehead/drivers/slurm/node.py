"""A node as Slurm knows it, read from sinfo."""

from __future__ import annotations

from typing import Final

import msgspec

_WORKING: Final = {"IDLE", "MIXED", "ALLOCATED"}
_HARMLESS: Final = {"CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_NORM", "FAIL", "INVALID_REG", "MAINTENANCE", "PLANNED", "RESERVED"}
"""Flags beside which a node answers. Others say that it does not (NOT_RESPONDING), or is off, or boots, or are not known here."""
_CLOSING: Final = frozenset({"DRAIN", "FAIL", "INVALID_REG"})
FENCED: Final = "fenced"
"""With it begins the reason of a node that surely runs nothing, as a person says who cut its power."""


class NodeState(msgspec.Struct, frozen=True):
    """One node.

    Attributes:
        state: with all its flags, as ``IDLE+DRAIN``.
        reason: why it is drained or down; "" for none.
    """

    name: str
    state: str
    reason: str

    @property
    def answers(self) -> bool:
        """Positive evidence that its slurmd answers: a node that somebody set down, however silent, is none."""
        base, *flags = self.state.upper().split("+")
        return base in _WORKING and set(flags) <= _HARMLESS

    @property
    def drained(self) -> bool:
        """Closed to new jobs, by whomever; it may be down besides."""
        return "DRAIN" in self.state.upper().split("+")

    @property
    def open(self) -> bool:
        """Takes new jobs, if only those of a reservation."""
        return self.answers and not _CLOSING & set(self.state.upper().split("+"))

    @property
    def idle(self) -> bool:
        """No job has a processor there, positively; a suspended one may still have memory."""
        base, *flags = self.state.upper().split("+")
        return self.fenced or (self.answers and base == "IDLE" and "COMPLETING" not in flags)

    @property
    def fenced(self) -> bool:
        """Somebody said that it surely runs nothing."""
        return self.reason.lower().startswith(FENCED)


_FIELDS: Final = (("NodeList", 256), ("StateComplete", 256), ("Reason", 256))
FORMAT: Final = ",".join(f"{name}:{width}" for name, width in _FIELDS)
"""What sinfo is asked for: fixed columns, because a reason may hold any separator."""


def read_sinfo(text: str) -> list[NodeState]:
    """The lines of ``sinfo -h -N -O FORMAT``, a node of several partitions once. Raises ValueError for what is none."""
    found: dict[str, NodeState] = {}
    for line in text.splitlines():
        cells, start = [], 0
        for _, width in _FIELDS:
            cells.append(line[start : start + width].strip())
            start += width
        name, state, reason = cells
        if not name or not state or " " in name or " " in state:
            raise ValueError(f"not in the columns that were asked for: {line!r}")
        found[name] = NodeState(name, state, "" if reason == "none" else reason)
    return list(found.values())
