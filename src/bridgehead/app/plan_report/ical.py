"""Calendar: a plan as iCalendar (RFC 5545), for the calendars of everybody who takes part. All times are UTC.

An event keeps its UID from one generation of a plan to the next, and SEQUENCE grows with it: an import again moves what was there.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import msgspec

from bridgehead import __version__
from bridgehead.kernel.quantity import format_bytes, format_duration
from bridgehead.model.plan import Plan

_LINE_OCTETS = 75


class Event(msgspec.Struct, frozen=True):
    """One entry. ``ends_s`` equal to ``begins_s`` is a moment."""

    uid: str
    summary: str
    begins_s: float
    ends_s: float
    description: str
    category: str


def calendar(plan: Plan, *, made_s: float) -> str:
    """The whole calendar.

    Args:
        made_s: when it was made, seconds since 1970 (DTSTAMP).
    """
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", f"PRODID:-//Bridgehead//Bridgehead {__version__}//EN", "CALSCALE:GREGORIAN"]
    lines.append(f"X-WR-CALNAME:{_text(f'{plan.name}: {plan.source} to {plan.target}')}")
    for event in events(plan):
        lines += ["BEGIN:VEVENT", f"UID:{_text(event.uid)}", f"DTSTAMP:{_utc(made_s)}", f"DTSTART:{_utc(event.begins_s)}"]
        if _utc(event.ends_s) > _utc(event.begins_s):  # DTEND has to be later than DTSTART
            lines.append(f"DTEND:{_utc(event.ends_s)}")
        lines += [f"SEQUENCE:{plan.generation - 1}", f"SUMMARY:{_text(event.summary)}", f"CATEGORIES:{_text(event.category)}"]
        if event.description:
            lines.append(f"DESCRIPTION:{_text(event.description)}")
        lines += ["TRANSP:TRANSPARENT", "END:VEVENT"]
    lines.append("END:VCALENDAR")
    return "".join(_folded(line) for line in lines)


def events(plan: Plan) -> Iterator[Event]:
    """Phases, services, couriers, swings, waves with their tasks, and the moments until which going back is cheap."""
    for phase in plan.phases:
        yield Event(_uid(plan, "phase", phase.id), f"Phase: {phase.id.value}", phase.begins_s, phase.ends_s, "", "phase")
    for copy in plan.services:
        yield Event(_uid(plan, "service", copy.id), f"Replicate service {copy.id}", copy.begins_s, copy.ends_s, copy.mode.value, "service")
    for transfer in plan.transfers:
        if transfer.courier:
            summary = f"Courier {transfer.courier}: {transfer.id}, {format_bytes(transfer.size_bytes, digits=3)}"
            yield Event(_uid(plan, "courier", transfer.id), summary, transfer.begins_s, transfer.ends_s, "", "courier")
    for swing in plan.swings:
        lost = f"stands still for {format_duration(swing.lost_s, digits=3)}, {swing.lost_gpu_hours:.3g} GPU-hours"
        summary = f"{swing.id} goes over ({swing.mode.value})"
        yield Event(_uid(plan, "swing", swing.id), summary, swing.begins_s, swing.ends_s, lost, "swing")
    for wave in plan.waves:
        summary = f"{wave.id}: {len(wave.racks)} racks" + (" (bridgehead)" if wave.bridgehead else "")
        yield Event(_uid(plan, "wave", wave.id), summary, wave.out_s, wave.joins_s, f"racks {', '.join(wave.racks)}", "wave")
        for task in wave.tasks:
            who = f" by {task.crew}, {task.teams} teams" if task.crew else ""
            prepared = "" if task.prepared_from_s is None else f"preparation from {_utc(task.prepared_from_s)}"
            uid = _uid(plan, "task", f"{wave.id}.{task.id}")
            yield Event(uid, f"{wave.id}: {task.id.value}{who}", task.begins_s, task.ends_s, prepared, "task")
    for point in plan.rollback:
        words = f"afterwards it is no longer cheap: {point.back}; trigger: {point.trigger}"
        yield Event(_uid(plan, "rollback", point.id), f"Last call to go back: {point.id}", point.until_s, point.until_s, words, "rollback")


def _uid(plan: Plan, kind: str, name: str) -> str:
    return f"{kind}.{name}.{plan.name}.{plan.source}.{plan.target}@bridgehead"


def _utc(moment_s: float) -> str:
    return datetime.datetime.fromtimestamp(round(moment_s), tz=datetime.UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(value: str) -> str:
    """TEXT of RFC 5545, section 3.3.11; other control characters may not stand in it."""
    escaped = value.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\r\n", "\n").replace("\n", "\\n")
    return "".join(sign for sign in escaped if sign >= " " and sign != "\x7f")


def _folded(line: str) -> str:
    """Lines of at most 75 octets; a fold never parts a character (section 3.1)."""
    parts: list[str] = []
    held = ""
    for sign in line:
        if len((held + sign).encode()) > _LINE_OCTETS - (1 if parts else 0):
            parts.append(held)
            held = ""
        held += sign
    return "\r\n ".join([*parts, held]) + "\r\n"
