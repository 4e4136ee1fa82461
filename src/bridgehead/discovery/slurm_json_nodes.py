"""Nodes, partitions and groups of nodes in Slurm's JSON, in the shapes of all its versions (D16). Pure."""

from __future__ import annotations

from typing import Any, Final

from bridgehead.discovery import slurm
from bridgehead.discovery.json_items import Item
from bridgehead.discovery.slurm_facts import SlurmFacts, node, partition
from bridgehead.discovery.slurm_records import partition_tres, watts

_MIB: Final = 2**20


def state_node(say: SlurmFacts, item: Item) -> None:
    """A node of ``scontrol show node --json`` or slurmrestd."""
    name = item.get("name") or item.get("hostname")
    if not isinstance(name, str) or not name.strip():
        say.skip(item.line, "a node without a name")
        return
    subject = node(name)
    for key, value in item.items():
        if key not in _NODE_KEYS:
            continue
        line = item.at(key)
        match key:
            case "state":
                say.text(subject, "scheduler-state", slurm.state_of(value, item.get("state_flags")), line=line)
            case "gres" if isinstance(value, str):
                say.gpus(subject, "scheduler-gpu-count", value, line=line, types="scheduler-gpu-type")
            case "gres_used" if isinstance(value, str):
                say.gpus(subject, "scheduler-gpus-used", value, line=line)
            case "tres" if isinstance(value, str) and "gres/gpu" in value:
                say.gpus(subject, "scheduler-gpu-count", value, line=line)
            case "cpu_load":
                load(say, subject, value, line=line)
            case "boot_time":
                say.moment(subject, "boot-time", value, line=line)
            case "reason" if value:
                _reason(say, subject, item)
            case "energy" if isinstance(value, dict) and "current_watts" in value:
                watts(say, subject, value["current_watts"], line=line)
            case _ if key in _SIZES:
                say.amount(subject, _SIZES[key], value, line=line, unit="B", scale=_MIB)
            case _ if key in _COUNTS:
                say.amount(subject, _COUNTS[key], value, line=line, narrow=True)
            case _ if key in _WORDS and value:
                say.text(subject, _WORDS[key], value, line=line)
            case _ if key in _NAMES:
                say.names(subject, _NAMES[key], value, line=line)
            case _:
                pass


def load(say: SlurmFacts, subject: str, value: Any, *, line: int) -> None:
    """The load average, which JSON gives in hundredths, a whole number."""
    found = slurm.amount_in(value)
    if isinstance(found.value, int):
        say.known(subject, "cpu-load", found.value / 100, line=line)
    else:
        say.unknown(subject, "cpu-load", line=line, note=found.note or f"the tool printed {value}, which is no whole number of hundredths")


def _reason(say: SlurmFacts, subject: str, item: Item) -> None:
    say.text(subject, "scheduler-reason", item["reason"], line=item.at("reason"))
    if item.get("reason_set_by_user"):
        say.text(subject, "scheduler-reason-by", item["reason_set_by_user"], line=item.at("reason_set_by_user"))
    if "reason_changed_at" in item:
        say.moment(subject, "scheduler-reason-at", item["reason_changed_at"], line=item.at("reason_changed_at"))


def state_group(say: SlurmFacts, item: Item) -> None:
    """Nodes that ``sinfo --json`` shows together because they are alike. A range of values says nothing of a single node."""
    nodes = inner(item, "nodes")
    names = nodes.get("nodes")
    listed = [name for name in names if isinstance(name, str) and name.strip()] if isinstance(names, list) else []
    if not listed:
        say.skip(item.line, "a group of nodes that are not named")
    for name in listed:
        subject = node(name)
        state = inner(item, "node").get("state") or item.get("state")
        if state:
            say.text(subject, "scheduler-state", slurm.state_of(state), line=item.at("node" if "node" in item else "state"))
        if isinstance(total := inner(item, "gres").get("total"), str):
            say.gpus(subject, "scheduler-gpu-count", total, line=item.at("gres"), types="scheduler-gpu-type")
        if isinstance(used := inner(item, "gres").get("used"), str) and len(listed) == 1:
            say.gpus(subject, "scheduler-gpus-used", used, line=item.at("gres"))
        _alike(say, subject, "memory", inner(item, "memory"), line=item.at("memory"), unit="B", scale=_MIB)
        _alike(say, subject, "scheduler-cpu-count", inner(item, "cpus"), line=item.at("cpus"))
        _alike(say, subject, "scheduler-sockets", inner(item, "sockets"), line=item.at("sockets"))
        if reason := inner(item, "reason").get("description"):
            say.text(subject, "scheduler-reason", reason, line=item.at("reason"))
        if features := inner(item, "features").get("total"):
            say.names(subject, "features", features, line=item.at("features"))
    group = item.get("partition")
    if isinstance(group, dict) and isinstance(group.get("name"), str):
        state_partition(say, Item(group, b"", item.at("partition")))


