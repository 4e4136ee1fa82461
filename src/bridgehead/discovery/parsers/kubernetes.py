"""Kubernetes: nodes, pods, what makes them, and services, from JSON or YAML; also labels or a status alone (D07, M5.2)."""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.kube import Resource, inner, listed, resources
from bridgehead.discovery.kube_nodes import state_labels, state_node
from bridgehead.discovery.kube_pods import TEMPLATES, state_workload
from bridgehead.discovery.kube_services import SERVICE, state_ingress, state_service
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "kubernetes"
_JSON: Final = re.compile(rb'"apiVersion"\s*:\s*"')
_KIND: Final = re.compile(rb'"(?:kind|items)"\s*:')
_LABELS: Final = re.compile(rb'\A\s*\{(?:\s*"[\w./-]+"\s*:\s*"[^"\\\n]*"(?:\s*,|(?=\s*\Z|\s*\}))){1,500}')
_YAML: Final = re.compile(rb"^apiVersion:\s*\S", re.MULTILINE)
_YAML_KIND: Final = re.compile(rb"^(?:kind|items):", re.MULTILINE)
_STATUS: Final = re.compile(rb"^(?:status:|allocatable:|capacity:)[ \t]*\r?$", re.MULTILINE)
_AMOUNTS: Final = re.compile(rb"^[ \t]*(?:allocatable|capacity):[ \t]*\r?$", re.MULTILINE)
_MOST_SKIPPED: Final = 50


def recognises(head: bytes) -> bool:
    """The version and kind of an object; labels of GPUs alone; or a status with what can be allocated."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if text.lstrip()[:1] == b"{":
        if _JSON.search(text) is not None and _KIND.search(text) is not None:
            return True
        found = _LABELS.match(text)
        return found is not None and b'"nvidia.com/gpu.' in found[0]
    if _YAML.search(text) is not None and _YAML_KIND.search(text) is not None:
        return True
    return (
        _STATUS.search(text) is not None
        and _AMOUNTS.search(text) is not None
        and re.search(rb"^[ \t]+(?:cpu|memory|pods):", text, re.M) is not None
    )


def parse(capture: Capture) -> Parsed:
    """Every object that can be read; a broken or unfinished one is skipped."""
    say = Statements(_TOOL, capture)
    others: dict[str, int] = {}
    for number, resource in enumerate(resources(capture)):
        if isinstance(resource, Unreadable):
            if number < _MOST_SKIPPED:
                say.skip(resource.line, resource.reason)
            continue
        kind = _kind(resource)
        if kind == "Node":
            state_node(say, resource, _name(resource.values))
        elif kind == "labels":
            state_labels(say, say.node, resource.values, resource.place)
        elif kind == "Pod" or kind in TEMPLATES or any(key.endswith("ReplicaSpecs") for key in inner(resource.values, "spec")):
            state_workload(say, resource, kind)
        elif kind == "Service":
            state_service(say, resource)
        elif kind == "Ingress":
            state_ingress(say, resource)
        elif kind not in others:
            others[kind] = resource.place()
    for kind, line in others.items():
        say.skip(line, f"objects of kind {kind[:60] or '?'} are not read")
    return say.done()


def _kind(resource: Resource) -> str:
    """What an object is; items of a list often do not say."""
    values = resource.values
    if isinstance(kind := values.get("kind"), str) and kind:
        return kind
    if any(str(key).startswith("nvidia.com/gpu.") for key in values):
        return "labels"
    if inner(values, "status", "capacity") or inner(values, "status", "allocatable") or inner(values, "status", "nodeInfo"):
        return "Node"
    if "capacity" in values or "allocatable" in values:
        resource.values = {"status": values}
        return "Node"
    if "clusterIP" in inner(values, "spec"):
        return "Service"
    return "Pod" if listed(values, "spec", "containers") else ""


def _name(values: dict[str, Any]) -> str:
    """The node's name, or that of its address."""
    name = inner(values, "metadata").get("name")
    if isinstance(name, str) and name.strip():
        return name.strip()
    hosts = [one.get("address") for one in listed(values, "status", "addresses") if one.get("type") == "Hostname"]
    return hosts[0] if hosts and isinstance(hosts[0], str) else ""


