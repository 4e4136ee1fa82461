"""Page: a report of a drill as one HTML page that asks for nothing: no script, no font, no picture from elsewhere (R13)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bridgehead.app.demo.report import svg
from bridgehead.app.drills.result import DrillResult, DrillVerdict, Measured, StepTime, hours_text, seconds_text
from bridgehead.kernel.moment import format_moment

_HERE: Final = Path(__file__).parent
_STYLES: Final = _HERE.parent / "demo" / "report"
"""The demo's page has the same looks."""
_WORDS: Final = {
    DrillVerdict.PASSED: "Passed",
    DrillVerdict.MISSED: "Objective missed",
    DrillVerdict.FAILED: "Failed",
    DrillVerdict.STOPPED: "Stopped",
    DrillVerdict.NOT_APPROVED: "Not approved",
}
_WIDTH, _NAMES, _ROW, _SHOWN = 1000.0, 300.0, 24.0, 24
"""Of drawings, in pixels; and how many drills a trend shows."""


def render(results: Sequence[DrillResult], *, key_id: str, sha256: str, file: str) -> str:
    """The page of the last of ``results``; those before it, oldest first, are its history."""
    environment = Environment(
        loader=FileSystemLoader([_HERE, _STYLES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: svg.clean(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result = results[-1]
    return environment.get_template("drill.html").render(
        one=result,
        word=_WORDS[result.verdict],
        words=_WORDS,
        earlier=results[-_SHOWN:][::-1],
        hidden=max(0, len(results) - _SHOWN),
        moment=lambda at_s: format_moment(float(int(at_s))),
        seconds=_seconds,
        hours=hours_text,
        timeline=timeline(result),
        trends=[trend(results, case.workload) for case in result.cases],
        key_id=key_id,
        sha256=sha256,
        file=file,
    )


def timeline(result: DrillResult) -> Markup:
    """Each step as a bar, from the beginning of the drill to its end."""
    if not result.steps:
        return Markup("")
    begin_s = min(step.began_s for step in result.steps)
    span_s = max(max(step.ended_s for step in result.steps) - begin_s, 0.001)
    scale = (_WIDTH - _NAMES - 70) / span_s
    height = _ROW * len(result.steps) + 30
    drawn: list[Markup] = []
    for number in range(5):
        x = _NAMES + number * span_s / 4 * scale
        drawn.append(svg.line((x, 0), (x, height - 24), class_="grid"))
        drawn.append(svg.text((x, height - 8), _seconds(number * span_s / 4), class_="label", anchor="middle"))
    for number, step in enumerate(result.steps):
        drawn += _bar(step, number * _ROW, begin_s=begin_s, scale=scale)
    return svg.picture("timeline", _WIDTH, height, drawn, title="Steps of the drill", description="When each step began and ended.")


def trend(results: Sequence[DrillResult], workload: str) -> dict[str, Any]:
    """RTO and RPO of one workload over its drills, each beside its objective."""
    cases = [(one, case) for one in results for case in one.cases if case.workload == workload][-_SHOWN:]
    last = cases[-1][1]
    return {
        "workload": workload,
        "drills": len(cases),
        "recovered": sum(case.recovered for _, case in cases),
        "rto": _columns(f"rto-{workload}", "RTO", [(one, case.rto, case.recovered) for one, case in cases], last.rto.objective_s),
        "rpo": _columns(f"rpo-{workload}", "RPO", [(one, case.rpo, case.recovered) for one, case in cases], last.rpo.objective_s),
    }


def _bar(step: StepTime, y: float, *, begin_s: float, scale: float) -> list[Markup]:
    x, width = _NAMES + (step.began_s - begin_s) * scale, max(2.0, (step.ended_s - step.began_s) * scale)
    took = _seconds(step.ended_s - step.began_s)
    look = (
        "step-failed"
        if step.failed
        else "step-open"
        if not step.finished
        else "step-lost"
        if step.step.startswith(("strike-", "down-"))
        else "step-done"
    )
    words = svg.shortened(step.title or step.step, width_px=_NAMES - 12, size_px=13)
    title = f"{step.step}: {step.title}, {took}{': ' + step.failed if step.failed else '' if step.finished else ', was not finished'}"
    return [
        svg.text((0, y + 16), words, class_="words"),
        svg.rect((x, y + 5), width, _ROW - 10, class_=look, radius=3, title=title),
        svg.text((x + width + 6, y + 16), took, class_="label"),
    ]


def _columns(name: str, what: str, points: Sequence[tuple[DrillResult, Measured, bool]], objective_s: float | None) -> Markup:
    """A column for each drill; a cross where nothing was measured."""
    width, height, base = 470.0, 150.0, 122.0
    known = [one.measured_s for _, one, _ in points if one.measured_s is not None]
    near = objective_s is not None and objective_s <= 20 * max(known, default=0.0)
    top = max([*known, objective_s or 0.0] if near else known, default=1.0) or 1.0
    step = (width - 60) / max(len(points), 8)
    drawn: list[Markup] = [svg.line((50, base), (width, base), class_="axis")]
    for share in (0.5, 1.0):
        y = base - share * 100
        drawn += [svg.line((50, y), (width, y), class_="grid"), svg.text((44, y + 4), _seconds(top * share), class_="label", anchor="end")]
    for number, (result, one, recovered) in enumerate(points):
        x = 54 + number * step
        title = f"{result.drill}, {format_moment(float(int(result.began_s)))}: {_seconds(one.measured_s)}"
        if one.measured_s is None:
            drawn.append(svg.mark((x + step / 2 - 2, base - 8), good=None if recovered else False, radius=6, title=title))
            continue
        tall = max(1.5, one.measured_s / top * 100)
        drawn.append(svg.rect((x, base - tall), step - 4, tall, class_="late" if one.met is False else "kept", radius=2, title=title))
    if objective_s is not None and near:
        y = base - objective_s / top * 100
        drawn.append(svg.line((50, y), (width, y), class_="objective"))
    text = f"{what}; objective {_seconds(objective_s)}" if objective_s is not None else f"{what}; nobody has set an objective"
    drawn.append(svg.text((50, height - 8), text, class_="label"))
    return svg.picture(name, width, height, drawn, title=f"{what} over the drills", description=text)


def _seconds(value: float | None) -> str:
    return "–" if value is None else seconds_text(value)
