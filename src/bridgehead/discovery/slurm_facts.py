"""Facts that all outputs of Slurm share: one place for what they are called and how their values are read (D16, D17). Pure.

A job's id is that which the tool prints; ids are used again (J12), so that ``submit-time`` belongs to it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery import slurm
from bridgehead.discovery.hostlist import Hostlists
from bridgehead.discovery.parsing import Capture, Statements, Yield
from bridgehead.discovery.tables import path_part

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[+-]\d\d:?\d\d|Z)?", re.ASCII)
_REASON: Final = re.compile(r"(.*?)\s*\[([^\[\]@]{1,64})@(\d{4}-[^\[\]]{1,40}|Unknown)\]", re.DOTALL)


class SlurmFacts(Statements):
    """Statements of Slurm. Each method states one attribute, or that it is unknown and what was printed."""

    def __init__(self, tool: str, capture: Capture) -> None:
        super().__init__(tool, capture)
        self.hostlists = Hostlists(size_bytes=len(capture.data))

    def text(self, subject: str, attribute: str, value: Any, *, line: int) -> None:
        """A word; UNKNOWN for Slurm's words that mean that there is none."""
        word = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        if word.lower() in slurm.NO_WORDS:
            self.unknown(subject, attribute, line=line, note=_printed(value))
        else:
            self.known(subject, attribute, word, line=line)

    def amount(
        self,
        subject: str,
        attribute: str,
        value: Any,
        *,
        line: int,
        unit: str = "",
        scale: int = 1,
        narrow: bool = False,
        limit: bool = False,
    ) -> int | float | None:
        """A number of JSON or text, times ``scale``, which is returned too; "unlimited" for a ``limit`` that is not there."""
        found = slurm.amount_in(value, narrow=narrow)
        if found.unlimited and limit:
            self.known(subject, attribute, "unlimited", line=line, note=found.note)
        elif found.value is None or found.value * scale > 2**63:
            self.unknown(subject, attribute, line=line, unit=unit, note=found.note or _printed(value))
        else:
            self.known(subject, attribute, found.value * scale, line=line, unit=unit)
            return found.value * scale
        return None

    def size(self, subject: str, attribute: str, text: str, *, line: int) -> None:
        """Bytes of a text such as ``192G``; a bare number is in MiB."""
        value = slurm.size_bytes(text)
        if value is None or value >> 20 in slurm.SENTINELS:
            self.unknown(subject, attribute, line=line, unit="B", note=_printed(text))
        else:
            self.known(subject, attribute, value, line=line, unit="B")

    def duration(self, subject: str, attribute: str, text: str, *, line: int) -> None:
        """Seconds of ``1-12:00:00``."""
        value = slurm.duration_s(text)
        if text.strip().lower() in slurm.UNLIMITED_WORDS:
            self.known(subject, attribute, "unlimited", line=line)
        elif value is None:
            self.unknown(subject, attribute, line=line, unit="s", note=_printed(text))
        else:
            self.known(subject, attribute, value, line=line, unit="s")

    def moment(self, subject: str, attribute: str, value: Any, *, line: int) -> None:
        """A time. A number is seconds since 1970, and 0 none; a text is the local time of the cluster, whose zone nobody says,
        and so another attribute."""
        if isinstance(value, str) and not value.strip().isdigit():
            if _TIME.fullmatch(value.strip()):
                self.known(subject, f"{attribute}-local", value.strip(), line=line)
            else:
                self.unknown(subject, f"{attribute}-local", line=line, note=_printed(value))
            return
        found = slurm.amount_in(value)
        if found.value is None or found.value <= 0 or found.value > 1e11:
            self.unknown(subject, attribute, line=line, unit="s", note=found.note or f"the tool printed {found.value}, which is no time")
        else:
            self.known(subject, attribute, found.value, line=line, unit="s")

    def names(self, subject: str, attribute: str, value: Any, *, line: int, sign: str = ",") -> None:
        """A list of words, from a list or a text with commas; sorted, because its order means nothing."""
        words = value.split(sign) if isinstance(value, str) else value if isinstance(value, list) else []
        found = sorted({word.strip() for word in words if isinstance(word, str) and word.strip().lower() not in slurm.NO_WORDS})
        if found or isinstance(value, str | list):
            self.known(subject, attribute, tuple(found), line=line)
        else:
            self.unknown(subject, attribute, line=line, note=_printed(value))

    def hosts(self, subject: str, attribute: str, text: Any, *, line: int) -> tuple[str, ...]:
        """The names of a host list."""
        if not isinstance(text, str) or text.strip().lower() in slurm.NO_WORDS:
            self.unknown(subject, attribute, line=line, note=_printed(text))
            return ()
        found = self.hostlists.expand(text.strip())
        if found.fault:
            self.unknown(subject, attribute, line=line, note=f"the host list {text[:80]!r} cannot be read: {found.fault}")
        else:
            self.known(subject, attribute, found.names, line=line)
        return found.names

    def gpus(self, subject: str, attribute: str, text: Any, *, line: int, types: str = "", note: str = "") -> bool:
        """How many GPUs a GRES or TRES list has, and with ``types`` which; whether that could be read."""
        found = slurm.gpus_in(text) if isinstance(text, str) and text.strip() not in ("N/A", "n/a") else None
        if found is None:
            self.unknown(subject, attribute, line=line, note=f"{_printed(text)}: no count of GPUs, or it is cut")
            return False
        empty = f"{_printed(text)}: no GPU is among it" if found.count == 0 and "gpu" not in text else ""
        self.known(subject, attribute, found.count, line=line, note=note or empty)
        if types and found.types:
            self.known(subject, types, found.types[0] if len(found.types) == 1 else found.types, line=line)
        return True

    def reason(self, subject: str, text: str, *, line: int) -> None:
        """Why a node is drained or down: the words, and who wrote them when (D16: the words may have blanks and brackets)."""
        found = _REASON.fullmatch(text.strip()) if len(text) < 4000 else None
        self.text(subject, "scheduler-reason", found[1] if found else text, line=line)
        if found:
            self.text(subject, "scheduler-reason-by", found[2], line=line)
            self.moment(subject, "scheduler-reason-at", found[3], line=line)

    def dependencies(self, subject: str, text: Any, *, line: int) -> None:
        """The jobs that a job waits for, as ``afterok:123``; an empty list where there are none."""
        if not isinstance(text, str):
            self.unknown(subject, "depends-on", line=line, note=_printed(text))
            return
        found = []
        for part in re.split(r"[,?]", "" if text.strip().lower() in slurm.NO_WORDS else text.strip()):
            kind = ""
            for word in re.split(r":(?=\d)", re.sub(r"\([^()]{0,30}\)", "", part.strip())):
                if not kind:
                    kind = word
                elif re.fullmatch(r"[a-z]{1,20}", kind):
                    found.append(f"{kind}:{re.split('[+]', word)[0]}")
            if kind == part.strip() and kind:
                found.append(kind)
        self.known(subject, "depends-on", tuple(dict.fromkeys(found)), line=line)


