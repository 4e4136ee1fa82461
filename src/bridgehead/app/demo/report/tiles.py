"""Tiles: the key figures. What was not measured says so, and is never shown as zero."""

from __future__ import annotations

import msgspec

from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.report import words
from bridgehead.app.demo.report.lost_compute import compared
from bridgehead.app.demo.summary import Summary


class Line(msgspec.Struct, frozen=True):
    """A named text below the number of a tile; ``share`` (0 to 1) draws a bar, ``code`` sets it in fixed width."""

    name: str
    text: str
    share: float | None = None
    code: bool = False


class Tile(msgspec.Struct, frozen=True):
    """One key figure.

    Attributes:
        value: the number in large letters.
        tone: good, bad, warn, plain or none (not measured); good and bad also get a sign.
        note: what the number is of, or is compared with.
        wide: takes twice the room.
    """

    label: str
    value: str
    tone: str
    note: str
    lines: tuple[Line, ...] = ()
    wide: bool = False


def tiles(summary: Summary) -> list[Tile]:
    """All tiles, in the order of the page."""
    streams = f"{words.plural(summary.streams, 'answer')} streamed"
    return [
        Tile("Requests sent", words.count(summary.requests_sent), "plain", f"each answer checked; {streams}"),
        _zero("Failed", summary.requests_failed, summary, "no answer, or an error"),
        _zero("Answered wrong", summary.requests_wrong, summary, "checked word by word"),
        _zero("Streams cut", summary.requests_cut, summary, f"of {words.count(summary.streams)}, before their last token"),
        _lost_compute(summary),
        _weights(summary),
        _steps_lost(summary),
        Tile("Snapshots", words.size(summary.raw_bytes), "plain", f"raw, arrived at {TARGET}; {words.size(summary.stored_bytes)} stored"),
        _wire(summary),
        _resume(summary),
    ]


def _zero(label: str, number: int, summary: Summary, note: str) -> Tile:
    """A number that should be zero. In a breakage whose promises held, more is worth a look but no fault."""
    tone = "good" if number == 0 else "warn" if summary.kept and summary.kind != "move" else "bad"
    return Tile(label, words.count(number), tone if summary.requests_sent else "plain", note)


def _unmeasured(label: str, *, wide: bool = False) -> Tile:
    return Tile(label, "—", "none", words.NOT_MEASURED, wide=wide)


def _steps_lost(summary: Summary) -> Tile:
    label = "Training steps lost"
    if summary.steps_lost is None:
        return _unmeasured(label)
    tone = "good" if summary.steps_lost == 0 else "warn" if summary.kept else "bad"
    return Tile(label, words.count(summary.steps_lost), tone, f"of {words.plural(summary.steps, 'step')}")


def _weights(summary: Summary) -> Tile:
    label = "Final weights, moved and never moved"
    hashes = tuple(
        Line(name, grouped(value) if value else words.NOT_MEASURED, code=bool(value))
        for name, value in (("moved", summary.weights_hash_moved), ("unmoved", summary.weights_hash_unmoved))
    )
    if summary.weights_identical is None:
        return Tile(label, "—", "none", words.NOT_MEASURED, hashes if summary.weights_hash_moved else (), wide=True)
    if summary.weights_identical:
        return Tile(label, "Bit-identical", "good", "as if the training had never been moved", hashes, wide=True)
    return Tile(label, "Different", "bad", "the move changed what the training computed", hashes, wide=True)


def _lost_compute(summary: Summary) -> Tile:
    label = "Lost compute"
    precopy, plain = summary.lost_compute_s_precopy, summary.lost_compute_s_stop_copy_start
    if precopy is None and plain is None:
        return _unmeasured(label, wide=True)
    longest = max(value for value in (precopy, plain) if value is not None) or 1.0
    lines = tuple(
        Line(name, words.NOT_MEASURED if value is None else words.seconds(value), share=None if value is None else value / longest)
        for name, value in (("pre-copied", precopy), ("stop, copy, start", plain))
    )
    note = compared(summary)
    value = "—" if precopy is None else words.seconds(precopy)
    tone = "none" if precopy is None else "good" if note.endswith("less") else "bad" if note else "plain"
    return Tile(label, value, tone, f"{note} than by stop, copy and start" if note else "of one GPU, at the cut-over", lines, wide=True)


def _wire(summary: Summary) -> Tile:
    share = f"{words.percent(100 * summary.wire_bytes / summary.raw_bytes)} of raw; " if summary.raw_bytes else ""
    return Tile("On the wire", words.size(summary.wire_bytes), "plain", f"{share}{SOURCE} to {TARGET}")


def _resume(summary: Summary) -> Tile:
    label = "Engine resumes in"
    if summary.resume_s is None:
        return _unmeasured(label)
    value = words.milliseconds(summary.resume_s) if summary.resume_s < 1 else words.seconds(summary.resume_s)
    killed = summary.kind == "controller"
    return Tile(label, value, "plain", "after kill -9, the longest" if killed else "to read and fold the journal")


def grouped(hash_text: str) -> str:
    """A hash in groups of eight, so that two can be compared by eye."""
    return " ".join(hash_text[begin : begin + 8] for begin in range(0, len(hash_text), 8))
