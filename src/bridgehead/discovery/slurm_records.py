"""Records of ``scontrol show`` as facts: nodes, jobs, partitions (D16, D17). Pure."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery import slurm
from bridgehead.discovery.slurm_facts import SlurmFacts, job, node, partition

Record = dict[str, tuple[str, int]]
"""Value and line of each key."""
_MIB: Final = 2**20
_RANGE: Final = re.compile(r"(\d{1,9})-\1", re.ASCII)


def state_node(say: SlurmFacts, record: Record) -> None:
    """All of a node."""
    subject = node(record["NodeName"][0])
    for key, (value, line) in record.items():
        match key:
            case "State":
                say.text(subject, "scheduler-state", _plain_state(value), line=line)
            case "Reason":
                say.reason(subject, value, line=line)
            case "Gres":
                say.gpus(subject, "scheduler-gpu-count", value, line=line, types="scheduler-gpu-type")
            case "GresUsed":
                say.gpus(subject, "scheduler-gpus-used", value, line=line)
            case "CfgTRES" if "gres/gpu" in value:  # nothing there says nothing: GRES are only listed where they are accounted
                say.gpus(subject, "scheduler-gpu-count", value, line=line)
            case "AllocTRES":
                _used(say, subject, value, line=line)
            case _ if key in _NODE_SIZES:
                say.amount(subject, _NODE_SIZES[key], value, line=line, unit="B", scale=_MIB)
            case "BootTime":
                say.moment(subject, "boot-time", value, line=line)
            case "CurrentWatts":
                watts(say, subject, value, line=line)
            case _ if key in _NODE_NUMBERS:
                say.amount(subject, _NODE_NUMBERS[key], value, line=line, narrow=True)
            case _ if key in _NODE_WORDS:
                say.text(subject, _NODE_WORDS[key], value, line=line)
            case _ if key in _NODE_NAMES:
                say.names(subject, _NODE_NAMES[key], value, line=line)
            case _:
                pass


def _used(say: SlurmFacts, subject: str, tres: str, *, line: int) -> None:
    """What is allocated of a node, in units with prefixes: 192G is what AllocMem calls 196608."""
    if "gres/gpu" in tres:
        say.gpus(subject, "scheduler-gpus-used", tres, line=line)
    if memory := slurm.tres_in(tres).get("mem"):
        say.size(subject, "scheduler-memory-used", memory, line=line)


def watts(say: SlurmFacts, subject: str, value: object, *, line: int) -> None:
    """Power of a node; 0 is printed where no plug-in measures it."""
    found = slurm.amount_in(value)
    if found.value:
        say.known(subject, "power-draw", found.value, line=line, unit="W")
    else:
        say.unknown(subject, "power-draw", line=line, unit="W", note=found.note or "the tool printed 0, as it does where nothing measures")


def state_job(say: SlurmFacts, record: Record) -> None:
    """All of a job."""
    subject = job(record["JobId"][0])
    for key, (value, line) in record.items():
        match key:
            case "JobState":
                say.text(subject, "state", value.upper(), line=line)
            case "UserId":
                say.text(subject, "user", value.partition("(")[0], line=line)
            case "NodeList":
                say.hosts(subject, "nodes", value, line=line)
            case "NumNodes":
                same = _RANGE.fullmatch(value)
                say.amount(subject, "node-count", same[1] if same else value, line=line)
            case "NumCPUs":
                same = _RANGE.fullmatch(value)
                say.amount(subject, "cpu-count", same[1] if same else value, line=line)
            case "TimeLimit":
                say.duration(subject, "time-limit", value, line=line)
            case "RunTime":
                say.duration(subject, "run-time-seen", value, line=line)
            case "SubmitTime" | "StartTime" | "EndTime":
                say.moment(subject, f"{key[:-4].lower()}-time", value, line=line)
            case "Dependency":
                say.dependencies(subject, value, line=line)
            case "Requeue" if value in ("0", "1"):
                say.known(subject, "requeue", value == "1", line=line)
            case "ArrayJobId" | "HetJobId" if value == "0":
                pass
            case _ if key in _JOB_WORDS:
                say.text(subject, _JOB_WORDS[key], value, line=line)
            case _ if key in _JOB_NUMBERS:
                say.amount(subject, _JOB_NUMBERS[key], value, line=line)
            case "Features":
                say.names(subject, "features", value, line=line)
            case _:
                pass
    _job_resources(say, subject, record)


def _job_resources(say: SlurmFacts, subject: str, record: Record) -> None:
    """GPUs and memory: what is allocated, else what is asked for."""
    for key in ("AllocTRES", "TRES", "ReqTRES"):
        value, line = record.get(key, ("", 0))
        entries = slurm.tres_in(value)
        if entries:
            if "mem" in entries:
                say.size(subject, "memory", entries["mem"], line=line)
            break
    else:
        key = ""
    state_job_gpus(
        say,
        subject,
        [record[one] for one in (key,) if one] + [record[one] for one in ("TresPerJob",) if one in record],
        [record[one] for one in ("TresPerNode", "Gres") if one in record],
        nodes=record.get("NumNodes", ("", 0))[0].partition("-")[0],
    )


def state_job_gpus(say: SlurmFacts, subject: str, wholes: list[tuple[str, int]], per_node: list[tuple[str, int]], *, nodes: str) -> None:
    """The GPUs of a job: from the first list of the whole job that names them, else those of each node times the nodes. A job has none
    where its resources are listed and no list names a GPU."""
    for text, line in per_node:
        if "gpu" in text:
            say.gpus(subject, "gpus-per-node", text, line=line)
    for text, line in wholes:
        if "gpu" in text:
            say.gpus(subject, "gpu-count", text, line=line, types="gpu-type")
            return
    for text, line in per_node:
        if "gpu" not in text:
            continue
        each, count = slurm.gpus_in(text), slurm.amount_in(nodes or None).value
        if each is None or not isinstance(count, int):
            say.unknown(subject, "gpu-count", line=line, note=f"{text[:60]!r} of each node, and no count of GPUs or of nodes")
        else:
            say.known(subject, "gpu-count", each.count * count, line=line, note=f"{each.count} of each of {count} nodes")
        return
    if wholes and wholes[0][0]:
        say.known(subject, "gpu-count", 0, line=wholes[0][1], note=f"no GPU is among its resources: {wholes[0][0][:80]!r}")


def state_partition(say: SlurmFacts, record: Record) -> None:
    """All of a partition."""
    subject = partition(record["PartitionName"][0])
    for key, (value, line) in record.items():
        match key:
            case "State":
                say.text(subject, "state", value.upper(), line=line)
            case "Default" if value in ("YES", "NO"):
                say.known(subject, "default", value == "YES", line=line)
            case "Nodes":
                say.hosts(subject, "nodes", value, line=line)
            case "TotalNodes":
                say.amount(subject, "node-count", value, line=line)
            case "TotalCPUs":
                say.amount(subject, "cpu-count", value, line=line)
            case "MaxTime":
                say.duration(subject, "time-limit", value, line=line)
            case "DefaultTime":
                say.duration(subject, "time-limit-default", value, line=line)
            case "GraceTime":
                say.amount(subject, "grace", value, line=line, unit="s")
            case "PreemptMode":
                say.text(subject, "preempt-mode", value.upper(), line=line)
            case "PriorityTier":
                say.amount(subject, "priority-tier", value, line=line)
            case "TRES":
                partition_tres(say, subject, value, line=line)
            case "AllowAccounts":
                say.names(subject, "accounts", value, line=line)
            case "QoS":
                say.text(subject, "qos", value, line=line)
            case _:
                pass


def partition_tres(say: SlurmFacts, subject: str, value: str, *, line: int) -> None:
    """Memory and GPUs of a partition. Where no GPU is listed nothing is said: GRES are only listed where they are accounted."""
    entries = slurm.tres_in(value)
    if "mem" in entries:
        say.size(subject, "memory", entries["mem"], line=line)
    if "gres/gpu" in value:
        say.gpus(subject, "gpu-count", value, line=line, types="gpu-type")


def _plain_state(value: str) -> str:
    """The state without the sign of a node that does not answer, which becomes a flag."""
    word = value.strip().upper()
    return word.replace("*", "") + "+NOT_RESPONDING" if "*" in word else word


_NODE_NUMBERS: Final = {
    "CPUTot": "scheduler-cpu-count",
    "CPUAlloc": "scheduler-cpus-used",
    "CPULoad": "cpu-load",
    "Sockets": "scheduler-sockets",
    "CoresPerSocket": "scheduler-cores-per-socket",
    "ThreadsPerCore": "scheduler-threads-per-core",
    "Weight": "scheduler-weight",
}
_NODE_SIZES: Final = {
    "RealMemory": "memory",
    "FreeMem": "memory-free",
    "AllocMem": "scheduler-memory-used",
    "TmpDisk": "scheduler-disk",
}
_NODE_WORDS: Final = {
    "Arch": "architecture",
    "NodeAddr": "scheduler-address",
    "NodeHostName": "scheduler-hostname",
    "Version": "slurm-version",
    "OS": "kernel-build",
    "ReservationName": "reservation",
    "InstanceType": "instance-type",
    "Topology": "scheduler-topology",
}
_NODE_NAMES: Final = {
    "AvailableFeatures": "features",
    "Features": "features",
    "ActiveFeatures": "features-active",
    "Partitions": "partitions",
}
_JOB_WORDS: Final = {
    "JobName": "name",
    "Account": "account",
    "QOS": "qos",
    "Partition": "partition",
    "Reason": "state-reason",
    "ExitCode": "exit-code",
    "ArrayJobId": "array-job",
    "ArrayTaskId": "array-task",
    "HetJobId": "heterogeneous-job",
    "HetJobOffset": "heterogeneous-offset",
    "Reservation": "reservation",
    "Licenses": "licenses",
    "WorkDir": "working-directory",
    "Command": "command",
}
_JOB_NUMBERS: Final = {"Restarts": "restarts"}