def node(name: str) -> str:
    """The subject of a node."""
    return f"node:{path_part(name)}"


def job(identity: object) -> str:
    """The subject of a job."""
    return f"job:{path_part(str(identity))}"


def partition(name: str) -> str:
    """The subject of a partition."""
    return f"partition:{path_part(name)}"


def _printed(value: object) -> str:
    if value is None:
        return "the tool printed null"
    return f"the tool printed {value!r:.90}" if value not in ("", [], {}) else "the tool printed nothing"


def _yields(subject: str, *rows: tuple[str, str, str]) -> tuple[Yield, ...]:
    return tuple(Yield(subject, *row) for row in rows)


NODE_YIELDS: Final = _yields(
    "node:*",
    ("scheduler-state", "", "state with its flags, as scontrol writes it: IDLE+DRAIN"),
    ("scheduler-reason", "", "why it is drained or down"),
    ("scheduler-reason-by", "", "who wrote the reason"),
    ("scheduler-reason-at", "s", "when, since 1970"),
    ("scheduler-reason-at-local", "", "when, in the local time of the cluster"),
    ("scheduler-gpu-count", "", "GPUs that the scheduler is configured with"),
    ("scheduler-gpu-type", "", "their type, as the scheduler calls it"),
    ("scheduler-gpus-used", "", "GPUs that are allocated now"),
    ("scheduler-cpu-count", "", "CPUs that the scheduler is configured with"),
    ("scheduler-cpus-used", "", "CPUs that are allocated now"),
    ("cpu-load", "", "load average"),
    ("memory", "B", "main memory that the scheduler is configured with"),
    ("memory-free", "B", "memory that is free now"),
    ("scheduler-memory-used", "B", "memory that is allocated to jobs now"),
    ("scheduler-disk", "B", "temporary disk that the scheduler is configured with"),
    ("scheduler-sockets", "", "processors that the scheduler is configured with"),
    ("scheduler-cores-per-socket", "", "cores of each of them"),
    ("scheduler-threads-per-core", "", "threads of each core"),
    ("scheduler-hostname", "", "name of the host"),
    ("scheduler-address", "", "name or address that Slurm uses"),
    ("architecture", "", "of the processor"),
    ("kernel-build", "", "operating system, kernel and its build, as the node reports it"),
    ("slurm-version", "", "version of slurmd"),
    ("partitions", "", "partitions that it is in"),
    ("features", "", "features that jobs can ask for"),
    ("features-active", "", "those that are there now"),
    ("scheduler-weight", "", "rank in which nodes are chosen"),
    ("reservation", "", "reservation that it is in"),
    ("instance-type", "", "type of the machine in a cloud"),
    ("scheduler-topology", "", "place in the topology"),
    ("boot-time", "s", "since 1970"),
    ("boot-time-local", "", "in the local time of the cluster"),
    ("power-draw", "W", "of the whole node, as Slurm's plug-in measures it"),
)
BRIEF: Final = Yield("node:*", "scheduler-state-brief", "", "state in the words of sinfo, without the signs behind it")
JOB_YIELDS: Final = _yields(
    "job:*",
    ("state", "", "state with its flags"),
    ("state-reason", "", "why it waits or ended"),
    ("name", "", "name of the job"),
    ("user", "", "who runs it"),
    ("account", "", "account that pays"),
    ("cluster", "", "cluster that it runs on"),
    ("partition", "", "partition, or those that it may run in"),
    ("qos", "", "quality of service"),
    ("gpu-count", "", "GPUs of the whole job"),
    ("gpu-type", "", "their type, as the scheduler calls it"),
    ("gpus-per-node", "", "GPUs that it asks for on each node"),
    ("node-count", "", "nodes of the job"),
    ("nodes", "", "nodes that it runs on, or ran on"),
    ("cpu-count", "", "CPUs of the job"),
    ("memory", "B", "memory of the whole job"),
    ("memory-requested", "B", "least memory that it asks for, of each node or CPU"),
    ("time-limit", "s", "longest run"),
    ("time-limit", "", "unlimited"),
    ("run-time-seen", "s", "how long it ran until now"),
    ("elapsed-seen", "s", "how long it ran"),
    ("submit-time", "s", "since 1970; with the id it names a job for ever"),
    ("submit-time-local", "", "in the local time of the cluster"),
    ("start-time", "s", "since 1970; of a job that waits the expected one"),
    ("start-time-local", "", "in the local time of the cluster"),
    ("end-time", "s", "since 1970; of a job that runs the latest one"),
    ("end-time-local", "", "in the local time of the cluster"),
    ("depends-on", "", "jobs that it waits for"),
    ("requeue", "", "whether it may be put into the queue again"),
    ("restarts", "", "how often it was"),
    ("exit-code", "", "code and signal"),
    ("array-job", "", "job whose array it is in"),
    ("array-task", "", "its number in the array"),
    ("heterogeneous-job", "", "job that it is a component of"),
    ("heterogeneous-offset", "", "its number in that job"),
    ("reservation", "", "reservation that it runs in"),
    ("features", "", "features that its nodes must have"),
    ("licenses", "", "licenses that it takes"),
    ("working-directory", "", "folder that it runs in"),
    ("command", "", "script or program"),
    ("cancelled-by", "", "user number of who cancelled it"),
    ("grace-signal", "", "signal that it gets before its end"),
    ("grace", "s", "time from that signal to its end"),
)
STEP_YIELDS: Final = _yields(
    "job:*/step:*",
    ("state", "", "state of the step"),
    ("exit-code", "", "code and signal"),
    ("name", "", "name of the step"),
    ("gpu-count", "", "GPUs of the step"),
    ("node-count", "", "nodes of the step"),
    ("nodes", "", "nodes of the step"),
)
PARTITION_YIELDS: Final = _yields(
    "partition:*",
    ("state", "", "UP, DOWN, DRAIN or INACTIVE"),
    ("default", "", "whether jobs go there that name none"),
    ("nodes", "", "nodes of the partition"),
    ("node-count", "", "how many"),
    ("cpu-count", "", "CPUs of all of them"),
    ("gpu-count", "", "GPUs of all of them, as the scheduler counts them"),
    ("gpu-type", "", "their type, as the scheduler calls it"),
    ("memory", "B", "memory of all nodes, as configured"),
    ("time-limit", "s", "longest run of a job"),
    ("time-limit", "", "unlimited"),
    ("time-limit-default", "s", "of a job that names none"),
    ("time-limit-default", "", "unlimited"),
    ("grace", "s", "time from the warning to the end of a job that is preempted"),
    ("grace", "", "unlimited"),
    ("preempt-mode", "", "what happens to a job that is preempted"),
    ("priority-tier", "", "partitions of a higher one go first"),
    ("nodes-max", "", "most nodes of a job"),
    ("accounts", "", "accounts that may use it"),
    ("qos", "", "quality of service"),
)