def _alike(say: SlurmFacts, subject: str, attribute: str, held: dict[str, Any], *, line: int, unit: str = "", scale: int = 1) -> None:
    if "minimum" in held and held.get("minimum") == held.get("maximum"):
        say.amount(subject, attribute, held["minimum"], line=line, unit=unit, scale=scale, narrow=not unit)


def state_partition(say: SlurmFacts, item: Item) -> None:
    """A partition, flat as in v0.0.37 and v0.0.38, or in tables as later."""
    if not isinstance(item.get("name"), str) or not item["name"].strip():
        say.skip(item.line, "a partition without a name")
        return
    subject = partition(item["name"])
    for path, attribute, kind in _PARTITION:
        holder: Any = item
        first, *rest = path.split(".")
        for key in (first, *rest):
            holder = holder.get(key, _ABSENT) if isinstance(holder, dict) else _ABSENT
        if holder is _ABSENT or (isinstance(holder, dict) and "number" not in holder):
            continue
        line = item.at(first)
        match kind:
            case "minutes":
                say.amount(subject, attribute, holder, line=line, unit="s", scale=60, limit=True)
            case "seconds":
                say.amount(subject, attribute, holder, line=line, unit="s")
            case "count":
                say.amount(subject, attribute, holder, line=line)
            case "hosts" if isinstance(holder, str):
                say.hosts(subject, attribute, holder, line=line)
            case "state" if holder:
                say.text(subject, attribute, slurm.state_of(holder).replace("DISABLED", "OFF"), line=line)
            case "tres" if isinstance(holder, str):
                partition_tres(say, subject, holder, line=line)
            case "word" if holder:
                say.text(subject, attribute, holder, line=line)
            case "flags" if isinstance(holder, list):
                words = [str(word).lower() for word in holder]
                say.known(subject, attribute, "default" in words, line=line)
            case _:
                pass


def inner(item: dict[str, Any], key: str) -> dict[str, Any]:
    """The table under a key; an empty one where there is none."""
    value = item.get(key)
    return value if isinstance(value, dict) else {}


_ABSENT: Final = object()
_SIZES: Final = {
    "real_memory": "memory",
    "free_memory": "memory-free",
    "free_mem": "memory-free",
    "alloc_memory": "scheduler-memory-used",
    "temporary_disk": "scheduler-disk",
}
_COUNTS: Final = {
    "cpus": "scheduler-cpu-count",
    "alloc_cpus": "scheduler-cpus-used",
    "sockets": "scheduler-sockets",
    "cores": "scheduler-cores-per-socket",
    "threads": "scheduler-threads-per-core",
    "weight": "scheduler-weight",
}
_WORDS: Final = {
    "architecture": "architecture",
    "operating_system": "kernel-build",
    "address": "scheduler-address",
    "hostname": "scheduler-hostname",
    "slurmd_version": "slurm-version",
    "version": "slurm-version",
    "reservation": "reservation",
    "instance_type": "instance-type",
    "topology": "scheduler-topology",
}
_NAMES: Final = {"partitions": "partitions", "features": "features", "active_features": "features-active"}
_OTHERS: Final = frozenset({"state", "gres", "gres_used", "tres", "cpu_load", "boot_time", "reason", "energy"})
_NODE_KEYS: Final = _OTHERS | _SIZES.keys() | _COUNTS.keys() | _WORDS.keys() | _NAMES.keys()
_PARTITION: Final = (
    ("state", "state", "state"),
    ("partition.state", "state", "state"),
    ("flags", "default", "flags"),
    ("nodes", "nodes", "hosts"),
    ("nodes.configured", "nodes", "hosts"),
    ("total_nodes", "node-count", "count"),
    ("nodes.total", "node-count", "count"),
    ("total_cpus", "cpu-count", "count"),
    ("cpus.total", "cpu-count", "count"),
    ("tres", "", "tres"),
    ("tres.configured", "", "tres"),
    ("max_time_limit", "time-limit", "minutes"),
    ("maximums.time", "time-limit", "minutes"),
    ("default_time_limit", "time-limit-default", "minutes"),
    ("defaults.time", "time-limit-default", "minutes"),
    ("preemption_grace_time", "grace", "seconds"),
    ("grace_time", "grace", "seconds"),
    ("preemption_mode", "preempt-mode", "state"),
    ("priority_tier", "priority-tier", "count"),
    ("priority.tier", "priority-tier", "count"),
    ("qos", "qos", "word"),
    ("qos.assigned", "qos", "word"),
)
"""Where each attribute of a partition stands, old shape and new, and how it is read."""
