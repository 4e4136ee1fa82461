"""Acceptance: results of tests against what is expected, at node, rack and full scale (P5; rules section 5, FB4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import counting, few, shown
from bridgehead.assess.scope import Scope
from bridgehead.kernel.units import Dimension
from bridgehead.model.acceptance import Acceptance, Scale
from bridgehead.model.estate import Site
from bridgehead.model.finding import Finding, Origin, Severity

_COLLECTIVE: Final = "nccl-all-reduce"
_NETWORK: Final = ("ib-write", "ib_write", "ib-read", "ib_read", "ib-send", "ib_send", "iperf")
_STORAGE: Final = ("storage", "fio", "ior", "elbencho")
_TOLERANCE: Final = 0.05
"""How far below the source's result one at the target may be, where nobody declared what to expect."""


def _ordered(site: Site) -> list[Acceptance]:
    return sorted(site.acceptance, key=lambda one: one.id)


def _results(scope: Scope) -> Iterator[Finding]:
    before: dict[tuple[str, Scale], float] = {}
    for one in () if scope.source is None else _ordered(scope.source):
        if one.measured_bps is not None:
            before[one.test, one.scale] = max(before.get((one.test, one.scale), 0.0), one.measured_bps)
    for one in _ordered(scope.target):
        case = Case(RESULT, f"{scope.target.id}/acceptance:{one.id}")
        path = f"sites.{scope.target.id}.acceptance.{one.id}"
        measured = case.take("measured", one.measured_bps, "bit/s", f"{path}.measured", origin=Origin.MEASURED)
        expected = case.take("expected", one.expected_bps, "bit/s", f"{path}.expected")
        what = f"{one.test} at {one.scale} scale"
        again = f"run {one.test} at {one.scale} scale, with a check of its results"
        if measured is None:
            yield case.unknown(f"{what} has no result", measurement=again)
            continue
        if expected is None:
            had = before.get((one.test, one.scale))
            text = f"{what}: {shown(measured, Dimension.RATE)}, and nobody said what is expected"
            if had is not None and measured < had * (1 - _TOLERANCE):
                limit = had * (1 - _TOLERANCE)
                text = f"{what}: {shown(measured, Dimension.RATE)}, at the source {shown(had, Dimension.RATE)}"
                yield case.at_least(measured, limit, "bit/s", text, remedy="find the slow node or cable before anything moves")
            else:
                yield case.unknown(text, measurement="say which rate each acceptance test must reach")
            continue
        text = f"{what}: {shown(measured, Dimension.RATE)}, at least {shown(expected, Dimension.RATE)} are expected"
        yield case.at_least(measured, expected, "bit/s", text, remedy="find the slow node or cable before anything moves")


def _correct(scope: Scope) -> Iterator[Finding]:
    for one in _ordered(scope.target):
        if not one.test.startswith("nccl") and one.wrong is None:
            continue
        case = Case(CORRECT, f"{scope.target.id}/acceptance:{one.id}")
        wrong = case.take("wrong", one.wrong, "", f"sites.{scope.target.id}.acceptance.{one.id}.wrong", origin=Origin.MEASURED)
        if wrong is None:
            again = f"run {one.test} at {one.scale} scale, with a check of its results"
            yield case.unknown(f"{one.test} at {one.scale} scale did not check its results", measurement=again)
        else:
            text = f"{one.test} at {one.scale} scale gave {counting(wrong, 'wrong result')}"
            yield case.at_most(wrong, 0, "", text, remedy="take the nodes out that compute wrongly; nothing else counts before")


