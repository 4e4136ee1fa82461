"""Metrics and alert rules: valid exposition, documented names, rules that use only what is exposed."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.watch_server import WatchServer
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.model.exposition import parse_exposition
from bridgehead.recovery.watch.alarm import AlarmKind, AlarmState
from bridgehead.recovery.watch.facts import Facts
from bridgehead.recovery.watch.metrics import METRICS, exposition
from bridgehead.recovery.watch.readiness import CODES, WatchReport, judge, report
from bridgehead.recovery.watch.rules import alert_rules
from bridgehead.recovery.watch.scene import Scene
from bridgehead.testing.watch_bed import scene

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"


def made(given: Scene | None = None) -> WatchReport:
    used = given or scene()
    alarm = AlarmState('WCH-RPO lm@"site"\\a', kind=AlarmKind.MISSED, raised_s=5.0)
    return report(used, judge(used), observer="o", alarms={alarm.key: alarm}, observers={"p": 2.5})


def test_page_is_valid_and_says_what_the_report_says() -> None:
    page = parse_exposition(exposition(made()))
    values = {sample.name: sample.value for sample in page.samples if sample.labels.get("workload", "lm") == "lm"}
    assert values["bridgehead_loss_seconds"] == 600.0
    assert values["bridgehead_copy_lag_seconds"] == 0.0
    assert values["bridgehead_watch_status"] == 0.0
    assert set(page.types) <= {metric.name for metric in METRICS}
    assert all({"estate", "observer"} <= set(sample.labels) for sample in page.samples)
    [alarm] = [sample for sample in page.samples if sample.name == "bridgehead_alarm_since_timestamp_seconds"]
    assert alarm.labels["subject"] == 'lm@"site"\\a', "labels are escaped"


def test_G03_what_is_not_known_has_no_sample() -> None:
    page = parse_exposition(exposition(made(scene(Facts()))))
    names = {sample.name for sample in page.samples}
    assert names.isdisjoint({"bridgehead_loss_seconds", "bridgehead_copy_lag_seconds", "bridgehead_restore_seconds"})
    status = {
        sample.value for sample in page.samples if sample.labels.get("code") == "WCH-RPO" and sample.name == "bridgehead_finding_status"
    }
    assert status == {1.0}


def test_every_metric_is_made_by_some_report_and_has_the_labels_that_it_names() -> None:
    seen: dict[str, set[str]] = {}
    missed = msgspec.structs.replace(made(), sites=tuple(msgspec.structs.replace(one, grace_left_s=3.0) for one in made().sites))
    burning = tuple(msgspec.structs.replace(one, burn_rate=0.5) for one in missed.workloads)
    for sample in parse_exposition(exposition(msgspec.structs.replace(missed, workloads=burning))).samples:
        seen.setdefault(sample.name, set()).update(sample.labels)
    for metric in METRICS:
        assert seen[metric.name] == {*metric.labels, "estate", "observer"}, metric.name


def test_rules_use_only_metrics_that_exist() -> None:
    known = {metric.name for metric in METRICS}
    for rule in alert_rules():
        assert set(re.findall(r"bridgehead_[a-z_]+", rule.expr)) <= known, rule.name


def test_reference_page_names_every_metric_code_and_rule() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in [metric.name for metric in METRICS] + [code.code for code, _ in CODES] + [rule.name for rule in alert_rules()]:
        assert f"`{name}`" in text, f"{name} is not in {PAGE.name}: run tools/write_watch.py"


def fetched(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_server_serves_the_last_report_and_says_when_nobody_looks() -> None:
    with WatchServer(host="127.0.0.1", port=0, stale_s=60.0) as server:
        place = f"http://127.0.0.1:{server.port}"
        assert fetched(f"{place}/healthz")[0] == 503
        assert fetched(f"{place}/metrics") == (200, "")
        server.show(made())
        assert fetched(f"{place}/healthz") == (200, "looking\n")
        parse_exposition(fetched(f"{place}/metrics")[1])
        assert msgspec.json.decode(fetched(f"{place}/report")[1])["estate"] == "two"
        assert fetched(f"{place}/else")[0] == 404
        with pytest.raises(BridgeheadError, match="serve metrics"):
            WatchServer(host="127.0.0.1", port=server.port, stale_s=1.0)
