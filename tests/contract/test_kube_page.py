"""What the page on Kubernetes shows is taken, and the rights that it lists are those that the drivers use, and no more."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from bridgehead.app.wiring import connect, driver_options
from bridgehead.drivers.kubernetes import (
    DeploymentRequest,
    KubernetesAdmission,
    KubernetesTraffic,
    KubernetesTrafficOptions,
    OnDrain,
    RouteBackend,
    RouteService,
)
from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import JobName
from bridgehead.model.estatefile import read_estate
from bridgehead.ports.scheduler import JobSpec
from bridgehead.testing.kube_hooks import SPACE, KubeHooks
from bridgehead.testing.scheduler_suite import JOB, stamp

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "kubernetes-driver.md").read_text(encoding="utf-8")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
CHAT = JobName("chat-server")


def example(name):
    return re.search(rf"<!-- test: {name} -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_examples_are_taken_by_the_reader_of_estates():
    site = yaml.safe_load(example("scheduler"))
    service = yaml.safe_load(example("traffic"))
    document = {
        "estate": "x",
        "sites": {"site-a": {"connections": site}, "site-b": {}},
        "services": {"chat": {"sites": ["site-a", "site-b"], **service}},
    }
    ports = connect(read_estate(yaml.safe_dump(document), file="x", drivers=driver_options()).connections())
    assert (list(ports.schedulers), list(ports.traffics), list(ports.admissions)) == (["site-a"], ["chat"], ["site-a"])


def allowed():
    found = set()
    for role in yaml.safe_load_all(example("roles")):
        for rule in role["rules"]:
            found |= {
                (role["kind"], group, resource, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    return found


def needed(request):
    """The right that a request needs, as Kubernetes derives it."""
    method, _, target = request.partition(" ")
    path = target.partition("?")[0].split("/")
    group, rest = ("", path[3:]) if path[1] == "api" else (path[2], path[4:])
    everywhere = rest[0] != "namespaces"
    resource, *name = rest if everywhere else rest[2:]
    verb = ("get" if name else "list") if method == "GET" else VERBS[method]
    cluster = everywhere or (len(name) > 1 and name[1] == "eviction")
    return ("ClusterRole" if cluster else "Role", group, "/".join([resource, *name[1:]]), verb)


class TestRights(KubeHooks):
    @pytest.fixture
    def driver(self):
        return self.make(deployments={CHAT: DeploymentRequest("chat")})

    def deploy(self):
        template = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [{"name": "s", "image": "x"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "chat"}}, "template": template}
        document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"}, "spec": spec}
        self.cluster.store.create("Deployment", SPACE, document)
        refs = [{"name": name, "port": 80} for name in ("a", "b")]
        document = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": "chat"},
            "spec": {"rules": [{"backendRefs": refs}]},
        }
        self.cluster.store.create("HTTPRoute", SPACE, document)

    def test_the_listed_rights_are_those_that_are_used(self, driver):
        self.deploy()
        driver.start(JobSpec(name=JOB, command=("ignores-stop",), env={"A": "b"}), stamp=stamp())
        driver.start(JobSpec(name=CHAT, command=()), stamp=stamp("chat"))
        self.advance(2.0)
        self.running(driver)
        doors = KubernetesAdmission(self.site, self.options(on_drain=OnDrain.EVICT), now=lambda: self.cluster.now_s)
        doors.drain(("node-1", "node-2"), reason="why", stamp=stamp("drain"))
        doors.resume(("node-1", "node-2"), stamp=stamp("resume"))
        doors.hold(JOB, stamp=stamp("hold"))
        doors.nodes(("node-1",))
        self.advance(2.0)
        for name in (JOB, CHAT):
            driver.kill(name, stamp=stamp(f"kill-{name}"))
            self.wait_ended(driver, name)
        self.lose_a_start()
        sites = {site: RouteBackend(site, "http://127.0.0.1:1/") for site in ("a", "b")}
        traffic = KubernetesTraffic(KubernetesTrafficOptions(services={"chat": RouteService("chat", sites)}, login=self.login))
        traffic.write("chat", {"a": 40, "b": 60}, stamp=stamp("shift"))
        used = {needed(request) for request in self.cluster.requests}
        assert used - allowed() == set()
        assert allowed() - used == set()

    def lose_a_start(self):
        """A Job that cannot be claimed is taken back."""

        def elsewhere(where):
            if where == "created":
                self.make().start(self.spec(("exits", "0")), stamp=stamp("other"))

        with suppress(PortError):
            self.make(checkpoint=elsewhere).start(self.spec(("exits", "0")), stamp=stamp("mine"))