_NODE: Final = (
    ("gpu-capacity", "", "GPUs that the device plug-in announced"),
    ("gpu-allocatable", "", "GPUs that pods can get"),
    ("gpu-withheld", "", "GPUs that are announced and that no pod can get"),
    ("gpu-count", "", "GPUs that the driver counts, from labels of feature discovery"),
    ("gpu-count-label", "", "GPUs by a label that nothing of feature discovery stands beside"),
    ("gpu-model", "", "model, without profile and mark of sharing"),
    ("gpu-family", "", "generation"),
    ("gpu-memory", "B", "memory of each GPU"),
    ("gpu-compute-capability", "", "of each GPU; a conflict where the model has another one"),
    ("gpu-replicas", "", "shares that each GPU is offered in"),
    ("gpu-shared", "", "that GPUs are shared"),
    ("mig-profile", "", "profile of the parts that GPUs are divided in"),
    ("mig-strategy", "", "how parts of GPUs are offered"),
    ("mig-capable", "", "whether GPUs can be divided"),
    ("mig-capacity:*", "", "parts of GPUs that are announced, by profile"),
    ("mig-allocatable:*", "", "parts of GPUs that pods can get, by profile"),
    ("driver-version", "", "version of the driver"),
    ("cuda-version", "", "highest CUDA of the driver"),
    ("nvlink-clique", "", "domain and clique of NVLink"),
    ("machine-label", "", "model of the chassis, with dashes for blanks"),
    ("memory", "B", "main memory, as the node announces it"),
    ("memory-allocatable", "B", "memory that pods can get"),
    ("scheduler-cpu-count", "", "CPUs that the node announces"),
    ("cpu-allocatable", "", "CPUs that pods can get"),
    ("ephemeral-storage-capacity", "B", "disk for pods"),
    ("ephemeral-storage-allocatable", "B", "disk that pods can get"),
    ("resource-capacity:*", "", "any other resource"),
    ("resource-allocatable:*", "", "any other resource"),
    ("scheduler-state", "", "Ready, NotReady or Unknown, and SchedulingDisabled"),
    ("taints", "", "what keeps pods away"),
    ("roles", "", "roles"),
    ("topology-label:*", "", "zone, region, block and so on"),
    ("feature:*", "", "labels of node feature discovery, of devices and networks"),
    ("instance-type", "", "type of the machine in a cloud"),
    ("cluster-network", "", "network of the cluster in a cloud"),
    ("cluster-network-profile", "", "its kind"),
    ("kubelet-version", "", "version of the kubelet"),
    ("kernel-version", "", "version of the kernel"),
    ("os-image", "", "operating system"),
    ("container-runtime", "", "runtime and its version"),
    ("architecture", "", "of the processor"),
    ("system-uuid", "", "identity of the system"),
    ("internal-address", "", "address in the cluster"),
    ("provider-id", "", "name in the cloud"),
)
_WORKLOAD: Final = (
    ("kind", "", "Pod, Deployment, StatefulSet, Job and so on"),
    ("owner", "", "KIND.NAME of what made it"),
    ("phase", "", "Pending, Running, Succeeded, Failed or Unknown"),
    ("node", "", "node that it runs on"),
    ("gpu-count", "", "GPUs of all its pods"),
    ("gpus-per-pod", "", "GPUs of each pod"),
    ("replicas", "", "how many pods"),
    ("replicas:*", "", "how many pods of each role"),
    ("memory-requested", "B", "memory that each pod asks for"),
    ("cpu-count", "", "CPUs that each pod asks for"),
    ("time-limit", "s", "longest run"),
    ("ready-after", "s", "time until a new pod counts"),
    ("grace", "s", "time from the order to end until the kill"),
    ("grace:*", "s", "the same of each role"),
    ("pre-stop:*", "", "hook of a container before the signal"),
    ("pre-stop-sleep:*", "s", "how long the hook only sleeps"),
    ("grace-after-pre-stop", "s", "what is left after the hooks"),
    ("priority-class", "", "priority"),
    ("restart-policy", "", "whether it is started again"),
    ("scheduler", "", "which scheduler places it"),
    ("claims", "", "volumes that it needs"),
    ("pod-labels", "", "labels of its pods, as KEY=VALUE"),
    ("calls", "", "hosts in the addresses of its settings and arguments, with the port where one is given"),
)
PARSER = Parser(
    tool=_TOOL,
    command="kubectl get nodes -o json; kubectl get pods,deployments,statefulsets,services,ingresses -A -o json",
    recognises=recognises,
    marks=(b"apiversion", b"nvidia.com/gpu.", b"allocatable:", b"capacity:"),
    parse=parse,
    yields=(
        *(Yield("node:*", *one) for one in _NODE),
        *(Yield("workload:*/*", *one) for one in _WORKLOAD),
        *(Yield("service:*/*", *one) for one in SERVICE),
    ),
)
