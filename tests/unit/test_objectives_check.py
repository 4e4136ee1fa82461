"""Conflicts of objectives, each with its numbers, its way out and its price (R1, R2, R5, R8, R17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.objectives import Checked, check
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import Finding, FindingStatus, Severity, Verdict
from bridgehead.model.objectivefile import read_objectives
from bridgehead.recovery.objectives.judge import ObjectiveFinding, Price

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "objectives"
ESTATE = (EXAMPLES / "estate.yaml").read_text("utf-8")
OBJECTIVES = (EXAMPLES / "objectives.yaml").read_text("utf-8")
PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN


def judged(*changes: tuple[str, str], estate: tuple[tuple[str, str], ...] = ()) -> Checked:
    """The example with other words in its two files."""
    first, second = ESTATE, OBJECTIVES
    for before, after in estate:
        assert before in first
        first = first.replace(before, after)
    for before, after in changes:
        assert before in second
        second = second.replace(before, after)
    given = read_estate(first, file="e.yaml")
    return check(given, read_objectives(second, file="o.yaml", estate=given))


def one(found: Checked, code: str, subject: str, state: str = "") -> Finding:
    held = [finding for finding in found.findings if finding.code == code and finding.subject == subject and state in finding.state]
    assert len(held) == 1, [(finding.subject, finding.state) for finding in found.findings if finding.code == code]
    return held[0]


def price(finding: Finding) -> Price:
    assert isinstance(finding, ObjectiveFinding)
    assert finding.price is not None
    return finding.price


def test_R1_everything_has_an_objective_or_is_reported() -> None:
    found = judged()
    covered = [finding for finding in found.findings if finding.code == "OBJ-COVERED"]
    assert len(covered) == 5 + 1 + 2
    assert [finding.subject for finding in covered if finding.status is not PASS] == ["workload:ablations"]
    assert found.verdict is Verdict.NO_GO


def test_R1_defaults_count_when_somebody_accepts_them() -> None:
    without = (("    objective: training\n", ""),)
    objectives = ("  training: {rpo: 2 h, rto: 4 h, data_class: training}\n", "")
    assert one(judged(objectives, estate=without), "OBJ-COVERED", "workload:lm").status is FAIL
    accepted = judged(objectives, ("currency: EUR", "accept_defaults: true"), estate=without)
    assert one(accepted, "OBJ-COVERED", "workload:lm").status is PASS
    assert one(accepted, "OBJ-COVERED", "workload:ablations").status is FAIL, "of batch jobs R1 says nothing"


def test_R5_a_regulation_that_is_stricter_is_a_conflict_with_its_price() -> None:
    finding = one(judged(), "OBJ-LAW", "workload:triage", "RTO")
    assert (finding.status, finding.value, finding.limit, finding.margin) == (FAIL, 8 * 3600.0, 4 * 3600.0, -1.0)
    assert price(finding).more
    slow = judged(("assumptions:", "patterns: {pilot-light: {provision: 6 h}, active-passive: {provision: 6 h}}\nassumptions:"))
    assert (price(one(slow, "OBJ-LAW", "workload:triage", "RTO")).month or 0) > 0, "the cheap patterns are too slow for the law"
    assert one(judged(("rto: 8 h", "rto: 3 h")), "OBJ-LAW", "workload:triage", "RTO").status is PASS


def test_R5_the_same_day_is_a_guess_and_passes_nothing() -> None:
    finding = one(judged(("regulations: [healthcare-diagnosis]", "regulations: [finance]")), "OBJ-LAW", "workload:triage", "RTO")
    assert finding.status is UNKNOWN
    own = judged(
        ("regulations: [healthcare-diagnosis]", "regulations: [finance]"), ("prices:", "regulations: {finance: {rto: 10 h}}\nprices:")
    )
    assert one(own, "OBJ-LAW", "workload:triage", "RTO").status is PASS


def test_R2_dependency_inversion() -> None:
    finding = one(judged(), "OBJ-ORDER", "workload:chat-model", "tokens")
    assert (finding.status, finding.value, finding.limit) == (FAIL, 3600.0, 900.0)
    assert "tokens" in finding.remedy
    assert one(judged(("rto: 1 h,", "rto: 10 min,")), "OBJ-ORDER", "workload:chat-model", "tokens").status is PASS


def test_R2_restore_that_is_longer_than_its_RTO() -> None:
    finding = one(judged(), "OBJ-RTO", "workload:chat-model")
    assert finding.value == 300 + 600 + 240 + 120
    assert finding.status is FAIL
    assert "active-active meets it" in price(finding).what
    assert one(judged(estate=(("restore: 4 min\n    warm_up: 2 min", "restore: 0 s"),)), "OBJ-RTO", "workload:chat-model").status is PASS
    unknown = judged(estate=(("    checkpoint: 140 GB\n    restore: 4 min\n", ""),))
    assert one(unknown, "OBJ-RTO", "workload:chat-model").status is UNKNOWN


@pytest.mark.parametrize(("left", "status"), [("91 Gbps", PASS), ("30.9 Gbps", FAIL)])
def test_R3_RPO_that_the_lines_cannot_keep(left: str, status: FindingStatus) -> None:
    found = judged(estate=(("measured: 91 Gbps", f"measured: {left}"), ("measured: 9.4 Gbps", "measured: 2 Gbps")))
    finding = one(found, "OBJ-RPO", "workload:lm")
    left_bps = {"91 Gbps": 61e9, "30.9 Gbps": 0.9e9}[left]
    travel_s = 8 * 0.6 * 840e9 / left_bps
    assert finding.value == pytest.approx(max(3600, travel_s) + travel_s)
    assert finding.status is status
    if status is FAIL:
        assert price(finding).month == 180.0, "1.12 Gb/s are needed and 0.9 left: one more step of 1 Gb/s"


def test_R3_delta_that_nobody_measured_passes_nothing() -> None:
    assert one(judged(("  delta_share: 60 %\n", "")), "OBJ-RPO", "workload:lm").status is UNKNOWN


def test_R8_all_that_shares_a_line_together() -> None:
    finding = one(judged(), "OBJ-LINE", "north+south")
    assert finding.value == pytest.approx(1.3e9 + 8 * 0.6 * 840e9 / 3600)
    assert finding.limit == pytest.approx(61e9 + 7.4e9)
    assert finding.status is PASS
    assert one(judged(estate=(("change: 1 Gbps", "change: 90 Gbps"),)), "OBJ-LINE", "north+south").status is FAIL


def test_R1_saves_too_seldom() -> None:
    finding = one(judged(estate=(("checkpoint_every: 1 h", "checkpoint_every: 3 h"),)), "OBJ-SAVES", "workload:lm")
    assert (finding.status, finding.value, finding.limit) == (FAIL, 10_800.0, 7200.0)
    assert one(judged(("rpo: 2 h", "rpo: 0 s")), "OBJ-SAVES", "workload:lm").status is FAIL


def test_R2_99_95_percent_needs_an_RTO_below_4_38_hours() -> None:
    assert one(judged(), "OBJ-YEAR", "service:chat").status is PASS
    finding = one(
        judged(("rpo: 2 h, rto: 4 h, data_class: training", "rpo: 2 h, rto: 5 h, availability: 99.95 %")), "OBJ-YEAR", "workload:lm"
    )
    assert (finding.status, finding.limit) == (FAIL, pytest.approx(4.38 * 3600))


def test_R1_class_that_is_stricter_is_a_warning() -> None:
    finding = one(judged(("rpo: 2 h", "rpo: 6 h")), "OBJ-CLASS", "workload:lm", "RPO")
    assert (finding.status, finding.severity) == (FAIL, Severity.WARNING)


def test_R5_gdpr_sets_no_time() -> None:
    found = judged(("accounts: {rpo: 5 min, rto: 1 h, regulations: [gdpr]}", "accounts: {regulations: [gdpr]}"))
    assert one(found, "OBJ-TIMES", "workload:tokens").status is PASS
    assert one(found, "OBJ-AGAIN", "workload:tokens").status is PASS
    alone = judged(
        ("accounts: {rpo: 5 min, rto: 1 h, regulations: [gdpr]}", "accounts: {data_class: tied, regulations: [gdpr]}"),
        ("prices:", "classes: {tied: {cloud: false}}\nprices:"),
        estate=(("tokens: {kind: service, site: north", "tokens: {kind: service, site: south"),),
    )
    assert one(alone, "OBJ-AGAIN", "workload:tokens").status is PASS, "the other site is still there"


@pytest.mark.parametrize(
    ("change", "code", "subject", "status"),
    [
        (("tls: \"1.3\"", "tls: \"1.2\""), "NET-TLS", "link:fjord", FAIL),
        (("tls: \"1.3\"", "tls: \"1.3\""), "NET-TLS", "link:fjord", PASS),
        (("lines:\n", "lines:\n  ridge: {reserved: 1 Gbps}\n"), "NET-RESERVED", "north+south", PASS),
        (("reserved: 20 Gbps", "reserved: 1 Gbps"), "NET-RESERVED", "north+south", FAIL),
        (("reserved: 20 Gbps", "gain: 1.43"), "NET-GAIN", "north+south", PASS),
    ],
)  # fmt: skip
def test_R17_what_is_set_up_on_lines(change: tuple[str, str], code: str, subject: str, status: FindingStatus) -> None:
    assert one(judged(change), code, subject).status is status


def test_M10_2_lines_of_one_carrier_are_not_diverse() -> None:
    assert one(judged(), "WAN-DIVERSE", "north+south").status is PASS
    finding = one(judged(estate=(("carrier: Arcnet", "carrier: Nordlys"),)), "WAN-DIVERSE", "north+south")
    assert (finding.status, finding.severity) == (FAIL, Severity.WARNING)


def test_without_a_conflict_it_is_a_go() -> None:
    found = judged(
        ("prices:\n", "  batch: {rpo: 24 h, rto: 24 h, covers: [ablations]}\nprices:\n"),
        ("rto: 8 h", "rto: 4 h"),
        ("rto: 1 h,", "rto: 10 min,"),
        estate=(("restore: 4 min\n    warm_up: 2 min", "restore: 0 s"),),
    )
    assert found.verdict is Verdict.GO, [
        (f.code, f.subject, f.text) for f in found.findings if f.status is not PASS and f.severity == "blocking"
    ]
