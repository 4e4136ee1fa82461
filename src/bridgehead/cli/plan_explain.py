"""``bridgehead plan explain`` and ``plan diff``: why a plan is as it is, and what another one does otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

if TYPE_CHECKING:
    from bridgehead.planning.explain import Explanation
    from bridgehead.planning.plan_diff import Change

_MOST = 20
"""Changes of one kind that are listed in words."""


def explain_plan(plan: Path, estate: Path, policy: Path, what: str = "", /, *, json: JsonOption = False) -> int:
    """Say why something is where and when the plan has it, what is at its limit just before, and what would have to change first.

    Without WHAT it says what the end of the plan hangs on: from the last thing that goes over back along what each waited for.
    It is counted from the three files alone, so a plan that was written by hand can be explained too.

    Args:
        plan: a plan file.
        estate: the estate that it is for.
        policy: the policy that it is for.
        what: the id of a workload, rack, wave, transfer or service of the plan.
    """
    from bridgehead.app.plan_files import load_planned
    from bridgehead.planning.course import Course
    from bridgehead.planning.explain import explain

    given = load_planned(plan, estate, policy)
    found = explain(Course(given.plan, given.estate, given.policy), what)
    if json:
        print(msgspec.json.encode(msgspec.to_builtins(found) | {"notes": given.others}).decode())
        return ExitCode.DONE
    for note in given.others:
        print(f"note: {note}")
    print("\n".join(explanation_lines(found)))
    return ExitCode.DONE


def diff_plans(before: Path, after: Path, /, *, json: JsonOption = False) -> int:
    """Compare two plans by identity: score, phases, swings, waves, racks, places; exit code 0 when they are the same, 1 when they differ.

    Args:
        before: a plan file.
        after: another.
    """
    from bridgehead.app.plan_files import load_plan
    from bridgehead.planning.plan_diff import plan_changes

    found = plan_changes(load_plan(before), load_plan(after))
    if json:
        print(msgspec.json.encode({"same": not found, "changes": found}).decode())
    else:
        print("\n".join(diff_lines(found)))
    return ExitCode.NEGATIVE if found else ExitCode.DONE


def explanation_lines(found: Explanation) -> list[str]:
    """An explanation for a terminal."""
    from bridgehead.kernel.moment import format_moment
    from bridgehead.kernel.quantity import format_duration, format_rate

    lines = [f"{found.kind} {found.what}", *(f"  {fact}" for fact in found.facts), "", f"First to change: {found.first}"]
    if found.limits:
        lines.append("\nSince when each rule would have allowed it (* binds)")
        for limit in found.limits:
            at = format_moment(float(int(limit.allows_s)))[:16] + "Z"
            lines.append(f"  {'*' if limit.binds else ' '} {at}  {limit.code}: {limit.text}")
    if found.full:
        lines.append("\nAt or near its limit just before")
        for load in found.full:
            rate = load.unit == "bit/s"
            used, limit_ = (format_rate(value, digits=3) if rate else f"{value:,.6g}" for value in (load.used, load.limit))
            lines.append(f"  {load.share:6.1%}  {load.code}: {load.what}, {used} of {limit_}{'' if rate else f' {load.unit}'}")
    if found.ways:
        lines.append("\nWays to go over")
        for way in found.ways:
            lost = (
                "not known" if way.lost_s is None else f"{format_duration(way.lost_s, digits=3)}, {way.lost_gpu_hours or 0:,.4g} GPU-hours"
            )
            lines.append(f"  {way.mode.value}: {f'{lost} ({way.because})' if way.fits else f'no: {way.because}'}")
    if found.chain:
        lines += ["\nWhat the end hangs on, the last first", *(f"  {one}" for one in found.chain)]
    return lines


def diff_lines(found: tuple[Change, ...]) -> list[str]:
    """Changes for a terminal, by kind."""
    lines: list[str] = []
    kinds = dict.fromkeys(change.kind for change in found)
    for kind in kinds:
        held = [change for change in found if change.kind == kind]
        lines.append(f"{kind}: {len(held)} change{'' if len(held) == 1 else 's'}")
        lines += [f"  {_change_line(change)}" for change in held[:_MOST]]
        if len(held) > _MOST:
            lines.append(f"  and {len(held) - _MOST} more; --json lists all")
    return lines or ["the plans are the same"]


def _change_line(change: Change) -> str:
    from bridgehead.kernel.quantity import format_duration

    name = f"{change.id} {change.field}".rstrip()
    if change.before is None:
        return f"+ {name}: {change.after}"
    if change.after is None:
        return f"- {name}: {change.before}"
    shift = ""
    if change.shift_s is not None:
        shift = f" ({format_duration(abs(change.shift_s), digits=3)} {'later' if change.shift_s > 0 else 'earlier'})"
    return f"~ {name}: {change.before or '(none)'} -> {change.after or '(none)'}{shift}"
