"""How a plan looks in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bridgehead.cli.terminal import Terminal
from bridgehead.kernel.moment import format_moment
from bridgehead.kernel.quantity import format_bytes, format_duration
from bridgehead.model.plan import Plan
from bridgehead.planning.level_words import level_words

_MOST = 24
_NO_BOUND = 0.995
"""A gap from here on says nothing."""


def print_plan(plan: Plan, *, all_of_them: bool, console: Console | None = None) -> None:
    """The whole plan, long lists cut off unless ``all_of_them``."""
    console = console or Terminal()
    generation = f", generation {plan.generation}" if plan.generation > 1 else ""
    console.print(Text.assemble((plan.name, "bold"), f"  {plan.source} to {plan.target}{generation}, seed {plan.seed}"))
    console.print(f"{_at(plan.begins_s)} to {_at(plan.ends_s)} UTC")
    _print_score(console, plan)
    most = None if all_of_them else _MOST
    _table(
        console, "Phases", ("phase", "begins", "ends", "lasts"),
        [(one.id.value, _at(one.begins_s), _at(one.ends_s), _lasting(one.ends_s - one.begins_s)) for one in plan.phases], most,
    )  # fmt: skip
    _table(
        console, "Critical services", ("service", "begins", "ends", "how"),
        [(one.id, _at(one.begins_s), _at(one.ends_s), one.mode.value) for one in plan.services], most,
    )  # fmt: skip
    _table(
        console, "Data", ("what", "begins", "ends", "size", "way"),
        [(one.id, _at(one.begins_s), _at(one.ends_s), format_bytes(one.size_bytes, digits=3), _way(one.courier, one.rate_bps))
         for one in plan.transfers], most,
    )  # fmt: skip
    _table(
        console, "Hardware waves", ("wave", "out", "joins", "racks", "vehicles", ""),
        [(one.id, _at(one.out_s), _at(one.joins_s), str(len(one.racks)), str(len(one.vehicles)), "bridgehead" if one.bridgehead else "")
         for one in plan.waves], most,
    )  # fmt: skip
    _table(
        console, "Workloads", ("workload", "begins", "ends", "how", "stands still", "GPU-hours lost"),
        [(one.id, _at(one.begins_s), _at(one.ends_s), one.mode.value, _lasting(one.lost_s) if one.lost_s else "never",
          f"{one.lost_gpu_hours:,.2f}") for one in sorted(plan.swings, key=lambda one: (one.begins_s, one.id))], most,
    )  # fmt: skip
    _table(
        console, "On fewer GPUs for a while", ("workload", "site", "begins", "ends", "GPUs meanwhile"),
        [(one.workload, one.site, _at(one.begins_s), _at(one.ends_s), str(one.gpus)) for one in plan.shrinks], most,
    )  # fmt: skip
    _table(console, "Spares", ("model", "count", "because"), [(one.model, str(one.count), one.because) for one in plan.spares], most)
    _table(
        console, "Cheap to go back until", ("from", "until", "how", "when"),
        [(one.id, _at(one.until_s), one.back, one.trigger) for one in plan.rollback], most,
    )  # fmt: skip
    _table(console, "Assumptions: nobody gave", ("field", "taken for", "because"),
           [(one.field, one.taken, one.because) for one in plan.assumptions], most)  # fmt: skip


def _print_score(console: Console, plan: Plan) -> None:
    score = plan.score
    proved = (
        "proved to be the best"
        if score.gap == 0
        else f"at most {score.gap:.2%} from the best"
        if score.gap < _NO_BOUND
        else "no bound is known"
    )
    console.print(Text(f"\nScore: {proved}; {score.lost_gpu_hours:,.2f} GPU-hours are lost", style="bold"))
    for level in score.levels:
        console.print(f"  {level_words(level)}")
    if score.binding:
        console.print(f"  binds: {', '.join(score.binding)}")


def _table(console: Console, title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]], most: int | None) -> None:
    if not rows:
        return
    console.print(Text(f"\n{title} ({len(rows)})", style="bold"))
    table = Table.grid(padding=(0, 2))
    for number in range(len(columns)):
        table.add_column(no_wrap=number < len(columns) - 1)
    table.add_row(*(Text(column, style="dim") for column in columns))
    for row in rows[:most]:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, (0, 0, 0, 2)))
    if most is not None and len(rows) > most:
        console.print(f"  {len(rows) - most} more; --all lists them")


def _at(moment_s: float) -> str:
    return format_moment(float(round(moment_s)))[:16]


def _lasting(lasts_s: float) -> str:
    return format_duration(lasts_s, digits=3)


def _way(courier: str, rate_bps: float) -> str:
    return f"courier {courier}" if courier else f"line, {rate_bps / 1e9:.3g} Gb/s"
