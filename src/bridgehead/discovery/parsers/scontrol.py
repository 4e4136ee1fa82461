"""``scontrol show node``, ``job`` and ``partition``, in several lines or one (``-o``) (D16, D17)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.slurm_facts import JOB_YIELDS, NODE_YIELDS, PARTITION_YIELDS, SlurmFacts
from bridgehead.discovery.slurm_records import state_job, state_node, state_partition

_TOOL: Final = "scontrol"
_BEGIN: Final = re.compile(r"[ \t]*(NodeName|JobId|PartitionName)=(\S+)(?=\s|$)")
_HEAD: Final = re.compile(
    rb"^[ \t]*(?:NodeName=\S+ (?:Arch=|CoresPerSocket=|CPUAlloc=|State=)|JobId=\d+ (?:ArrayJobId|HetJobId|JobName)=|PartitionName=\S+"
    rb"(?:[ \t]*\r?\n[ \t]+Allow|[ \t]+AllowGroups=))",
    re.MULTILINE,
)
_KEY: Final = re.compile(r"(?:(?<=\s)|\A)([A-Z][A-Za-z_/]*(?::[A-Za-z:]+)?)=")
# Keys whose value may have blanks: where one begins a line, the rest of the line is its value, whatever it looks like.
_TEXTS: Final = frozenset(
    {"OS", "Reason", "Comment", "AdminComment", "SystemComment", "Extra", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "JobName"}
)
_NODE_KEYS: Final = (
    "NodeName Arch CoresPerSocket CPUAlloc CPUEfctv CPUErr CPUTot CPULoad AvailableFeatures ActiveFeatures Features Gres GresDrain"
    " GresUsed NodeAddr NodeHostName Port Version OS RealMemory AllocMem FreeMem Sockets Boards MemSpecLimit CoreSpecCount CPUSpecList"
    " State ThreadsPerCore TmpDisk Weight Owner MCS_label Partitions BootTime SlurmdStartTime LastBusyTime ResumeAfterTime CfgTRES"
    " AllocTRES CapWatts CurrentWatts AveWatts LowestJoules ConsumedJoules ExtSensorsJoules ExtSensorsWatts ExtSensorsTemp Reason"
    " Comment Extra InstanceId InstanceType NextState ReservationName Topology GRES"
)
_JOB_KEYS: Final = (
    "JobId ArrayJobId ArrayTaskId ArrayTaskThrottle HetJobId HetJobOffset HetJobIdSet JobName UserId GroupId MCS_label Priority Nice"
    " Account QOS WCKey JobState Reason Dependency Requeue Restarts BatchFlag Reboot ExitCode DerivedExitCode RunTime TimeLimit"
    " TimeMin SubmitTime EligibleTime AccrueTime StartTime EndTime Deadline PreemptTime PreemptEligibleTime SuspendTime SecsPreSuspend"
    " LastSchedEval Scheduler Partition AllocNode:Sid ReqNodeList ExcNodeList NodeList SchedNodeList BatchHost NumNodes NumCPUs"
    " NumTasks CPUs/Task ReqB:S:C:T TRES ReqTRES AllocTRES Socks/Node NtasksPerN:B:S:C CoreSpec MinCPUsNode MinMemoryNode MinMemoryCPU"
    " MinTmpDiskNode Features DelayBoot OverSubscribe Contiguous Licenses LicensesAlloc Network Command WorkDir StdErr StdIn StdOut"
    " Power TresPerNode TresPerJob TresPerTask TresPerSocket MemPerTres CpusPerTres TresBind TresFreq MailUser MailType Comment"
    " AdminComment SystemComment Switches Reservation Gres Shared BurstBuffer Nodes CPU_IDs Mem GRES GresEnforceBind Container Prefer"
    " SubmitLine KillOInInvalidDependent Cluster"
)
_PARTITION_KEYS: Final = (
    "PartitionName AllowGroups DenyAccounts AllowAccounts AllowQos DenyQos AllocNodes Default QoS DefaultTime DisableRootJobs"
    " ExclusiveUser ExclusiveTopo GraceTime Hidden MaxNodes MaxTime MinNodes LLN MaxCPUsPerNode MaxCPUsPerSocket Nodes"
    " PriorityJobFactor PriorityTier RootOnly ReqResv OverSubscribe OverTimeLimit PreemptMode State TotalCPUs TotalNodes"
    " SelectTypeParameters JobDefaults DefMemPerNode DefMemPerCPU MaxMemPerNode MaxMemPerCPU TRES TRESBillingWeights Topology"
    " Alternate ResumeTimeout SuspendTimeout SuspendTime"
)
_KEYS: Final = {
    "NodeName": frozenset(_NODE_KEYS.split()),
    "JobId": frozenset(_JOB_KEYS.split()),
    "PartitionName": frozenset(_PARTITION_KEYS.split()),
}
_STAMPED: Final = re.compile(r"[^\n]{0,2000}\[[^\[\]@\s]{1,64}@[\dT:-]{19}\]")  # a reason ends with who wrote it when
_MOST_SKIPPED: Final = 20
Record = dict[str, tuple[str, int]]
"""Value and line of each key."""


def recognises(head: bytes) -> bool:
    """The first words of a record."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All records. The first value of a key counts: later words that look like one stand in somebody's text."""
    say = SlurmFacts(_TOOL, capture)
    kind, record, skipped = "", Record(), 0
    lines = capture.lines
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        begin = _BEGIN.match(text)
        if begin is not None and not (kind == "JobId" and begin[1] == "NodeName"):
            _state(say, kind, record)
            kind, record = begin[1], Record()
        if not text.strip():
            continue
        found = _fields(text, _KEYS[kind]) if kind else []
        if number == len(lines) and found:
            name, value = found.pop()
            say.skip(number, f"the output has no end and may be cut in {name}={value[:60]!r}")
        elif not found and (skipped := skipped + 1) <= _MOST_SKIPPED:
            say.skip(number, f"no line of a node, job or partition: {text.strip()[:80]!r}")
        for name, value in found:
            record.setdefault(name, (value, number))
    _state(say, kind, record)
    if skipped > _MOST_SKIPPED:
        say.skip(len(lines), f"{skipped - _MOST_SKIPPED} more lines that are no line of a node, job or partition")
    return say.done()


