"""What people declare completes what was discovered, and never overwrites it (M5.1; design rule 1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.declared import complete
from bridgehead.discovery.draft import draft
from bridgehead.discovery.knowledge import Told
from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.located import BadFile
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import read_estate
from bridgehead.model.fact import Status

FOUND = """
estate: discovered
sites:
  a:
    nodes:
      gpu-1: {gpus: 8, gpu_model: H100, power: 9 kW}
      gpu-2: {gpus: 8, gpu_model: H100}
      store-1: {gpus: 0}
"""


@pytest.fixture
def found() -> Estate:
    return read_estate(FOUND, file="found")


def declare(folder: Path, text: str) -> Path:
    path = folder / "declared.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_declared_is_added_for_one_thing_and_for_many(found: Estate, tmp_path: Path) -> None:
    text = """
sites:
  a:
    name: Old hall
    racks: {r1: {units: 48, row: A, column: 2}}
    nodes:
      "gpu-*": {supplies: 6, supplies_needed: 4, rack: r1}
      gpu-2: {supplies: 8}
workloads:
  lm: {kind: training, site: a, gpus: 16, pausable: true}
"""
    done = complete(found, declare(tmp_path, text))
    site = done.estate.sites[0]
    assert [(node.id, node.supplies, node.supplies_needed, node.rack) for node in site.nodes] == [
        ("gpu-1", 6, 4, "r1"), ("gpu-2", 8, 4, "r1"), ("store-1", None, None, None),
    ]  # fmt: skip
    assert (site.name, site.racks[0].column, done.estate.workloads[0].pausable, done.disputes) == ("Old hall", 2, True, ())


def test_what_was_discovered_stays_and_the_dispute_is_told(found: Estate, tmp_path: Path) -> None:
    done = complete(found, declare(tmp_path, 'sites: {a: {nodes: {"gpu-*": {power: 8.5 kW, gpu_model: H200}}}}\n'))
    assert [(node.gpu_model, node.power_w) for node in done.estate.sites[0].nodes[:2]] == [("H100", 9000.0), ("H100", 8500.0)]
    assert {(one.path, one.before, one.after) for one in done.disputes} == {
        ("sites.a.nodes.gpu-1.power", "9 kW", "8.5 kW"),
        ("sites.a.nodes.gpu-1.gpu_model", "H100", "H200"),
        ("sites.a.nodes.gpu-2.gpu_model", "H100", "H200"),
    }
    same = complete(found, declare(tmp_path, "sites: {a: {nodes: {gpu-1: {power: 9000 W}}}}\n"))
    assert same.disputes == (), "another unit is no other value"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("sites:\n  a:\n    nodes:\n      'gpu-*': {weight: 5 V}\n", "declared.yaml:4:"),
        ("sites:\n  a:\n    racks:\n      r1: {unts: 4}\n", "declared.yaml:4:"),
        ("sites:\n  a:\n    nodes:\n      gpu-1: {rack: r9}\n", "declared.yaml:4:"),
        ("sites:\n  a:\n    nodes:\n      'gqu-*': {weight: 5 kg}\n", "declared.yaml:4:"),
        ("- a\n", "declared.yaml:1:"),
        ("sites: {a: {name: x}, a: {name: y}}\n", "declared.yaml:1:"),
    ],
)
def test_faults_are_told_at_their_line(found: Estate, tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(BadFile) as caught:
        complete(found, declare(tmp_path, text))
    assert place in str(caught.value)


def test_pattern_within_a_pattern_passes_over_what_has_none_of_its_kind(found: Estate, tmp_path: Path) -> None:
    nics = "sites: {a: {fabrics: {f: {kind: ethernet, purpose: storage}}, nodes: {gpu-1: {nics: {n0: {rate: 1 Gbps, fabric: f}}}}}}\n"
    more = complete(found, declare(tmp_path, nics)).estate
    done = complete(more, declare(tmp_path, 'sites: {a: {nodes: {"*": {nics: {"n?": {medium: copper}}}}}}\n'))
    assert [[nic.medium for nic in node.nics] for node in done.estate.sites[0].nodes] == [["copper"], [], []]


def test_nothing_declared_changes_nothing(found: Estate, tmp_path: Path) -> None:
    assert complete(found, declare(tmp_path, "# nothing yet\n")).estate == found


def test_E03_circuit_of_three_phases_is_there_when_its_wiring_is_declared(tmp_path: Path) -> None:
    known = Told(230, Status.KNOWN)
    feed = {
        "voltage": known,
        "amperage": Told(63, Status.KNOWN),
        "rack": Told("r1", Status.KNOWN),
        "max-utilization": Told(0.8, Status.KNOWN),
    }
    told = {"site:x/rack:r1": {"units": Told(48, Status.KNOWN)}, "site:x/panel:pa/feed:r1-a": feed, "site:x/panel:pb/feed:r1-b": feed}
    drawn = draft({SiteId("a"): told}, name="discovered")
    assert drawn.estate.sites[0].circuits == (), "between lines or to neutral: nobody said"
    text = 'sites: {a: {circuits: {"*-a": {wiring: three-phase-line-to-neutral}}}}\n'
    site = complete(drawn.estate, declare(tmp_path, text), waiting=drawn.waiting).estate.sites[0]
    (circuit,) = site.circuits
    assert (circuit.id, circuit.feed, circuit.fed_by, site.racks[0].circuits) == ("r1-a", "pa", "pa", ("r1-a",))
    assert circuit.rating_va == pytest.approx(3 * 230 * 63)


def test_mistake_below_a_pattern_is_told_once(found: Estate, tmp_path: Path) -> None:
    with pytest.raises(BadFile) as caught:
        complete(found, declare(tmp_path, 'sites: {a: {nodes: {"*": {weight: 130, units: 8}}}}\n'))
    (fault,) = caught.value.faults
    assert (fault.path, "the same for 2 more" in fault.expected) == ("sites.a.nodes.gpu-1.weight", True)


def test_what_was_declared_only_is_named(found: Estate, tmp_path: Path) -> None:
    text = "sites: {a: {nodes: {gpu-1: {weight: 130 kg}, gpu-3: {weight: 130 kg}}, racks: {r1: {units: 48}}}, aa: {power: 1 MW}}\n"
    assert complete(found, declare(tmp_path, text)).alone == ("sites.a.nodes.gpu-3", "sites.aa")


def files(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_order_of_declared_files_changes_nothing(found: Estate, tmp_path: Path) -> None:
    """One file names a rack that only the other one describes; one gives a pattern, the other the exception."""
    given = files(
        tmp_path,
        'sites: {a: {nodes: {new-0: {}, "gpu-*": {rack: r1, supplies: 6}, "new-*": {rack: r1}}}}\n',
        "sites: {a: {nodes: {gpu-2: {supplies: 8}, new-1: {gpus: 8, gpu_model: H100}}, racks: {r1: {units: 48, circuits: [c1]}}}}\n",
        "# nothing yet\n",
        "sites: {a: {circuits: {c1: {voltage: 230 V, current: 32 A, wiring: single-phase}}, racks: {r1: {units: 48}}}}\n",
    )
    done = [complete(found, *order) for order in (given, given[::-1], [given[1], given[3], given[0], given[2]])]
    nodes = [[(node.id, node.supplies, node.rack) for node in one.estate.sites[0].nodes] for one in done]
    assert sorted(nodes[0]) == [
        ("gpu-1", 6, "r1"),
        ("gpu-2", 8, "r1"),
        ("new-0", None, "r1"),
        ("new-1", None, "r1"),
        ("store-1", None, None),
    ]
    assert nodes[0] == nodes[1] == nodes[2]
    assert done[0] == done[1] == done[2]


@pytest.mark.parametrize(
    "texts",
    [
        ("sites: {a: {nodes: {gpu-1: {supplies: 6}}}}\n", "sites: {a: {nodes: {gpu-1: {supplies: 8}}}}\n"),
        ('sites: {a: {nodes: {"*": {supplies: 6}}}}\n', 'sites: {a: {nodes: {"gpu-*": {supplies: 8}}}}\n'),
        ('sites: {a: {nodes: {"gpu-*": {supplies: 6}}}}\n', 'sites: {a: {nodes: {"gpu-*": {supplies: [8]}}}}\n'),
    ],
)
def test_declared_files_that_contradict_each_other_are_refused_in_any_order(found: Estate, tmp_path: Path, texts: tuple[str, str]) -> None:
    given = files(tmp_path, *texts)
    for order in (given, given[::-1]):
        with pytest.raises(BadFile) as caught:
            complete(found, *order)
        assert "2 files" in str(caught.value)
        assert "supplies" in str(caught.value)


def test_fault_is_told_at_the_file_that_has_it(found: Estate, tmp_path: Path) -> None:
    given = files(tmp_path, "sites: {a: {nodes: {gpu-1: {supplies: 6}}}}\n", "sites:\n  a:\n    nodes:\n      gpu-2: {weight: 5 V}\n")
    with pytest.raises(BadFile) as caught:
        complete(found, *given)
    (fault,) = caught.value.faults
    assert (Path(fault.file).name, fault.line) == ("1.yaml", 4)
