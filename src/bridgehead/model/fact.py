"""Facts: what a tool's output says of one thing, and where it says so (M2; design rule 1: evidence)."""

from __future__ import annotations

import enum

import msgspec

Value = str | int | float | bool | tuple[str, ...] | None


class Status(enum.StrEnum):
    """Whether a fact can be used. UNKNOWN never passes a check; CONFLICT names what contradicts what."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"


class Source(msgspec.Struct, frozen=True, gc=False):
    """Where a fact comes from.

    Attributes:
        tool: name of the parser, such as ``nvidia-smi-topo``.
        file: path of the captured output, as it was given.
        line: counted from 1; of structured output the line where the value stands, or 1.
        at_s: when it was captured, seconds since 1970; None where the output and its file do not say.
    """

    tool: str
    file: str
    line: int
    at_s: float | None = None


class Fact(msgspec.Struct, frozen=True, gc=False):
    """One statement.

    Attributes:
        subject: a path of ``kind:name`` from the outside in, such as ``node:gpu01/gpu:0``, ``switch:S-0002c9/port:17``,
            ``cluster:alpha/job:1234``. Names are those that the tool uses.
        attribute: lower case with dashes, such as ``driver-version``, ``link-to:gpu:1``.
        value: None exactly when the status is UNKNOWN.
        unit: SI symbol or a word of ``kernel.quantity``; empty for names, counts and words.
        status: see Status.
        source: where it stands.
        note: why it is unknown or in conflict, in words, with what the tool printed; empty for a plain fact.
    """

    subject: str
    attribute: str
    value: Value
    unit: str
    status: Status
    source: Source
    note: str = ""


class Skipped(msgspec.Struct, frozen=True):
    """A part of the output that gave no fact, and why. Nothing is left out without one."""

    file: str
    line: int
    reason: str
