"""How a Slurm cluster ends jobs, read from what ``scontrol show config`` and ``scontrol show partition`` print (J10).

Measured with Slurm 22.05, with a job of which the batch script is the only process: at a preemption the script hears nothing during
GraceTime; then it gets TERM, and KILL after KillWait, as at a cancel and at its time limit. Only with preempt_send_user_signal, and when
the job was submitted with a warning of its own (``--signal=B:TERM@...``), it gets TERM at once and has both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from bridgehead.ports.admission import GraceTerms

_SECONDS: Final = {"sec": 1.0, "min": 60.0}
_ENDLESS: Final = {"UNLIMITED", "INFINITE"}
_PLAIN: Final = {"CANCEL", "REQUEUE", "SUSPEND"}


def read_config(text: str) -> dict[str, str]:
    """``Name = value`` of each line."""
    return {name.strip(): value.strip() for name, found, value in (line.partition(" = ") for line in text.splitlines()) if found}


def read_partitions(text: str) -> list[dict[str, str]]:
    """Of each line of ``scontrol show partition -o``: words ``Name=value``."""
    return [dict(word.partition("=")[::2] for word in line.split()) for line in text.splitlines() if line.startswith("PartitionName=")]


def grace_terms(config: Mapping[str, str], partitions: Sequence[Mapping[str, str]], *, wanted: str, warned: bool) -> GraceTerms:
    """What holds for a job that asks for ``wanted`` (one partition or several with commas; "" is the default one).

    Of several partitions, the one that gives least. ``warned``: the job is submitted with a warning before its time limit. GraceTime of a
    QoS is not read, so with preempt/qos ``preempt_s`` is what it has at least.

    Raises:
        ValueError: the partition is not there, or a value cannot be read.
    """
    names = set(wanted.split(",")) if wanted else {one["PartitionName"] for one in partitions if one.get("Default") == "YES"}
    mine = [one for one in partitions if one["PartitionName"] in names]
    if not names or len(mine) != len(names):
        raise ValueError(f"there is no partition {wanted or 'that is the default'}")
    terms = [_of_partition(config, one, warned=warned) for one in mine]
    return min(terms, key=lambda one: (one.kill_wait_s, one.preempted == "", one.preempt_s, one.over_limit_s))


def _of_partition(config: Mapping[str, str], partition: Mapping[str, str], *, warned: bool) -> GraceTerms:
    over = partition.get("OverTimeLimit", "NONE")
    over_s = _duration_s(config["OverTimeLimit"]) if over == "NONE" else _minutes_s(over)
    mode = _mode(config, partition)
    return GraceTerms(
        kill_wait_s=_duration_s(config["KillWait"]),
        over_limit_s=over_s,
        preempted=mode,
        preempt_s=float(partition["GraceTime"]) if mode and config["PreemptType"] == "preempt/partition_prio" else 0.0,
        preempt_announced=bool(mode) and warned and "preempt_send_user_signal" in config.get("SlurmctldParameters", ""),
    )


def _mode(config: Mapping[str, str], partition: Mapping[str, str]) -> str:
    """ "" when a job of the partition is never preempted. GANG alone only shares time."""
    if config.get("PreemptType", "preempt/none") == "preempt/none":
        return ""
    said = partition.get("PreemptMode") or config["PreemptMode"]
    modes = _PLAIN & set(said.upper().split(","))
    return min(modes).lower() if modes else ""


def _duration_s(text: str) -> float:
    """``30 sec``, ``2 min``, ``UNLIMITED``."""
    if text in _ENDLESS:
        return math.inf
    found = re.fullmatch(r"(\d+) (sec|min)", text)
    if found is None:
        raise ValueError(f"not a duration of Slurm: {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def _minutes_s(text: str) -> float:
    return math.inf if text in _ENDLESS else 60.0 * int(text)
