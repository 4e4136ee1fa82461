"""What of production a job of a bubble sees: nothing (R13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.drills.isolation import Isolation, Network, bubble_folder, has_own_network, vaults_of
from bridgehead.app.drills.preparing import parse_fault
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import JobName, ServiceId, SiteId, WorkloadId
from bridgehead.model.bubble import DeadNode, KillRestore, SiteDown, SlowLine
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Protected, Recovery, SiteJob

SITE_A, SITE_B, CHAT = SiteId("site-a"), SiteId("site-b"), ServiceId("chat")
FOLDER = Path("/home/drills/d1")


def production(scheduler: dict) -> dict:
    site = {
        "scheduler": scheduler,
        "training": {"driver": "files", "directory": "/b/control"},
        "vault": {"driver": "http", "url": "http://b:9"},
    }
    serving = {"driver": "http", "backends": {"chat": {"site-a": "http://10.0.0.1:8000", "site-b": "http://10.0.0.2:8000"}}}
    return {"sites": {"site-b": site}, "services": {"chat": {"serving": serving, "traffic": {"driver": "haproxy"}}}}


def isolation(scheduler: dict | None = None, *, network: str = "") -> Isolation:
    ports = {CHAT: (8000, 8000 if network else 41000)}
    made = production(scheduler or {"driver": "process", "directory": "/b/jobs"})
    return Isolation("ab12", FOLDER, SITE_B, made, network, ports, ("/b/vault",), ("/b/log",))


def protected(command: tuple[str, ...], *, kind: WorkloadKind = WorkloadKind.INFERENCE, env: dict[str, str] | None = None) -> Protected:
    jobs = (SiteJob(SITE_A, ("x",)), SiteJob(SITE_B, command, JobName("chat-b"), env or {}))
    return Protected(WorkloadId("chat"), kind, SITE_A, SITE_B, jobs, service=CHAT)


def test_R13_every_place_of_production_becomes_one_of_the_bubble() -> None:
    command = (
        "serve",
        "--vault=/b/vault",
        "--port",
        "8000",
        "--log",
        "/b/log/x",
        "--orders=/b/control/chat-b",
        "/b/vaults",
        "18000",
        "/c/b/vault",
    )
    job = isolation().job(protected(command, env={"PLACES": "/b/vault:/b/log"}))
    assert job.command == (
        "serve",
        f"--vault={FOLDER}/vault",
        "--port",
        "41000",
        "--log",
        f"{FOLDER}/own/0/x",
        f"--orders={FOLDER}/control/chat-b",
        "/b/vaults",
        "18000",
        "/c/b/vault",
    )
    assert job.env["PLACES"] == f"{FOLDER}/vault:{FOLDER}/own/0"
    assert job.env["BRIDGEHEAD_DRILL"] == "d1"
    assert job.name == "drill-chat-b-ab12"


def test_R13_trainer_stands_by_with_orders_and_a_vault_of_the_bubble() -> None:
    production_env = {"BRIDGEHEAD_VAULT": "/b/vault", "BRIDGEHEAD_CONTROL": "/b/control/lm"}
    job = isolation().job(protected(("train",), kind=WorkloadKind.TRAINING, env=production_env))
    assert job.env["BRIDGEHEAD_STANDBY"] == "1"
    assert job.env["BRIDGEHEAD_VAULT"] == f"{FOLDER}/vault"
    assert job.env["BRIDGEHEAD_CONTROL"] == f"{FOLDER}/control/{job.name}"


def test_R13_bubble_has_no_proxy_and_asks_its_own_server() -> None:
    connections = isolation().connections()
    assert connections["services"] == {"chat": {"serving": {"driver": "http", "backends": {"chat": {"site-b": "http://10.0.0.2:41000"}}}}}
    assert list(connections["sites"]) == ["site-b"]
    assert connections["sites"]["site-b"]["vault"] == {"driver": "view", "directory": f"{FOLDER}/vault"}
    assert connections["sites"]["site-b"]["scheduler"]["directory"] == f"{FOLDER}/jobs"
    inside = isolation(network="bh-d1-ab12")
    assert inside.connections()["services"]["chat"]["serving"]["backends"] == {"chat": {"site-b": "http://127.0.0.1:8000"}}
    assert inside.job(protected(("serve", "8000"))).command[1:] == ("netns", "exec", "bh-d1-ab12", "serve", "8000")


def test_R13_slurm_asks_for_the_same_under_the_names_of_the_drill() -> None:
    slurm = {"driver": "slurm", "cluster": "b", "state": "/b/jobs", "jobs": {"chat-*": {"partition": "serve"}}}
    made = isolation(slurm).connections()["sites"]["site-b"]["scheduler"]
    assert made["state"] == f"{FOLDER}/jobs"
    assert made["jobs"] == {"drill-chat-*-ab12": {"partition": "serve"}, "drill2-chat-*-ab12": {"partition": "serve"}}
    assert bubble_folder(production(slurm), SITE_B, name="d1", home=Path("/h")) == Path("/b/jobs/drills/d1")
    with pytest.raises(BridgeheadError, match="see no folder"):
        bubble_folder(production({"driver": "kubernetes"}), SITE_B, name="d1", home=Path("/h"))
    with pytest.raises(BridgeheadError, match="ssh"):
        bubble_folder(production({**slurm, "ssh": {"host": "b"}}), SITE_B, name="d1", home=Path("/h"))


def test_R13_network_of_its_own_is_refused_where_jobs_would_reach_nothing() -> None:
    made = production({"driver": "process", "directory": "/b/jobs"})  # its vault is reached over the network
    assert not has_own_network(made, SITE_B, Network.AUTO)
    assert not has_own_network(made, SITE_B, Network.SHARED)
    with pytest.raises(BridgeheadError, match="vault in a directory"):
        has_own_network(made, SITE_B, Network.OWN)


def test_folders_in_which_jobs_find_the_vault_are_found_in_what_they_are_told() -> None:
    one = protected(("serve",), env={"BRIDGEHEAD_VAULT": "/b/vault/"})
    recovery = Recovery("r", (SITE_A, SITE_B), (one,))
    assert vaults_of(production({"driver": "process", "directory": "/b/jobs"}), recovery, SITE_B) == ("/b/vault",)


def test_faults_are_read() -> None:
    assert parse_fault("slow-line=100 Mbps") == SlowLine(1e8)
    assert parse_fault("kill-restore=lm") == KillRestore(WorkloadId("lm"))
    assert parse_fault("dead-node=lm") == DeadNode(WorkloadId("lm"))
    assert parse_fault("site-down") == SiteDown()
    for text in ("site-down=x", "kill-restore", "flood"):
        with pytest.raises(BridgeheadError, match="no fault"):
            parse_fault(text)
