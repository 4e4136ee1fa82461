"""Weights, the desired state and traefik's dynamic file and command line."""

from __future__ import annotations

import fcntl
import os

import pytest
import yaml

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyService, HaproxyTraffic, haproxy_command
from bridgehead.drivers.traefik import TraefikBackend, TraefikOptions, TraefikService, TraefikTraffic, find_traefik, traefik_command
from bridgehead.drivers.traefik.options import rendered
from bridgehead.host import desired
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent, Transient, Unknown
from bridgehead.model.weights import validated_weights
from bridgehead.testing.traffic_suite import stamp

SITES = {site: TraefikBackend(url=f"http://127.0.0.1:1/{site}", metrics_url="http://127.0.0.1:1/metrics") for site in ("a", "b")}


def traefik_options(folder, **changes) -> TraefikOptions:
    service = {"sites": SITES, "initial": {"a": 100, "b": 0}, **changes}
    return TraefikOptions(
        dynamic_file=str(folder / "dynamic.yaml"), admin_url="http://127.0.0.1:9", services={"chat": TraefikService(**service)}
    )


def test_G10_weights_are_percent_of_exactly_the_sites():
    assert validated_weights("chat", {"b": 5, "a": 95}, sites=("a", "b")) == {"a": 95, "b": 5}
    for wrong, what in [
        ({"a": 100}, "name a"),
        ({"a": 50, "b": 50, "c": 0}, "name a, b, c"),
        ({"a": 101, "b": -1}, "weight of a is 101"),
        ({"a": True, "b": 99}, "weight of a is True"),
        ({"a": 50, "b": 49}, "add up to 99"),
        ({"a": 0, "b": 0}, "add up to 0"),
    ]:
        with pytest.raises(Permanent, match=what):
            validated_weights("chat", wrong, sites=("a", "b"))


def test_dynamic_file_holds_router_weights_cookie_and_backends(tmp_path):
    document = yaml.safe_load(rendered(traefik_options(tmp_path), {"chat": {"a": 95, "b": 5}}))["http"]
    assert document["routers"]["chat"] == {"entryPoints": ["web"], "rule": "PathPrefix(`/`)", "service": "chat"}
    weighted = document["services"]["chat"]["weighted"]
    assert weighted["services"] == [{"name": "chat~a", "weight": 95}, {"name": "chat~b", "weight": 5}]
    assert weighted["sticky"]["cookie"]["name"] == "bridgehead-site"
    assert document["services"]["chat~b"]["loadBalancer"]["servers"] == [{"url": "http://127.0.0.1:1/b"}]


@pytest.mark.parametrize("changes", [{"rule": "Host(`{{ env }}`)"}, {"cookie": "{{x}}"}])
def test_templates_in_options_are_refused(tmp_path, changes):
    with pytest.raises(BridgeheadError, match=r"\{\{") as caught:
        TraefikTraffic(traefik_options(tmp_path, **changes)).install()
    assert caught.value.code is ErrorCode.BAD_INPUT


def test_names_that_could_be_mistaken_are_refused(tmp_path):
    with pytest.raises(BridgeheadError, match="a~b"):
        traefik_options(tmp_path, sites={"a~b": SITES["a"], "b": SITES["b"]})
    with pytest.raises(BridgeheadError, match="x y"):
        HaproxyOptions(socket="s", state_file="f", services={"chat": HaproxyService(listen="x y", sites={}, initial={})})


def test_command_lines(tmp_path):
    options = traefik_options(tmp_path)
    command = traefik_command(options, listen="127.0.0.1:8")
    assert command[0] == find_traefik()
    assert "--entrypoints.web.address=127.0.0.1:8" in command
    assert "--entrypoints.traefik.address=127.0.0.1:9" in command
    open_to_all = TraefikOptions(dynamic_file="d", admin_url="http://0.0.0.0:9", services=options.services)
    with pytest.raises(BridgeheadError, match="loopback"):
        traefik_command(open_to_all, listen="127.0.0.1:8")
    with pytest.raises(BridgeheadError, match="config_file"):
        haproxy_command(HaproxyOptions(socket="s", state_file="f", services={}), program="haproxy")


def test_missing_program_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BridgeheadError, match="pip install") as caught:
        find_traefik()
    assert caught.value.code is ErrorCode.SERVER_MISSING


def test_J13_change_waits_for_another_process_only_so_long(tmp_path, monkeypatch):
    monkeypatch.setattr(desired, "LOCK_WAIT_S", 0.05)
    file = desired.DesiredFile(tmp_path / "state.json")
    handle = os.open(tmp_path / "state.json.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(Transient, match="another process"), file.locked():
        pytest.fail("the lock was not exclusive")
    os.close(handle)
    with file.locked():
        pass


def test_damaged_state_is_never_taken_for_no_state(tmp_path):
    traffic = TraefikTraffic(traefik_options(tmp_path))
    traffic.write("chat", {"a": 50, "b": 50}, stamp=stamp())
    state = tmp_path / "dynamic.yaml.state.json"
    state.write_bytes(state.read_bytes()[:-5])
    with pytest.raises(Permanent, match="state"):
        traffic.write("chat", {"a": 0, "b": 100}, stamp=stamp())


def test_write_that_gets_no_further_than_the_record_is_unknown_and_reconciled(tmp_path):
    traffic = TraefikTraffic(traefik_options(tmp_path))
    (tmp_path / "dynamic.yaml").mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(Unknown):
        traffic.write("chat", {"a": 50, "b": 50}, stamp=stamp())
    (tmp_path / "dynamic.yaml").rmdir()
    assert traffic.reconcile("chat") is True
    assert "weight: 50" in (tmp_path / "dynamic.yaml").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dynamic.yaml", "dynamic.yaml.state.json", "dynamic.yaml.state.json.lock"]


def test_service_with_other_sites_than_recorded_begins_again_with_its_initial_weights(tmp_path):
    traffic = TraefikTraffic(traefik_options(tmp_path))
    traffic.write("chat", {"a": 50, "b": 50}, stamp=stamp())
    changed = traefik_options(tmp_path, sites={"a": SITES["a"], "c": SITES["b"]}, initial={"a": 90, "c": 10})
    TraefikTraffic(changed).install()
    assert "weight: 90" in (tmp_path / "dynamic.yaml").read_text()


def test_initial_weights_are_checked(tmp_path):
    with pytest.raises(Permanent, match="add up to 90"):
        TraefikTraffic(traefik_options(tmp_path, initial={"a": 90, "b": 0}))
    service = HaproxyService(listen="127.0.0.1:1", sites={"a": "127.0.0.1:2"}, initial={"a": 50})
    with pytest.raises(Permanent, match="add up to 50"):
        HaproxyTraffic(HaproxyOptions(socket="s", state_file=str(tmp_path / "f"), services={"chat": service}))
