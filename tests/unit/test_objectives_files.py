"""Objectives files: defaults of R1, R2 and R5, the need of each thing, faults with their place, reading back what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.kernel.located import BadFile
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import Origin
from bridgehead.model.objective import CLASSES, REGULATIONS, Objective, Part, need_of
from bridgehead.model.objectivefile import objectives_schema, read_objectives, write_objectives

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "objectives"
H, M = 3600.0, 60.0


@pytest.fixture(scope="module")
def estate() -> Estate:
    return read_estate((EXAMPLES / "estate.yaml").read_text("utf-8"), file="estate.yaml")


@pytest.mark.parametrize(
    ("name", "rpo_s", "rto_s"),
    [
        ("training", 4 * H, 8 * H), ("weights", 0, H), ("dataset", 24 * H, None), ("inference", 5 * M, 15 * M),
        ("registry", 0, H), ("development", 24 * H, 24 * H),
    ],
)  # fmt: skip
def test_R1_R2_classes(name: str, rpo_s: float, rto_s: float | None) -> None:
    kind = next(one for one in CLASSES if one.id == name)
    assert (kind.rpo_s, kind.rto_s) == (rpo_s, rto_s)


def test_R1_R2_ranges_of_training() -> None:
    training = CLASSES[0]
    assert (training.aims_rpo_s, training.aims_rto_s) == (2 * H, 4 * H)


def test_R5_regulations() -> None:
    laws = {one.id: one for one in REGULATIONS}
    assert laws["healthcare-diagnosis"].rto_s == 4 * H
    assert laws["gdpr"].recoverable
    assert (laws["gdpr"].rpo_s, laws["gdpr"].rto_s) == (None, None)
    assert laws["finance"].guess, "the same day is no number"


def test_R5_the_strictest_counts_and_says_who_it_is() -> None:
    objective = Objective("x", rto_s=8 * H, data_class="inference", regulations=("healthcare-diagnosis", "gdpr"))
    need = need_of(Part.WORKLOAD, "w", objective)
    assert need.rto is not None
    assert need.own_rto is not None
    assert (need.rto.value_s, need.rto.source, need.rto.origin) == (4 * H, "regulation healthcare-diagnosis", Origin.DEFAULT)
    assert (need.own_rto.value_s, need.own_rto.origin) == (8 * H, Origin.DECLARED)
    assert need.rpo is not None
    assert need.rpo.source == "class inference"
    assert need.recoverable


def test_R1_nothing_is_left_out(estate: Estate) -> None:
    found = read_objectives((EXAMPLES / "objectives.yaml").read_text("utf-8"), file="objectives.yaml", estate=estate).needs(estate)
    assert {one.id for one in found} == {
        *(w.id for w in estate.workloads),
        *(s.id for s in estate.services),
        *(d.id for d in estate.datasets),
    }
    assert [one.id for one in found if one.objective is None] == ["ablations"]


BAD = """continuity: x
objectives:
  a: {rpo: 2 h, rto: 0 s}
  b: {data_class: inferense}
  c: {regulations: [gdpr, finnance], covers: [lm]}
  d: {}
  e: {rpo: 1 h, rto: 1 h, covers: [corpus, corpuss]}
  f: {rpo: 1 h, rto: 1 h, covers: [corpus], availability: 100 %}
ladder: {rpo: [1 h, 5 min]}
patterns: {warm: {standby: 20 %}}
lines: {fjrd: {tls: "1.3"}}
prices: {gpu_month: -1}
"""


def test_every_fault_has_its_place_and_a_way_out(estate: Estate) -> None:
    with pytest.raises(BadFile) as caught:
        read_objectives(BAD, file="o.yaml", estate=estate)
    faults = {(fault.line, fault.path): f"{fault.found}; {fault.expected}" for fault in caught.value.faults}
    for place, words in {
        (3, "objectives.a.rto"): "more than 0 s",
        (4, "objectives.b.data_class"): "did you mean 'inference'",
        (5, "objectives.c.regulations[1]"): "did you mean 'finance'",
        (5, "objectives.c.covers[0]"): "the estate gives 'lm' the objective 'training'",
        (6, "objectives.d"): "it says nothing",
        (7, "objectives.e.covers[1]"): "did you mean 'corpus'",
        (8, "objectives.f.availability"): "less than 100 %",
        (9, "ladder.rpo[1]"): "growing times",
        (10, "patterns.warm"): "expected",
        (11, "lines.fjrd"): "did you mean 'fjord'",
        (12, "prices.gpu_month"): "at least 0",
        (3, "objectives"): "'serving', which is not here",
    }.items():
        assert words in faults.get(place, ""), f"{place}: {faults}"


def test_two_objectives_for_one_thing_are_refused(estate: Estate) -> None:
    text = (EXAMPLES / "objectives.yaml").read_text("utf-8").replace("covers: [corpus, traces]", "covers: [corpus, corpus]")
    with pytest.raises(BadFile, match="has the objective 'data' already"):
        read_objectives(text, file="o.yaml", estate=estate)


def test_reads_back_what_it_writes(estate: Estate) -> None:
    first = read_objectives((EXAMPLES / "objectives.yaml").read_text("utf-8"), file="o.yaml", estate=estate)
    assert read_objectives(write_objectives(first), file="o.yaml", estate=estate) == first


def test_schema_names_every_field() -> None:
    properties = objectives_schema()["properties"]
    assert {"continuity", "objectives", "classes", "regulations", "ladder", "patterns", "prices", "assumptions", "lines"} <= set(properties)
