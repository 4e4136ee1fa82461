"""Page: a plan as one HTML page that asks for nothing: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bridgehead import __version__
from bridgehead.app.demo.report.svg import clean
from bridgehead.app.plan_report.charts import capacities, line_use
from bridgehead.app.plan_report.floors import SHADES, floors
from bridgehead.app.plan_report.gantt import gantt
from bridgehead.app.plan_report.money import tornado
from bridgehead.app.plan_report.timescale import TimeScale
from bridgehead.app.whole_file import whole_file
from bridgehead.kernel.moment import format_moment
from bridgehead.kernel.quantity import format_bytes, format_duration
from bridgehead.model.plan import PhaseId
from bridgehead.planning.cost import cost_of
from bridgehead.planning.cost_lines import Group
from bridgehead.planning.cost_words import input_words, money, months
from bridgehead.planning.course import Course
from bridgehead.planning.explain import explain

_HERE: Final = Path(__file__).parent
_STYLES: Final = _HERE.parent / "demo" / "report"
"""The demo's page has the same looks."""
_DAY_S: Final = 86_400.0
_GROUPS: Final = {
    Group.MOVE: "While both sites run",
    Group.OTHERWISE: "What the source would have cost in that time",
    Group.SAVING: "Saved in each year after",
}


def render(course: Course, *, made_s: float) -> str:
    """The page: self-contained, readable on a phone, in the dark and on paper.

    Args:
        made_s: when, seconds since 1970.
    """
    plan = course.plan
    environment = Environment(
        loader=FileSystemLoader([_HERE, _STYLES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scale = TimeScale(plan.begins_s, plan.ends_s)
    cost = cost_of(plan, course.estate, course.policy)
    return environment.get_template("plan.html").render(
        version=__version__,
        made=format_moment(float(int(made_s))),
        plan=plan,
        estate=course.estate.name,
        policy=course.policy.name,
        reserve=course.policy.reserve,
        gpus=sum(count for rack in course.wave_of for count in course.gpus_of(rack).values()) or course.source.gpus,
        moved=len(course.wave_of),
        days=(course.done_s - plan.begins_s) / _DAY_S,
        done_s=course.done_s,
        gantt=gantt(course, scale),
        capacities=capacities(course, scale),
        broken=course.reserve_broken(),
        line=line_use(course, scale),
        floors=floors(course),
        shades=SHADES,
        workloads=course.workloads,
        model_of=course.model_of,
        gpus_of=lambda wave: sum(course.gpus_of(rack).total() for rack in wave.racks),
        places={one.id: one.place for one in plan.placements},
        chain=explain(course).chain,
        cost=cost,
        groups=[(title, cost.group(group)) for group, title in _GROUPS.items() if cost.group(group)],
        tornado=tornado(cost),
        payback=months(cost),
        prepare=course.phase(PhaseId.PREPARE),
        money=money,
        number=_number,
        input_words=input_words,
        moment=lambda moment_s: format_moment(float(round(moment_s)))[:16],
        day=lambda moment_s: format_moment(moment_s)[:10],
        lasting=lambda lasts_s: format_duration(lasts_s, digits=3),
        size=lambda size_bytes: format_bytes(size_bytes, digits=3),
    )


def _number(value: float) -> str:
    """Whole from a hundred up; three digits below."""
    return f"{value:,.0f}" if value >= 100 or not value else f"{value:.3g}"


def write_page(text: str, path: Path) -> None:
    """Write the page; a reader sees the old one or the whole new one. Raises BAD_INPUT when it cannot be written."""
    with whole_file(path, what="page") as stream:
        stream.write(text.encode())