def _scales(scope: Scope) -> Iterator[Finding]:
    nodes = [node for node in scope.target.nodes if node.gpus]
    if not nodes:
        return
    racks = {node.rack for node in nodes if node.rack is not None}
    wanted = [Scale.NODE, *([Scale.RACK] if len(nodes) > max(1, len(racks)) else []), *([Scale.FULL] if len(nodes) > 1 else [])]
    runs = [one for one in _ordered(scope.target) if one.test == _COLLECTIVE and one.measured_bps is not None]
    for scale in wanted:
        case = Case(SCALES, scope.target.id, state=scale.value)
        ask = f"run {_COLLECTIVE} at {scale} scale, with a check of its results"
        at = [one for one in runs if one.scale is scale]
        if not at:
            yield case.unknown(f"{_COLLECTIVE} was not run at {scale} scale; some faults show at full scale only", measurement=ask)
            continue
        if scale is not Scale.FULL:
            yield case.holds(True, f"{_COLLECTIVE} was run at {scale} scale", remedy="")
            continue
        widest = max(at, key=lambda one: (one.nodes or 0, one.id))
        count = case.take("nodes", widest.nodes, "", f"sites.{scope.target.id}.acceptance.{widest.id}.nodes.*")
        if count is None or count < len(nodes):
            text = f"{_COLLECTIVE} at full scale took {count or 'an unknown number'} of {len(nodes)} nodes"
            yield case.unknown(text, measurement=ask)
        else:
            yield case.at_least(count, len(nodes), "", f"{_COLLECTIVE} was run on all {len(nodes)} nodes", remedy="")


def _kinds(scope: Scope) -> Iterator[Finding]:
    if sum(bool(node.gpus) for node in scope.target.nodes) < 2:
        return
    wanted: list[tuple[str, tuple[str, ...], Scale | None, str]] = [
        ("network", _NETWORK, None, "run ib_write_bw (InfiniBand, RoCE) or iperf3 between pairs of nodes of different racks")
    ]
    if scope.target.stores:
        full = "write and read from all nodes at once (fio, ior), and give it as 'storage-write' at full scale"
        wanted.append(("storage", _STORAGE, Scale.FULL, full))
    for name, begins, scale, ask in wanted:
        case = Case(KINDS, scope.target.id, state=name)
        runs = [one for one in _ordered(scope.target) if one.measured_bps is not None and one.test.startswith(begins)]
        found = [one for one in runs if scale is None or one.scale is scale]
        at = "" if scale is None else f" at {scale} scale, where limits of stores show first"
        if found:
            case.take("test", found[0].id, "", f"sites.{scope.target.id}.acceptance.{found[0].id}", origin=Origin.MEASURED)
            yield case.holds(True, f"the {name} was tested alone ({found[0].test} at {found[0].scale} scale)", remedy="")
        else:
            yield case.unknown(f"the {name} of {scope.target.id} was not tested alone{at}", measurement=ask)


def _real(scope: Scope) -> Iterator[Finding]:
    names = {one.id for one in scope.workloads if one.gpus}
    if not names:
        return
    case = Case(REAL, scope.target.id)
    found = [one for one in _ordered(scope.target) if one.test in names and one.measured_bps is not None]
    if found:
        case.take("test", found[0].id, "", f"sites.{scope.target.id}.acceptance.{found[0].id}", origin=Origin.MEASURED)
        yield case.holds(True, f"{few(one.test for one in found)} was run at {scope.target.id}, and not only benchmarks", remedy="")
    else:
        ask = "run one real workload at the target, and give the rate at which it reads or reduces as a result whose test has its name"
        so_far = "was tested with benchmarks only" if scope.target.acceptance else "was not tested"
        yield case.unknown(f"{scope.target.id} {so_far}; no workload of the move was run there", measurement=ask)


RESULT = Check(
    "ACC-RESULT",
    "Does each test reach what is expected?",
    ("P5",),
    "received rate, or bus bandwidth = algorithm bandwidth · 2(n-1)/n, >= expected (rules section 5)",
    _results,
)
CORRECT = Check("ACC-CORRECT", "Did each test compute rightly?", ("P5",), "wrong results = 0 (P5)", _correct)
SCALES = Check(
    "ACC-SCALE",
    "Were collectives tested at node, rack and full scale?",
    ("P5",),
    "one result at each scale, at full scale on all nodes (rules section 5)",
    _scales,
)
KINDS = Check(
    "ACC-TESTS",
    "Were network and storage tested, each alone?",
    ("P5", "M5.3"),
    "a result of ib_write_bw or iperf3, and one of the stores at full scale (rules section 5)",
    _kinds,
    Severity.WARNING,
)
REAL = Check(
    "ACC-WORKLOAD",
    "Was a real workload run at the target, and not only benchmarks?",
    ("P23", "P5"),
    "one acceptance result whose test is the name of a workload (P23: tuning to benchmarks instead of the line)",
    _real,
    Severity.WARNING,
)
CHECKS = (RESULT, CORRECT, SCALES, KINDS, REAL)
