"""Kubernetes: capacity, allocatable and the driver's count are three facts; grace is a chain (M2, M5.2, D07)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridgehead.discovery.kube import quantity
from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers.kubernetes import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "kubernetes"
GIB = 2**30


def parse(data: bytes | str, *, host: str = "") -> Parsed:
    raw = data if isinstance(data, bytes) else data.encode()
    assert PARSER.recognises(raw)
    return PARSER.parse(Capture("f", raw, host))


def read(name: str, *, host: str = "") -> Parsed:
    return parse((FIXTURES / name).read_bytes(), host=host)


def values(parsed: Parsed, subject: str) -> dict[str, Any]:
    return {view.attribute: view.value for view in merge(parsed.facts) if view.subject == subject and view.status is Status.KNOWN}


def fact(parsed: Parsed, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.attribute == attribute]
    return found


def test_D07_capacity_allocatable_and_what_is_withheld() -> None:
    parsed = read("node_status_allocatable.yaml")
    node = values(parsed, "node:box-31")
    assert (node["gpu-capacity"], node["gpu-allocatable"], node["gpu-withheld"]) == (8, 0, 8)
    assert (node["memory"], node["memory-allocatable"]) == (1031200000 * 1024, 1031000000 * 1024)
    assert (node["scheduler-cpu-count"], node["cpu-allocatable"], node["internal-address"]) == (96, 95.5, "10.9.8.7")
    assert "gpu-count" not in node  # what the driver counts nobody says
    assert fact(parsed, "gpu-capacity").source.line == 15


def test_labels_of_feature_discovery_that_contradict_each_other() -> None:
    parsed = read("gfd_labels_mig.json", host="h7")
    node = values(parsed, "node:h7")
    assert (node["gpu-count"], node["gpu-model"], node["mig-profile"]) == (4, "H100-80GB-HBM3", "2g.20gb")
    assert (node["driver-version"], node["cuda-version"], node["gpu-memory"]) == ("550.54.15", "12.4", 81559 * 2**20)
    capability, strategy = fact(parsed, "gpu-compute-capability"), fact(parsed, "mig-strategy")
    assert (capability.status, capability.value) == (Status.CONFLICT, "8.9")
    assert "has 9.0" in capability.note
    assert (strategy.status, strategy.value) == (Status.CONFLICT, "mixed")


def test_labels_that_agree_are_no_conflict() -> None:
    labels = json.loads((FIXTURES / "gfd_labels_mig.json").read_text())
    labels |= {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED", "nvidia.com/gpu.compute.minor": "0"}
    node = values(parse(json.dumps(labels)), "node:?")
    assert (node["gpu-model"], node["gpu-shared"]) == ("NVIDIA-A100-SXM4-80GB", True)
    assert (node["gpu-compute-capability"], node["mig-strategy"]) == ("8.0", "mixed")


def test_labels_that_somebody_wrote_have_their_own_unit_and_are_no_count_of_the_driver() -> None:
    parsed = read("hand_labels.json")
    node = values(parsed, "node:?")
    assert node["gpu-memory"] == 141 * 10**9
    assert "somebody wrote it" in fact(parsed, "gpu-memory").note
    assert (node["gpu-count-label"], node["gpu-model"], node["roles"]) == (4, "H200", ("accel",))
    assert "gpu-count" not in node


def test_stream_of_nodes_whose_last_document_is_cut() -> None:
    parsed = read("nodes_stream_cut.yaml")
    node = values(parsed, "node:fleet-0001")
    assert (node["gpu-capacity"], node["gpu-allocatable"], node["gpu-withheld"]) == (2, 1, 1)
    assert (node["scheduler-cpu-count"], node["memory"], node["gpu-model"]) == (32, 128 * GIB, "T4")
    assert values(parsed, "node:fleet-0002") == {"gpu-model": "A10"}
    assert [fact.source.line for fact in parsed.facts if fact.subject == "node:fleet-0002"] == [23]
    assert [(skipped.line, "may be cut off" in skipped.reason) for skipped in parsed.skipped] == [(25, True)]


def test_M5_2_grace_is_less_what_the_hook_sleeps() -> None:
    parsed = read("pods.json")
    pod = values(parsed, "workload:ml/trainer-0")
    assert (pod["grace"], pod["pre-stop-sleep:main"], pod["grace-after-pre-stop"]) == (600, 45, 555)
    assert pod["pre-stop:main"] == "exec /bin/sh -c sleep 45"
    assert (pod["gpu-count"], pod["gpus-per-pod"], pod["node"], pod["phase"]) == (8, 8, "box-31", "Running")
    assert (pod["owner"], pod["kind"], pod["priority-class"], pod["claims"]) == ("StatefulSet.trainer", "Pod", "high", ("dataset",))
    assert (pod["memory-requested"], pod["cpu-count"]) == (801 * GIB, 90.5)


def test_M5_2_grace_after_a_hook_of_unknown_length_is_unknown() -> None:
    pod = values(read("pods.json"), "workload:web/serve-x1")
    assert (pod["grace"], pod["pre-stop:api"]) == (30, "httpGet /drain")
    assert "grace-after-pre-stop" not in pod
    assert pod["gpu-count"] == 2  # a helper goes on beside the container; the one that starts first needs as many


def test_controllers_training_operators_and_broken_documents() -> None:
    parsed = read("workloads.yaml")
    trainer, job = values(parsed, "workload:ml/trainer"), values(parsed, "workload:ml/llama")
    assert (trainer["kind"], trainer["replicas"], trainer["gpu-count"], trainer["gpus-per-pod"]) == ("StatefulSet", 4, 32, 8)
    assert (trainer["grace"], trainer["grace-after-pre-stop"]) == (600, 580)
    assert (job["gpu-count"], job["replicas:worker"], job["grace:master"]) == (32, 3, 120)
    assert "grace:worker" not in job
    reasons = [skipped.reason for skipped in parsed.skipped]
    assert any("kind ConfigMap are not read" in reason for reason in reasons)
    assert any("no YAML" in reason for reason in reasons)


def test_grace_that_is_not_written_is_unknown() -> None:
    parsed = parse("apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n")
    assert values(parsed, "workload:default/p") == {"kind": "Pod", "gpu-count": 0, "gpus-per-pod": 0}
    assert "30 s" in fact(parsed, "grace").note


def test_node_in_full_from_a_list() -> None:
    node = {
        "metadata": {
            "name": "n1",
            "labels": {
                "topology.kubernetes.io/zone": "z1",
                "feature.node.kubernetes.io/pci-15b3.present": "true",
                "nvidia.com/cuda.driver-version.full": "570.1.2",
                "nvidia.com/gpu.clique": "aa.0",
            },
        },
        "spec": {"unschedulable": True, "taints": [{"key": "gpu", "value": "bad", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"nvidia.com/mig-1g.10gb": "7", "rdma/hca_shared": "63"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"architecture": "amd64", "kernelVersion": "6.8.0", "kubeletVersion": "v1.31.2"},
        },
    }
    parsed = parse(json.dumps({"apiVersion": "v1", "items": [node], "kind": "List"}, indent=2))
    assert values(parsed, "node:n1") == {
        "mig-capacity:1g.10gb": 7,
        "resource-capacity:rdma/hca_shared": 63,
        "topology-label:zone": "z1",
        "feature:pci-15b3.present": "true",
        "driver-version": "570.1.2",
        "nvlink-clique": "aa.0",
        "scheduler-state": "Ready,SchedulingDisabled",
        "taints": ("gpu=bad:NoSchedule",),
        "architecture": "x86_64",
        "kernel-version": "6.8.0",
        "kubelet-version": "v1.31.2",
    }


@pytest.mark.parametrize("name", ["pods.json", "workloads.yaml", "nodes_stream_cut.yaml", "gfd_labels_mig.json"])
def test_line_ends_change_nothing(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    plain = [(one.subject, one.attribute, one.value, one.source.line) for one in read(name).facts]
    assert [(one.subject, one.attribute, one.value, one.source.line) for one in parse(whole.replace(b"\n", b"\r\n")).facts] == plain


@pytest.mark.parametrize(
    ("text", "number"),
    [("263514892Ki", 263514892 * 1024), ("64000m", 64), ("95500m", 95.5), ("16", 16), (16, 16), ("1e3", 1000), ("1.5Gi", 1610612736)],
)
def test_quantities(text: str | int, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "80GB", "-1", "1 Gi", "١٦", "9" * 40, None, True, [], "0x10", "1_000"])
def test_what_is_no_quantity(text: object) -> None:
    assert quantity(text) is None
