"""``scontrol show config``: how Slurm ends jobs, and what it runs with (M5.2)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery import slurm
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Yield
from bridgehead.discovery.slurm_facts import SlurmFacts
from bridgehead.discovery.tables import path_part
from bridgehead.discovery.textlines import whole_lines

_TOOL: Final = "scontrol-config"
_TITLE: Final = re.compile(rb"^Configuration data as of \d{4}-", re.MULTILINE)
_HEAD: Final = tuple(re.compile(rb"^" + key + rb"[ \t]+= ", re.MULTILINE) for key in (b"KillWait", b"(?:ClusterName|SLURM_VERSION)"))
_LINE: Final = re.compile(r"([A-Za-z]\w{0,60}(?:\[\d{1,4}\])?)\s*= ?(.*)", re.ASCII)
_AMOUNT: Final = re.compile(r"(\d{1,9})\s*(sec|min|hours?|days?)", re.ASCII)
_UNITS: Final = {"sec": 1, "min": 60, "hour": 3600, "hours": 3600, "day": 86400, "days": 86400}
# Times with the unit behind them.
_TIMES: Final = {
    "KillWait": ("kill-wait", "from the signal to end (TERM) to the kill, of a job that is cancelled or out of time"),
    "OverTimeLimit": ("over-time-limit", "that a job may run beyond its time limit; or unlimited"),
    "UnkillableStepTimeout": ("unkillable-step-timeout", "after the kill, until processes that stay count as unkillable"),
    "MessageTimeout": ("message-timeout", "that an answer may take"),
    "SlurmdTimeout": ("slurmd-timeout", "of silence until a node counts as down"),
    "SlurmctldTimeout": ("slurmctld-timeout", "of silence until the backup controller takes over"),
    "InactiveLimit": ("inactive-limit", "of silence of srun until its job is ended; 0 for none"),
    "EpilogMsgTime": ("epilog-message-time", "between the end of a job's epilogs at different nodes"),
    "PrologEpilogTimeout": ("prolog-epilog-timeout", "that prolog and epilog may take"),
    "ResumeTimeout": ("resume-timeout", "that a node may take to come up"),
    "SuspendTimeout": ("suspend-timeout", "that a node may take to go down"),
}
_WORDS: Final = {
    "SLURM_VERSION": ("slurm-version", "version of the controller"),
    "SlurmctldVersion": ("slurm-version", "version of the controller"),
    "PreemptMode": ("preempt-mode", "what happens to jobs that are preempted, where their partition does not say"),
    "PreemptType": ("preempt-type", "who may preempt whom"),
    "KillOnBadExit": ("kill-on-bad-exit", "whether a step ends when one task fails; 1 or 0"),
    "JobRequeue": ("requeue", "whether jobs are put back into the queue by default; 1 or 0"),
    "SchedulerType": ("scheduler-type", "which scheduler"),
    "SelectType": ("select-type", "how resources are chosen"),
    "ProctrackType": ("process-tracking", "how the processes of a job are found when it is killed"),
    "TopologyPlugin": ("topology-plugin", "how the network is taken into account"),
    "GresTypes": ("gres-types", "generic resources, such as gpu"),
    "AccountingStorageType": ("accounting-storage", "where accounting is kept"),
    "StateSaveLocation": ("state-save-location", "folder in which the controller keeps its state"),
}
_CONTROLLER: Final = re.compile(r"(?:SlurmctldHost\[\d{1,4}\]|ControlMachine|BackupController)")
_PREEMPT: Final = "PreemptExemptTime"


def recognises(head: bytes) -> bool:
    """The title, or two of its settings with blanks around the sign: the file slurm.conf has none."""
    return _TITLE.search(head) is not None or all(key.search(head) for key in _HEAD)


def parse(capture: Capture) -> Parsed:
    """Settings of the cluster; those that nothing asks for are counted."""
    say = SlurmFacts(_TOOL, capture)
    said: dict[str, tuple[str, int]] = {}
    others, first = 0, 1
    for number, line in whole_lines(capture, say):
        found = _LINE.fullmatch(line.strip())
        if found is not None and (
            found[1] in _TIMES or found[1] in _WORDS or found[1] in ("ClusterName", _PREEMPT) or _is_controller(found[1])
        ):
            said.setdefault(found[1], (found[2].strip(), number))
        elif found is not None:
            others, first = others + 1, first if others else number
    name = said.get("ClusterName", ("", 1))[0]
    subject = f"slurm:{path_part(name) if name.lower() not in slurm.NO_WORDS else '?'}"
    for key, (text, place) in said.items():
        if key in _TIMES:
            _time(say, subject, _TIMES[key][0], text, place)
        elif key in _WORDS:
            say.text(subject, _WORDS[key][0], text, line=place)
        elif key == _PREEMPT:
            say.duration(subject, "preempt-exempt-time", text, line=place)
    hosts = [(text, place) for key, (text, place) in said.items() if _is_controller(key) and text.lower() not in slurm.NO_WORDS]
    if hosts:
        say.known(subject, "controllers", tuple(text.partition("(")[0].strip() for text, _ in hosts), line=hosts[0][1])
    if others:
        say.skip(first, f"{others} settings that are not read")
    return say.done()


def _is_controller(key: str) -> bool:
    return _CONTROLLER.fullmatch(key) is not None


def _time(say: SlurmFacts, subject: str, attribute: str, text: str, line: int) -> None:
    found = _AMOUNT.fullmatch(text)
    if text.lower() in slurm.UNLIMITED_WORDS:
        say.known(subject, attribute, "unlimited", line=line)
    elif found is None or int(found[1]) in slurm.SENTINELS or int(found[1]) in slurm.SENTINELS_16:
        say.unknown(subject, attribute, line=line, unit="s", note=f"the tool printed {text[:60]!r}")
    else:
        say.known(subject, attribute, int(found[1]) * _UNITS[found[2]], line=line, unit="s")


PARSER = Parser(
    tool=_TOOL,
    command="scontrol show config",
    recognises=recognises,
    marks=(b"configuration data as of", b"killwait"),
    parse=parse,
    yields=(
        *(Yield("slurm:*", attribute, "s", f"time {meaning}") for attribute, meaning in _TIMES.values()),
        *(Yield("slurm:*", attribute, "", "unlimited") for attribute, _ in _TIMES.values()),
        *(Yield("slurm:*", attribute, "", meaning) for attribute, meaning in dict(_WORDS.values()).items()),
        Yield("slurm:*", "preempt-exempt-time", "s", "time that a job runs at least before it can be preempted"),
        Yield("slurm:*", "preempt-exempt-time", "", "unlimited"),
        Yield("slurm:*", "controllers", "", "hosts of the controller, the first one first"),
    ),
)
