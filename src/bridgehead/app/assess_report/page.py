"""Page: an assessment as one HTML page that asks for nothing: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bridgehead import __version__
from bridgehead.app.assess import Assessment, Place, input_line, margin_words, quantity
from bridgehead.app.assess_report.fabric import fabrics
from bridgehead.app.assess_report.floor import floor
from bridgehead.app.assess_report.marks import Marks
from bridgehead.app.assess_report.node import nodes
from bridgehead.app.assess_report.power import power
from bridgehead.app.assess_report.racks import racks
from bridgehead.app.assess_report.summary import hurdles, subject_words
from bridgehead.app.demo.report.svg import clean
from bridgehead.app.whole_file import whole_file
from bridgehead.assess.fleet import counting, few
from bridgehead.kernel.moment import format_moment
from bridgehead.model.estate import Estate, Site
from bridgehead.model.finding import Finding, FindingStatus, Severity, Verdict

_HERE: Final = Path(__file__).parent
_STYLES: Final = _HERE.parent / "demo" / "report"
"""The demo's page has the same looks."""
_WORDS: Final = {Verdict.GO: "Go", Verdict.NO_GO: "No-go", Verdict.CANNOT_TELL: "Cannot tell"}
_FAMILIES: Final = {
    "ACC": "Acceptance", "CAB": "Cables", "COOL": "Cooling", "EST": "What is described", "FAB": "Fabric", "FW": "Firmware",
    "GEN": "Generations", "INT": "Interconnect", "MOV": "Moving data", "PLACE": "Placement", "PWR": "Power", "QOS": "Classes of traffic",
    "RSV": "Reserves", "SPACE": "Space and weight", "STO": "Storage", "STR": "Stretched fabric", "TOP": "Topology",
    "WAN": "Lines between sites", "WL": "Workloads",
}  # fmt: skip


def render(found: Assessment, estate: Estate, *, places: Mapping[str, Place], made_s: float) -> str:
    """The page: self-contained, readable on a phone, in the dark and on paper.

    Args:
        places: where inputs stand, as ``app.assess.read`` gives them.
        made_s: when, seconds since 1970.
    """
    environment = Environment(
        loader=FileSystemLoader([_HERE, _STYLES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    marks = Marks(found.findings)
    judged = [site for site in estate.sites if site.id in (found.source, found.target)]
    return environment.get_template("assessment.html").render(
        version=__version__,
        made=format_moment(float(int(made_s))),
        estate=estate.name,
        found=found,
        word=_WORDS[found.verdict],
        counts=Counter(one.status.value for one in found.findings),
        hurdles=hurdles(found),
        families=_families(found),
        binding=found.binding,
        sites=[_site(site, marks) for site in sorted(judged, key=lambda site: site.id != found.target)],
        number=quantity,
        margin_words=margin_words,
        input_line=lambda one: input_line(one, places),
        subject_words=subject_words,
        blocking=Severity.BLOCKING,
        counting=counting,
        few=few,
        day=lambda moment_s: format_moment(moment_s)[:10],
    )


def _families(found: Assessment) -> list[dict[str, Any]]:
    """Findings by family, within a family by check and state with their anchors; what binds comes first, then the worst.

    Those that fail are open, and the one of what binds; what is not known can be thousands of lines.
    """
    held: dict[str, dict[tuple[str, FindingStatus], list[tuple[int, Finding]]]] = {}
    for number, one in enumerate(found.findings):
        held.setdefault(one.code.partition("-")[0], {}).setdefault((one.code, one.status), []).append((number, one))
    binds = "" if found.binding is None else found.binding.code.partition("-")[0]
    return [
        {
            "name": _FAMILIES.get(code, code),
            "code": code,
            "groups": list(groups.values()),
            "counts": Counter(status.value for (_, status), group in groups.items() for _ in group),
            "open": code == binds or any(status is FindingStatus.FAIL for _, status in groups),
        }
        for code, groups in sorted(held.items(), key=lambda item: item[0] != binds)
    ]


def _site(site: Site, marks: Marks) -> dict[str, Any]:
    drawings: list[tuple[str, str, Markup]] = [
        ("Power", "Worst single-failure state of each circuit against what it may carry; the line marks the limit.", power(site, marks)),
        ("Floor and heat", "The darker, the more heat a rack gives off.", floor(site, marks)),
        ("Racks", "A node has the colour of its worst finding.", racks(site, marks)),
        *(("Fabric", name, drawn) for name, drawn in fabrics(site, marks)),
        *(("Node", name, drawn) for name, drawn in nodes(site, marks)),
    ]
    return {"site": site, "drawings": [one for one in drawings if one[2]]}


def write_report(text: str, path: Path) -> None:
    """Write the page; a reader sees the old one or the whole new one. Raises BAD_INPUT when it cannot be written."""
    with whole_file(path, what="report") as stream:
        stream.write(text.encode())
