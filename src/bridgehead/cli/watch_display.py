"""Display of the watch: made for 80 columns and better with more. Rich is imported here."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bridgehead.app.watch_memory import HistoryLine
from bridgehead.cli.terminal import Terminal
from bridgehead.model.finding import FindingStatus
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.liveness import SiteState, SiteVerdict
from bridgehead.recovery.watch.readiness import WatchReport, WorkloadLine
from bridgehead.recovery.watch.scene import shown_s

_MARKS: Final = {FindingStatus.PASS: ("✓", "green"), FindingStatus.FAIL: ("✗", "bold red"), FindingStatus.UNKNOWN: ("?", "yellow")}
_SITES: Final = {SiteState.ALIVE: "green", SiteState.SILENT: "yellow", SiteState.LOST: "bold red", SiteState.UNKNOWN: "yellow"}
_WIDE: Final = 110
_BARS: Final = "▁▂▃▄▅▆▇█"


class LiveReport:
    """The report while it changes: redrawn in a terminal, lines for what changed elsewhere. A terminal that goes away disturbs nothing."""

    def __init__(self, *, everything: bool) -> None:
        self._console = Terminal()
        self._everything = everything
        self._shown: WatchReport | None = None
        self._faults: tuple[str, ...] = ()
        self._words: dict[str, str] = {}
        redraws = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live = Live(console=self._console, get_renderable=self._picture, refresh_per_second=1, screen=True) if redraws else None

    def __enter__(self) -> LiveReport:
        if self._live is not None:
            self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError):
                self._live.stop()

    def show(self, made: WatchReport, *, faults: tuple[str, ...]) -> None:
        """Show a new report."""
        self._shown, self._faults = made, faults
        if self._live is None:
            self._lines(made, faults)

    def _picture(self) -> RenderableType:
        if self._shown is None:
            return Text("looking ...")
        return picture(self._shown, self._console, everything=self._everything, faults=self._faults, now_s=time.time())

    def _lines(self, made: WatchReport, faults: tuple[str, ...]) -> None:
        now = {finding.key: f"{_word(finding)}: {finding.text}" for finding in made.findings}
        for finding in made.findings:
            before = self._words.get(finding.key, "pass")
            if before.partition(":")[0] != _word(finding):
                self._line(f"{finding.code} {finding.subject}: {now[finding.key]}")
        for fault in faults:
            self._line(f"warning: {fault}")
        self._words = now

    def _line(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def _word(finding: WatchFinding) -> str:
    return "foreseen" if finding.foreseen else finding.status.value


def print_report(made: WatchReport, *, everything: bool) -> None:
    """The report, once."""
    console = Terminal()
    with console.capture() as captured:
        console.print(picture(made, console, everything=everything, rows=None, now_s=made.at_s))
    sys.stdout.write("".join(line.rstrip(" ") + "\n" for line in captured.get().splitlines()))


def picture(
    made: WatchReport,
    console: Console,
    *,
    everything: bool = False,
    faults: Sequence[str] = (),
    rows: int | None = 0,
    now_s: float,
) -> Group:
    """All of it. ``rows`` None: as long as it is; else it is cut to the height of the terminal."""
    mark, style = _MARKS[made.status]
    head = Text.assemble((f"{mark} {made.estate}", style), f"  {_headline(made)}")
    seen = Text(f"seen {_clock(made.at_s)} by {made.observer}{_age(now_s - made.at_s)}{_others(made)}", style="dim")
    parts: list[RenderableType] = [head, seen, *(Text(f"! {fault}", style="yellow") for fault in faults)]
    parts += [Text(), _sites(made.sites, now_s), Text(), _workloads(made.workloads, wide=console.width >= _WIDE)]
    shown = [one for one in made.findings if everything or one.status is not FindingStatus.PASS or one.foreseen]
    limit = None if rows is None else max(3, console.height - len(made.sites) - 2 * len(made.workloads) - len(faults) - 9)
    if shown:
        parts += [Text(), _findings(shown[:limit], made)]
        left = len(shown) - len(shown[:limit])
        if left:
            parts.append(Text(f"({left} more: bridgehead watch --once)", style="dim"))
    return Group(*parts)


def _headline(made: WatchReport) -> str:
    count = {status: sum(one.status is status for one in made.findings) for status in FindingStatus}
    ahead = sum(one.foreseen for one in made.findings)
    words = [f"{count[FindingStatus.FAIL]} fail", f"{count[FindingStatus.UNKNOWN]} unknown"]
    words += [f"{ahead} foreseen"] if ahead else []
    return ", ".join([*words, f"{count[FindingStatus.PASS]} pass"]) + (f"; {len(made.alarms)} alarms" if made.alarms else "")


def _others(made: WatchReport) -> str:
    return "".join(f"; {name} {shown_s(age)} ago" for name, age in made.observers.items())


def _age(age_s: float) -> str:
    return f" ({shown_s(age_s)} ago)" if age_s >= 2 else ""


def _sites(verdicts: Iterable[SiteVerdict], now_s: float) -> Table:
    table = _table("site", "state", "last sign of life", "")
    table.columns[3].ratio = 1
    for one in verdicts:
        contact = "never" if one.contact_s is None else f"{shown_s(max(0.0, now_s - one.contact_s))} ago"
        grace = "" if one.grace_left_s is None else f"grace left {shown_s(one.grace_left_s)}" if one.grace_left_s else "grace over"
        words = ", ".join(filter(None, (grace, f"silent for {', '.join(one.silent_for)}" if one.silent_for else "")))
        table.add_row(Text(one.site), Text(one.state.value, style=_SITES[one.state]), contact, words)
    return table


def _workloads(lines: Iterable[WorkloadLine], *, wide: bool) -> Table:
    """On 80 columns what decides; on more, also lag, restore, capacity and lines."""
    columns = ["", "workload", "to", "newest", "would lose", "RPO", "recovers", "RTO"]
    table = _table(*columns, *(("lag", "GPU-hours", "drill", "spare", "paths", "burns") if wide else ()))
    for one in lines:
        mark, style = _MARKS[one.status]
        newest = "-" if one.newest is None else f"{one.newest.step}"
        lost = _optional(one.lost_s) + (f" ({one.lost_steps})" if one.lost_steps else "")
        over = one.lost_s is not None and one.rpo_s is not None and one.lost_s > one.rpo_s
        cells: list[RenderableType] = [
            Text(mark, style=style),
            Text(one.workload),
            Text(one.recovery_site or "-"),
            newest,
            Text(lost, style="bold red" if over else ""),
            _optional(one.rpo_s, none="-"),
            _optional(one.recovery_s),
            _optional(one.rto_s, none="-"),
        ]
        if wide:
            drill = "never" if one.drill is None else "passed" if one.drill.passed else "failed"
            spare = "?" if one.spare_gpus is None else f"{one.spare_gpus}/{one.gpus}"
            cells += [
                _optional(one.lag_s),
                "?" if one.lost_gpu_hours is None else f"{one.lost_gpu_hours:.3g}",
                drill if one.copy is not None or one.drill is not None else "?",
                spare if one.gpus else "-",
                "?" if one.diverse_paths is None else str(one.diverse_paths),
                "?" if one.burn_rate is None else f"{one.burn_rate:.2g}",
            ]
        table.add_row(*cells)
    return table


def _optional(seconds: float | None, *, none: str = "?") -> str:
    return none if seconds is None else shown_s(seconds)


def _findings(findings: Iterable[WatchFinding], made: WatchReport) -> Table:
    """One row each; what is said of several in the same words is said once."""
    table = _table("", "what", "says")
    table.columns[2].ratio = 1
    standing = {one.key: one for one in made.alarms}
    rows: dict[tuple[str, str, str], list[WatchFinding]] = {}
    for one in findings:
        rows.setdefault((_word(one), one.text, one.subject.partition("@")[0]), []).append(one)
    for (_, said, about), same in rows.items():
        first = same[0]
        mark, style = ("▲", "yellow") if first.foreseen else _MARKS[first.status]
        text = Text(said)
        changed = dict.fromkeys(word for one in same if one.key in standing for word in standing[one.key].changed)
        if changed:
            text.append(f"; changed: {', '.join(changed)}", style="bold")
        advice = first.remedy or first.measurement
        if advice:
            text.append(f" → {advice}", style="dim")
        what = first.subject if len(same) == 1 else about
        codes = ", ".join(one.code.removeprefix("WCH-") for one in same)
        table.add_row(Text(mark, style=style), Text(f"{codes} {what}", style=style), text)
    return table


def print_history(lines: Sequence[HistoryLine], *, observer: str) -> None:
    """An hour a line for each workload, and a curve of lost work."""
    if not lines:
        print(f"no looks on record for observer {observer}")
        return
    console = Terminal()
    for name in sorted({name for line in lines for name in line.workloads}):
        own = [(line.at_s, line.workloads[name]) for line in lines if name in line.workloads]
        lost = [one.lost_s for _, one in own if one.lost_s is not None]
        print(f"{name}: {len(own)} looks, {_clock(own[0][0])} to {_clock(own[-1][0])}  lost work {_curve(lost)}")
        table = _table("hour", "looks", "fail", "unknown", "lost work at most", "lag at most")
        for hour in sorted({int(at_s // 3600) for at_s, _ in own}):
            inside = [one for at_s, one in own if int(at_s // 3600) == hour]
            most = max((one.lost_s for one in inside if one.lost_s is not None), default=None)
            lag = max((one.lag_s for one in inside if one.lag_s is not None), default=None)
            fails = sum(one.status == "fail" for one in inside)
            unknown = sum(one.status == "unknown" for one in inside)
            when = time.strftime("%m-%d %H:00", time.localtime(hour * 3600))
            table.add_row(when, str(len(inside)), str(fails), str(unknown), _optional(most), _optional(lag))
        with console.capture() as captured:
            console.print(table)
        sys.stdout.write("".join(f"  {line.rstrip()}\n" for line in captured.get().splitlines()))


def _curve(values: Sequence[float], *, width: int = 40) -> str:
    """A row of bars, each the largest of its share of the values."""
    if not values:
        return "not known"
    size = max(1, -(-len(values) // width))
    peaks = [max(values[begin : begin + size]) for begin in range(0, len(values), size)]
    top = max(peaks) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int(peak / top * (len(_BARS) - 1)))] for peak in peaks) + f" (top {shown_s(max(values))})"


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