def _fields(text: str, known: frozenset[str]) -> list[tuple[str, str]]:
    """Keys and values of a line. A value runs to the next known key; in a record of several lines a text runs to the end of its line."""
    text = text.strip()
    places = [found for found in _KEY.finditer(text) if found[1] in known]
    if not places or places[0].start() > 0:
        return []
    several = len(places) < 10
    found: list[tuple[str, str]] = []
    for place, following in zip(places, [*places[1:], None], strict=True):
        if several and place[1] in _TEXTS and (place.start() == 0 or place[1] == "JobName"):
            found.append((place[1], text[place.end() :].strip()))
            break
        stamped = _STAMPED.match(text, place.end()) if place[1] == "Reason" and "NodeName" in known else None
        if stamped is not None:
            found += [(place[1], stamped[0]), *_fields(text[stamped.end() :], known)]
            break
        found.append((place[1], text[place.end() : following.start() if following else len(text)].strip()))
    return found


def _state(say: SlurmFacts, kind: str, record: Record) -> None:
    match kind:
        case "NodeName" if "NodeName" in record:
            state_node(say, record)
        case "JobId" if "JobId" in record:
            state_job(say, record)
        case "PartitionName" if "PartitionName" in record:
            state_partition(say, record)
        case _:
            pass


PARSER = Parser(
    tool=_TOOL,
    command="scontrol show node -o; scontrol show job; scontrol show partition",
    recognises=recognises,
    marks=(
        b"nodename=",
        b"jobid=",
        b"partitionname=",
    ),
    parse=parse,
    yields=(*NODE_YIELDS, *JOB_YIELDS, *PARTITION_YIELDS),
)
