"""Runs of the real program on a (fake) Kubernetes site: nodes are closed, a job and a service start, and a refusal undoes all of it."""

from __future__ import annotations

import pytest

from bridgehead.runbook import state as st
from bridgehead.testing.command_line import PATIENCE_S
from bridgehead.testing.kube_server import TOKEN, FakeCluster, Strike

SPACE = "train"


@pytest.fixture
def cluster():
    with FakeCluster() as cluster, cluster.living():
        pod = {"containers": [{"name": "s", "image": "x"}], "terminationGracePeriodSeconds": 2}
        template = {"metadata": {"labels": {"app": "chat"}}, "spec": pod}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "chat"}}, "template": template}
        document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"}, "spec": spec}
        cluster.store.create("Deployment", SPACE, document)
        yield cluster


@pytest.fixture
def kube_line(line, cluster):
    """The command line, with an estate whose site ``fra`` is on Kubernetes."""
    line.write("token", TOKEN)
    login = {"kubeconfig": cluster.kubeconfig(line.folder / "kubeconfig", tokenFile="token")}
    scheduler = {
        "driver": "kubernetes",
        "login": login,
        "jobs": {"*": {"image": "x"}},
        "deployments": {"chat": {"name": "chat", "replicas": 2}},
    }
    line.estate = line.write("estate.yaml", {"estate": "lab", "sites": {"fra": {"connections": {"scheduler": scheduler}}}})
    return line


def book(steps):
    closed = {"site": "fra", "nodes": ["node-1"], "reason": "it is moved", "until": "closed"}
    train = {"name": "train", "command": ["sleeps"], "grace": "5 s", "env": {"KEY": "s3cret-of-the-run"}}
    chat = {"name": "chat", "command": ["unused"], "grace": "5 s"}
    return [
        {"id": "close", "action": "nodes.drain", "with": closed, "deadline": "60 s"},
        {"id": "train", "action": "job.start", "with": {"site": "fra", "job": train}, "deadline": "60 s", "needs": ["close"]},
        {"id": "chat", "action": "job.start", "with": {"site": "fra", "job": chat}, "deadline": "60 s", "needs": ["train"]},
        steps.approval(needs=("chat",)),
    ]


def closed(cluster):
    return [node["metadata"]["name"] for node in cluster.store.all("Node") if node["spec"].get("unschedulable")]


def running(cluster):
    with cluster.lock:
        living = set(cluster.nodes.running(cluster.now_s))
        return sorted(
            pod["metadata"]["name"].partition("-")[0] for pod in cluster.store.all("Pod", SPACE) if pod["metadata"]["uid"] in living
        )


def test_a_run_is_done_and_its_undo_takes_all_of_it_back(kube_line, cluster, steps) -> None:
    driver = kube_line.start(book(steps))
    kube_line.until_step("move", "agree", st.Asking)
    kube_line.until("move", lambda _state: running(cluster) == ["chat", "chat", "train"])
    assert closed(cluster) == ["node-1"]
    assert {pod["spec"].get("nodeName") for pod in cluster.store.all("Pod", SPACE)} == {"node-2"}
    assert kube_line.run("run", "reject", "move", "agree", "--as", "bob").returncode == 0
    ended = driver.end()
    assert (ended.returncode, "rolled-back" in ended.stdout) == (1, True), ended
    assert (closed(cluster), running(cluster)) == ([], [])
    written = "".join(path.read_text(errors="replace") for path in [*kube_line.folder.glob("*.out"), *kube_line.folder.glob("*.err")])
    assert TOKEN not in written
    assert "s3cret" not in written


@pytest.mark.parametrize(("method", "part"), [("POST", "/jobs"), ("PATCH", "/jobs"), ("PATCH", "/deployments")])
def test_a_driver_that_is_killed_is_followed_by_one_that_does_nothing_twice(kube_line, cluster, steps, method, part) -> None:
    """While the server carries out what it asked for last."""
    driving = []

    def kill() -> None:
        driving[0].process.kill()
        driving[0].process.wait()

    cluster.strikes = [Strike(method=method, part=part, hook=kill)]
    driving.append(kube_line.start(book(steps)))
    driving[0].process.wait(timeout=PATIENCE_S)
    resumed = kube_line.drive("run", "resume", "move")
    kube_line.until_step("move", "agree", st.Asking)
    assert kube_line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
    assert resumed.end().returncode == 0
    kube_line.until("move", lambda _state: running(cluster) == ["chat", "chat", "train"])
    assert len(cluster.nodes.environments) == 3
    assert closed(cluster) == ["node-1"]
