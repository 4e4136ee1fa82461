"""Services of Kubernetes, and whom pods call (M5.2)."""

from __future__ import annotations

from pathlib import Path

from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers.kubernetes import PARSER
from bridgehead.discovery.parsing import Capture
from bridgehead.model.fact import Status

DATA = (Path(__file__).resolve().parents[1] / "fixtures/discovery/kubernetes/services_deployments.json").read_bytes()


def told(data: bytes = DATA) -> dict[tuple[str, str], object]:
    parsed = PARSER.parse(Capture("f", data))
    return {(view.subject, view.attribute): view.value for view in merge(parsed.facts) if view.status is Status.KNOWN}


def test_services_say_what_stands_behind_them_and_where_they_are_reached() -> None:
    found = told()
    assert found["service:prod/chat", "selector"] == ("app=chat", "tier=front")
    assert found["service:prod/chat", "endpoints"] == ("203.0.113.40:8000", "203.0.113.40:9100")
    assert found["service:prod/chat", "ingress:front"] == ("https://chat.example.com",)
    assert ("service:prod/vectors", "cluster-address") not in found, "None is what is printed for a headless one"
    assert found["service:prod/ledger", "external-name"] == "ledger.example.com"
    assert found["workload:prod/chat", "pod-labels"] == ("app=chat", "build=77", "tier=front")


def test_calls_are_hosts_of_addresses_without_passwords() -> None:
    assert told()["workload:prod/chat", "calls"] == ("db.prod.svc:5432", "vectors:6333")
    parsed = PARSER.parse(Capture("f", DATA))
    assert not any("hunter2" in str(fact.value) + fact.note for fact in parsed.facts)


def test_load_balancer_without_an_address_is_unknown_and_odd_objects_state_nothing() -> None:
    pending = DATA.replace(b'{"ingress": [{"ip": "203.0.113.40"}]}', b"{}")
    assert ("service:prod/chat", "endpoints") not in told(pending)
    odd = DATA.replace(b'{"app": "vectors"}', b'["app"]').replace(b'"rules": [', b'"rules": 7, "x": [')
    odd = odd.replace(b'"port": 6333', b'"port": null')
    assert ("service:prod/vectors", "selector") not in told(odd)
    assert ("service:prod/vectors", "ports") not in told(odd)
    assert ("service:prod/chat", "ingress:front") not in told(odd)
