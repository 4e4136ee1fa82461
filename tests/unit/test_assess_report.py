"""The page of an assessment: whole, self-contained, every number linked to its evidence, for any estate (M5.3, M5.4)."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bridgehead.app.assess import Assessment, assess, read
from bridgehead.app.assess_report.marks import Marks
from bridgehead.app.assess_report.page import render, write_report
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import Finding, FindingStatus

ROOT = Path(__file__).parents[2]
SITE = """
estate: drawn
sites:
  b:
    name: "<b>New & hall</b>"
    sources:
      grid: {kind: utility}
      gen: {kind: generator, rating: 900 kVA}
      ats: {kind: transfer-switch, fed_by: [grid, gen]}
      ups-a: {kind: ups, fed_by: [ats], rating: 500 kVA, active_limit: 450 kW, continuous: 100 %}
    circuits:
      a1: {voltage: 230 V, current: 32 A, wiring: three-phase-line-to-neutral, continuous: 100 %, feed: A, fed_by: ups-a}
      b1: {voltage: 230 V, current: 32 A, wiring: three-phase-line-to-neutral, continuous: 100 %, feed: B, fed_by: grid}
      dc: {voltage: 50 V, current: 400 A, wiring: dc}
    racks:
      r1: {row: A, column: 2, units: 48, circuits: [a1, b1]}
      r2: {}
    fabrics:
      rails: {kind: infiniband, purpose: compute}
    switches:
      leaf-1: {fabric: rails, role: leaf, uplinks: {spine-1: {count: 8, rate: 400 Gbps}}}
      leaf-2: {fabric: rails, role: leaf, plane: 1}
      spine-1: {fabric: rails, role: spine}
    nodes:
      n1: {rack: r1, position: 3, units: 8, gpus: 4, gpu_model: H100, gpu_links: [18, 18, 17, 18], power: 10 kW, weight: 130 kg,
           nics: {mlx5_0: {rate: 400 Gbps, fabric: rails, switch: leaf-1, gpu: 0, active: false}, eth0: {rate: 25 Gbps, fabric: rails}}}
      n2: {rack: r1, gpus: 1, gpu_model: H100}
      n3: {gpus: 0}
"""


def page_of(estate: Estate, found: Assessment) -> str:
    return render(found, estate, places={}, made_s=0.0)


@pytest.fixture(scope="module")
def page() -> str:
    estate = read_estate(SITE, file="estate.yaml")
    return page_of(estate, assess(estate, now_s=0.0))


def test_page_is_well_formed_and_every_link_leads_somewhere(page: str) -> None:
    tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = {element.get("href") for element in tree.iter() if element.get("href")} - {"data:,"}
    assert links
    assert all(link.startswith("#") and link[1:] in ids for link in links)


def test_page_asks_for_nothing_and_runs_nothing(page: str) -> None:
    assert "<script" not in page
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert "url(" not in page.replace("url(#", "")


def test_names_from_files_are_shown_and_not_believed(page: str) -> None:
    assert "<b>New" not in page
    assert "&lt;b&gt;New &amp; hall&lt;/b&gt;" in page


def test_everything_that_is_described_is_drawn(page: str) -> None:
    for name in ("grid", "gen", "ats", "ups-a", "a1", "b1", "r1", "r2", "leaf-1", "leaf-2", "spine-1", "n1", "row A", "mlx5_0"):
        assert name in page, name
    for drawing in ("power-b", "floor-b", "racks-b", "fabric-b-rails-all", "fabric-b-rails-1", "node-b-n1"):
        assert f'id="{drawing}-title"' in page, drawing
    assert "eth0: no GPU beside it" in page
    assert "nvlink look-fail" in page, "one GPU has a link less than the others"


def test_site_without_anything_and_the_example_are_pages_too() -> None:
    empty = read_estate("estate: x\nsites: {a: {}}\n", file="x")
    assert "could be drawn" in page_of(empty, assess(empty, now_s=0.0))
    given = read(ROOT / "examples" / "estate.yaml", ROOT / "examples" / "policy.yaml")
    found = assess(given.estate, policy=given.policy, now_s=0.0)
    page = render(found, given.estate, places=given.places, made_s=0.0)
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    for one in found.findings:
        assert f"<code>{one.code}</code>" in page


def test_worst_finding_of_a_subject_gives_the_colour() -> None:
    def finding(status: FindingStatus, margin: float | None, code: str = "PWR-A") -> Finding:
        return Finding(code=code, subject="b/x", status=status, text="so", margin=margin, unit=unit)

    unit = "VA"
    passes, tight = finding(FindingStatus.PASS, 0.5), finding(FindingStatus.PASS, 0.05)
    unknown, fails = finding(FindingStatus.UNKNOWN, None), finding(FindingStatus.FAIL, -0.1, "COOL-A")
    assert Marks([passes]).of("b/x").look == "pass"
    assert Marks([passes, tight]).of("b/x").look == "tight"
    assert Marks([passes, unknown]).of("b/x").look == "unknown"
    assert Marks([passes, unknown, fails]).of("b/x").look == "fail"
    assert Marks([passes, unknown, fails]).of("b/x").href == "#finding-2"
    assert Marks([passes, fails]).of("b/x", families=("PWR",)).look == "pass"
    assert Marks([]).of("b/x").look == "none"
    unit = ""
    enough = finding(FindingStatus.PASS, 0.0)
    assert Marks([enough]).of("b/x").look == "pass", "3 of 3 that are needed are enough"


def test_report_is_whole_or_absent(tmp_path: Path) -> None:
    write_report("page", tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(BridgeheadError, match=r"page\.html"):
        write_report("page", tmp_path / "missing" / "page.html")


def test_a_rack_of_which_nobody_knows_the_heat_is_not_shown_as_empty() -> None:
    nodes = "{n1: {rack: r1}, n2: {rack: r2, power: 2 kW}, n3: {rack: r2}}"
    text = f"estate: e\nsites:\n  b:\n    racks: {{r1: {{}}, r2: {{}}, r3: {{}}}}\n    nodes: {nodes}\n"
    estate = read_estate(text, file="estate.yaml")
    page = page_of(estate, assess(estate, now_s=0.0))
    floor = page[page.index("Floor and heat") :]
    assert "unknown</text>" in floor
    assert "≥ 2.0 kW</text>" in floor
    assert "empty</text>" in floor
