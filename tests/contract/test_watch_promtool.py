"""Prometheus's own tool accepts the metrics and the rules, and the rules fire when they should and not before."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bridgehead.kernel.document import dump
from bridgehead.recovery.watch.metrics import exposition
from bridgehead.recovery.watch.readiness import judge, report
from bridgehead.recovery.watch.rules import alert_rules, rules_document
from bridgehead.testing.watch_bed import scene

pytestmark = pytest.mark.server("promtool")
LABELS = 'estate="two",observer="o",workload="lm",site="a",recovery_site="b"'
FINDING = 'estate="two",observer="o",code="WCH-SPARE",subject="lm@b",workload="lm",site="b"'


def promtool(*words: str, given: str | None = None, cwd: Path | None = None) -> str:
    program = shutil.which("promtool") or "promtool"
    done = subprocess.run([program, *words], input=given, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_metrics_pass_the_linter() -> None:
    given = scene()
    page = exposition(report(given, judge(given), observer="o", alarms={}, observers={"p": 1.0}))
    assert promtool("check", "metrics", given=page) == ""


def test_rules_are_valid(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(dump(rules_document(alert_rules())), encoding="utf-8")
    assert f"{len(alert_rules())} rules found" in promtool("check", "rules", str(file))


def case(series: dict[str, str], alerts: dict[str, list[tuple[str, int]]]) -> dict[str, object]:
    """Series at one sample a minute; at which times each alert must fire, and how often."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": when,
                "exp_samples": [{"value": count}],
            }
            for alert, times in alerts.items()
            for when, count in times
        ],
    }


LOOKING = {'bridgehead_watch_last_look_timestamp_seconds{estate="two",observer="o"}': "0+60x60"}
RPO = {f"bridgehead_rpo_objective_seconds{{{LABELS}}}": "3600x120"}


def cases_of_looks_and_loss() -> list[dict[str, object]]:
    return [
        case(
            {'bridgehead_watch_last_look_timestamp_seconds{estate="two",observer="o"}': "0+60x10 600x20"},
            {"BridgeheadWatchSilent": [("9m", 0), ("14m", 1)], "BridgeheadWatchAbsent": [("9m", 0)]},
        ),
        case({"up": "1x30"}, {"BridgeheadWatchAbsent": [("10m", 1)]}),
        case(
            {**LOOKING, **RPO, f"bridgehead_loss_seconds{{{LABELS}}}": "0+60x90"},
            {"BridgeheadRpoMissed": [("60m", 0), ("61m", 1)]},
        ),
        case(  # the copy is due after the objective breaks: told fifteen minutes before, and not earlier
            {
                f"bridgehead_rpo_breaks_timestamp_seconds{{{LABELS}}}": "3600x90",
                f"bridgehead_copy_due_timestamp_seconds{{{LABELS}}}": "4000x90",
            },
            {"BridgeheadRpoSoon": [("44m", 0), ("48m", 1)]},
        ),
        case(  # it is due before: nobody is called
            {
                f"bridgehead_rpo_breaks_timestamp_seconds{{{LABELS}}}": "3600x90",
                f"bridgehead_copy_due_timestamp_seconds{{{LABELS}}}": "3500x90",
            },
            {"BridgeheadRpoSoon": [("50m", 0), ("58m", 0)]},
        ),
        case(  # when it is due is not known: that is no comfort
            {f"bridgehead_rpo_breaks_timestamp_seconds{{{LABELS}}}": "3600x90"},
            {"BridgeheadRpoSoon": [("44m", 0), ("48m", 1)]},
        ),
    ]


def cases_of_recovery_and_sites() -> list[dict[str, object]]:
    return [
        case(
            {
                f"bridgehead_recovery_seconds{{{LABELS}}}": "100x10 9000x20",
                f"bridgehead_rto_objective_seconds{{{LABELS}}}": "3600x30",
            },
            {"BridgeheadRtoMissed": [("9m", 0), ("14m", 1)]},
        ),
        case(
            {'bridgehead_site_state{estate="two",observer="o",site="a",state="silent"}': "0x5 1x20"},
            {"BridgeheadSiteSilent": [("5m", 0), ("9m", 1)], "BridgeheadSiteLost": [("9m", 0)]},
        ),
        case(
            {'bridgehead_site_state{estate="two",observer="o",site="a",state="lost"}': "0x5 1x20"},
            {"BridgeheadSiteLost": [("5m", 0), ("7m", 1)]},
        ),
        case(
            {f"bridgehead_finding_status{{{FINDING}}}": "0x5 1x10 2x20"},
            {"BridgeheadFindingUnknown": [("5m", 0), ("10m", 1)], "BridgeheadFindingFails": [("15m", 0), ("20m", 1)]},
        ),
        case(
            {f"bridgehead_drill_timestamp_seconds{{{LABELS}}}": "0x20000", f"bridgehead_drill_passed{{{LABELS}}}": "1x20000"},
            {"BridgeheadDrillDue": [("10070m", 0), ("10085m", 1)]},
        ),
        case(
            {f"bridgehead_rpo_burn_rate{{{LABELS}}}": "0.02x10 0.99x40"},
            {"BridgeheadRpoBurns": [("10m", 0), ("20m", 1)]},
        ),
        case(  # a slow cycle that keeps its objective burns for hours, and then not at all
            {**RPO, f"bridgehead_rpo_burn_rate{{{LABELS}}}": "0.99x50", f"bridgehead_loss_worst_seconds{{{LABELS}}}": "3000x50"},
            {"BridgeheadRpoBurns": [("20m", 0)]},
        ),
        case(
            {f"bridgehead_finding_foreseen{{{FINDING}}}": "0x5 1x20"},
            {"BridgeheadFindingForeseen": [("5m", 0), ("9m", 1)]},
        ),
    ]


def test_rules_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(dump(rules_document(alert_rules(every_s=30.0, lead_s=900.0))), encoding="utf-8")
    cases = [*cases_of_looks_and_loss(), *cases_of_recovery_and_sites()]
    tried = {alert["expr"].split('"')[1] for one in cases for alert in one["promql_expr_test"]}
    assert tried == {rule.name for rule in alert_rules()}
    (tmp_path / "test.yaml").write_text(dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases}), encoding="utf-8")
    promtool("test", "rules", "test.yaml", cwd=tmp_path)


def test_alertmanager_example_and_prometheus_example_agree_with_the_rules() -> None:
    example = (Path(__file__).resolve().parents[2] / "examples" / "watch" / "alertmanager.yaml").read_text(encoding="utf-8")
    for severity in {rule.severity for rule in alert_rules()}:
        assert f'severity = "{severity}"' in example
