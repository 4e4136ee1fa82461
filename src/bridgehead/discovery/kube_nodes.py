"""Nodes of Kubernetes as facts: capacity, what can be allocated and what the driver counts are three (D07). Pure.

Labels of GPU feature discovery are what the driver said, where its own labels stand beside them; others were written by somebody.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery.kube import Resource, inner, listed, quantity
from bridgehead.discovery.parsing import Statements
from bridgehead.discovery.tables import path_part

_GPUS: Final = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "alibabacloud.com/gpu-count"})
_MIG: Final = re.compile(r"nvidia\.com/mig-([\w.+]{1,40})")
_PRODUCT: Final = re.compile(r"(.+?)(?:-MIG-([\w.+]+))?(-SHARED)?")
_MEMORY: Final = re.compile(r"(\d{1,6})\s*([GTM])(i?)B?", re.ASCII)
_CAPABILITIES: Final = (
    ("GB300", "10.3"), ("B300", "10.3"), ("GB200", "10.0"), ("B200", "10.0"), ("GH200", "9.0"), ("H100", "9.0"), ("H200", "9.0"),
    ("H800", "9.0"), ("H20", "9.0"), ("A100", "8.0"), ("A800", "8.0"), ("A30", "8.0"), ("L40", "8.9"), ("L4", "8.9"), ("A10", "8.6"),
    ("A40", "8.6"), ("A16", "8.6"), ("V100", "7.0"), ("T4", "7.5"), ("P100", "6.0"), ("P4", "6.1"),
)  # fmt: skip
_ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_FEATURES: Final = re.compile(r"feature\.node\.kubernetes\.io/((?:pci|rdma|network|memory|storage|custom)[\w.-]{1,80})")
_TOPOLOGY: Final = re.compile(
    r"(?:topology\.kubernetes\.io|network\.topology\.nvidia\.com|topology\.k8s\.aws|cloud\.google\.com/gce-topology)[/-]([\w.-]{1,60})"
)
_MOST_LABELS: Final = 500


def state_node(say: Statements, resource: Resource, name: str) -> None:
    """All of a node."""
    subject = f"node:{path_part(name)}" if name else say.node
    for part, suffix in (("capacity", "capacity"), ("allocatable", "allocatable")):
        for key, value in inner(resource.values, "status", part).items():
            _amount(say, subject, key, value, suffix, line=resource.place("status", part, key))
    if "status" in resource.values and not resource.values["status"]:
        say.skip(resource.place("status"), f"the status of {subject} is empty: the document may be cut off")
    _difference(say, subject, resource)
    labels = inner(resource.values, "metadata", "labels")
    state_labels(say, subject, labels, lambda key: resource.place("metadata", "labels", key))
    for key, attribute in _INFO.items():
        value = inner(resource.values, "status", "nodeInfo").get(key)
        if isinstance(value, str):
            say.word(subject, attribute, _ARCHITECTURES.get(value, value), line=resource.place("status", "nodeInfo", key))
    _state(say, subject, resource)
    for address in listed(resource.values, "status", "addresses"):
        if address.get("type") == "InternalIP" and isinstance(address.get("address"), str):
            say.word(subject, "internal-address", address["address"], line=resource.place("status", "addresses", "address"))
            break
    if isinstance(provider := inner(resource.values, "spec").get("providerID"), str):
        say.word(subject, "provider-id", provider, line=resource.place("spec", "providerID"))


def _state(say: Statements, subject: str, resource: Resource) -> None:
    """Ready or not, as kubectl writes it; and the taints that keep pods away."""
    ready = [one for one in listed(resource.values, "status", "conditions") if one.get("type") == "Ready"]
    line = resource.place("status", "conditions")
    spec = inner(resource.values, "spec")
    if ready:
        words = {"True": "Ready", True: "Ready", "False": "NotReady", False: "NotReady"}
        state = words.get(ready[0].get("status"), "Unknown") if isinstance(ready[0].get("status"), str | bool) else "Unknown"
        if spec.get("unschedulable") is True:
            state += ",SchedulingDisabled"
        say.known(subject, "scheduler-state", state, line=line)
    if "taints" in spec:
        taints = [f"{one.get('key')}={one.get('value', '')}:{one.get('effect')}" for one in listed(resource.values, "spec", "taints")]
        say.known(subject, "taints", tuple(taints), line=resource.place("spec", "taints"))


def _amount(say: Statements, subject: str, key: str, value: Any, suffix: str, *, line: int) -> None:
    """One resource of a node."""
    mig = _MIG.fullmatch(key)
    unit = ""
    if key in _GPUS:
        attribute = f"gpu-{suffix}"
    elif mig:
        attribute = f"mig-{suffix}:{mig[1]}"
    elif key == "memory":
        attribute, unit = "memory" if suffix == "capacity" else "memory-allocatable", "B"
    elif key == "cpu":
        attribute = "scheduler-cpu-count" if suffix == "capacity" else "cpu-allocatable"
    elif key == "ephemeral-storage":
        attribute, unit = f"ephemeral-storage-{suffix}", "B"
    elif key == "pods" or "/" in key:
        attribute = f"resource-{suffix}:{key}"
    else:
        return
    number = quantity(value)
    if number is None:
        say.unknown(subject, attribute, line=line, unit=unit, note=f"the file says {value!r:.80}, which is no quantity")
    else:
        say.known(subject, attribute, number, line=line, unit=unit)


def _difference(say: Statements, subject: str, resource: Resource) -> None:
    """D07: GPUs that are there and cannot be allocated."""
    status = inner(resource.values, "status")
    for key in _GPUS & inner(status, "capacity").keys():
        there, free = quantity(status["capacity"][key]), quantity(inner(status, "allocatable").get(key))
        if there is not None and free is not None and there != free:
            note = f"capacity {there}, allocatable {free}"
            say.known(subject, "gpu-withheld", there - free, line=resource.place("status", "allocatable", key), note=note)


def state_labels(say: Statements, subject: str, labels: dict[str, Any], place: Any) -> None:
    """Labels of feature discovery, of topology and roles."""
    driver = any(key.startswith(("nvidia.com/cuda.driver", "nvidia.com/gfd.")) for key in labels)
    for key, value in list(labels.items())[:_MOST_LABELS]:
        if not isinstance(value, str | int) or isinstance(value, bool):
            value = {True: "true", False: "false"}.get(value, "") if isinstance(value, bool) else ""
        text, feature, topology = str(value).strip(), _FEATURES.fullmatch(key), _TOPOLOGY.fullmatch(key)
        if key == "nvidia.com/gpu.count":
            say.number(subject, "gpu-count" if driver else "gpu-count-label", text, line=place(key))
        elif key == "nvidia.com/gpu.memory":
            _memory(say, subject, text, line=place(key))
        elif key == "nvidia.com/gpu.product":
            _product(say, subject, text, labels, line=place(key))
        elif key == "nvidia.com/gpu.compute.major":
            _capability(say, subject, labels, line=place(key))
        elif key in _WORDS:
            say.word(subject, _WORDS[key], text, line=place(key))
        elif key == "nvidia.com/mig.capable" and text in ("true", "false"):
            say.known(subject, "mig-capable", text == "true", line=place(key))
        elif key == "nvidia.com/gpu.replicas":
            say.number(subject, "gpu-replicas", text, line=place(key))
        elif topology:
            say.word(subject, f"topology-label:{topology[1]}", text, line=place(key))
        elif feature:
            say.known(subject, f"feature:{feature[1]}", text or "true", line=place(key))
    _strategy(say, subject, labels, place)
    _version(say, subject, "driver-version", labels, "nvidia.com/cuda.driver", place)
    _version(say, subject, "cuda-version", labels, "nvidia.com/cuda.runtime", place)
    roles = sorted(key.partition("/")[2] for key in labels if key.startswith("node-role.kubernetes.io/"))
    if roles:
        say.known(subject, "roles", tuple(roles), line=place(f"node-role.kubernetes.io/{roles[0]}"))


def _memory(say: Statements, subject: str, text: str, *, line: int) -> None:
    """Feature discovery writes a number of MiB; a unit was written by somebody, and means what it says."""
    found = _MEMORY.fullmatch(text)
    if text.isascii() and text.isdigit() and len(text) < 10:
        say.number(subject, "gpu-memory", text, line=line, unit="B", scale=2**20)
    elif found:
        base = 1024 if found[3] else 1000
        size = int(found[1]) * base ** (" MGT".index(found[2]) + 1)
        note = f"the label says {text!r}: somebody wrote it, since feature discovery writes a number of MiB"
        say.known(subject, "gpu-memory", size, line=line, unit="B", note=note)
    else:
        say.unknown(subject, "gpu-memory", line=line, unit="B", note=f"the label says {text[:60]!r}")


def _product(say: Statements, subject: str, text: str, labels: dict[str, Any], *, line: int) -> None:
    """The model, without the profile of its parts and without the mark of sharing."""
    found = _PRODUCT.fullmatch(text[:200])
    if found is None:
        say.word(subject, "gpu-model", text, line=line)
        return
    say.known(subject, "gpu-model", found[1], line=line, note="" if found[1] == text else f"the label says {text[:80]!r}")
    if found[2]:
        say.known(subject, "mig-profile", found[2], line=line)
    if found[3]:
        say.known(subject, "gpu-shared", True, line=line)


def _strategy(say: Statements, subject: str, labels: dict[str, Any], place: Any) -> None:
    """How parts of GPUs are offered; with the strategy mixed no profile belongs into the model."""
    text, product = labels.get("nvidia.com/mig.strategy"), labels.get("nvidia.com/gpu.product")
    if not isinstance(text, str):
        return
    line = place("nvidia.com/mig.strategy")
    if text == "mixed" and isinstance(product, str) and "-MIG-" in product:
        say.conflict(subject, "mig-strategy", text, line=line, note=f"the model is {product[:80]!r}, as with the strategy single only")
    else:
        say.word(subject, "mig-strategy", text, line=line)


def _capability(say: Statements, subject: str, labels: dict[str, Any], *, line: int) -> None:
    """Compute capability; a conflict where the model has another one."""
    text = f"{labels['nvidia.com/gpu.compute.major']}.{labels.get('nvidia.com/gpu.compute.minor', '')}"
    if not re.fullmatch(r"\d{1,3}\.\d{1,2}", text, re.ASCII):
        say.unknown(subject, "gpu-compute-capability", line=line, note=f"the labels say {text[:40]!r}")
        return
    product = str(labels.get("nvidia.com/gpu.product", ""))
    right = next((value for model, value in _CAPABILITIES if re.search(rf"(?<![A-Z0-9]){model}(?![0-9])", product)), text)
    if right == text:
        say.known(subject, "gpu-compute-capability", text, line=line)
    else:
        say.conflict(subject, "gpu-compute-capability", text, line=line, note=f"{product[:60]} has {right}")


def _version(say: Statements, subject: str, attribute: str, labels: dict[str, Any], stem: str, place: Any) -> None:
    """A version in one label, or in one for each of its numbers."""
    if isinstance(full := labels.get(f"{stem}-version.full"), str):
        say.word(subject, attribute, full, line=place(f"{stem}-version.full"))
        return
    parts = [str(labels[key]) for key in (f"{stem}.{part}" for part in ("major", "minor", "rev")) if labels.get(key) not in (None, "")]
    if len(parts) >= 2 and f"{stem}.major" in labels:
        say.word(subject, attribute, ".".join(parts), line=place(f"{stem}.major"))


_INFO: Final = {
    "kubeletVersion": "kubelet-version",
    "kernelVersion": "kernel-version",
    "osImage": "os-image",
    "containerRuntimeVersion": "container-runtime",
    "architecture": "architecture",
    "systemUUID": "system-uuid",
}
_WORDS: Final = {
    "nvidia.com/gpu.machine": "machine-label",
    "nvidia.com/gpu.family": "gpu-family",
    "nvidia.com/gpu.clique": "nvlink-clique",
    "node.kubernetes.io/instance-type": "instance-type",
    "alibabacloud.com/gpu-card-model": "gpu-model",
    "amd.com/gpu.product-name": "gpu-model",
    "ibm-cloud.kubernetes.io/cluster-network": "cluster-network",
    "ibm-cloud.kubernetes.io/cluster-network-profile": "cluster-network-profile",
}
