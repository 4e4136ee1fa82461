"""Rows of sinfo, squeue and sacct as facts, by the names of their columns (D16, D17). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from bridgehead.discovery import slurm
from bridgehead.discovery.columns import Cell
from bridgehead.discovery.slurm_facts import SlurmFacts, job, node, partition
from bridgehead.discovery.slurm_records import state_job_gpus
from bridgehead.discovery.tables import path_part

NODE_NAMES: Final = ("nodehost", "hostnames", "hostname", "nodelist", "nodeaddr")
JOB_NAMES: Final = ("jobid", "jobidraw")
_JOB_ID: Final = re.compile(r"(\d{1,12}(?:[_+](?:\d{1,9}|\[[\d,%:-]{1,200}\]))?)(?:\.([\w.+-]{1,40}))?", re.ASCII)
_FLAGS: Final = re.compile(r"([a-z_]+(?:\+[a-z_]+)*)[*~#!%$@^-]{0,3}", re.ASCII)
_CUT: Final = "may be cut: the column is full"
Row = Mapping[str, Cell]
"""Cells by column, whose name has only small letters and digits, such as ``nodelistreason``."""


def state_node_row(say: SlurmFacts, row: Row, *, line: int) -> None:
    """A row of sinfo: nodes that are alike, and what it says of their partition."""
    name = next((row[key].text for key in NODE_NAMES if key in row and row[key].text), "")
    found = say.hostlists.expand(name)
    if found.fault:
        say.skip(line, f"no names of nodes in {name[:60]!r}: {found.fault}")
    group = row.get("partition", row.get("partitionname", Cell("")))
    label = group.text.removesuffix("*")
    for host in found.names:
        subject = node(host)
        for key, cell in row.items():
            _node_cell(say, subject, key, cell, line=line)
        if label and not group.full:
            say.known(subject, f"in-partition:{label}", True, line=line)
    if label and not group.full:
        _partition_cells(say, partition(label), row, default=group.text.endswith("*"), line=line)


def _node_cell(say: SlurmFacts, subject: str, key: str, cell: Cell, *, line: int) -> None:
    text = cell.text
    match key:
        case "state" | "statelong" | "statecompact" | "t":
            state = _FLAGS.fullmatch(text.lower())
            if state and not cell.full:
                say.known(subject, "scheduler-state-brief", state[1], line=line)
            else:
                say.unknown(
                    subject, "scheduler-state-brief", line=line, note=f"the tool printed {text[:60]!r}{', which ' + _CUT if state else ''}"
                )
        case "gres":
            _gres(say, subject, "scheduler-gpu-count", cell, line=line, types="scheduler-gpu-type")
        case "gresused":
            _gres(say, subject, "scheduler-gpus-used", cell, line=line)
        case "memory" | "freemem" | "allocmem" if key != "memory" or not text.endswith("+"):
            say.amount(subject, _SIZES[key], text, line=line, unit="B", scale=2**20)
        case "cpus":
            if not text.endswith("+"):  # the least of several nodes
                say.amount(subject, "scheduler-cpu-count", text, line=line, narrow=True)
        case "reason" if text and text.lower() not in slurm.NO_WORDS:
            if cell.full:
                say.unknown(subject, "scheduler-reason", line=line, note=f"{text[:80]!r} {_CUT}")
            else:
                say.text(subject, "scheduler-reason", text, line=line)
        case _:
            pass


def _gres(say: SlurmFacts, subject: str, attribute: str, cell: Cell, *, line: int, types: str = "") -> None:
    """GRES; a full cell without a closing parenthesis may have lost the end of its number."""
    if cell.full and "(" not in cell.text and "gpu" in cell.text:
        say.unknown(subject, attribute, line=line, note=f"the tool printed {cell.text[:80]!r}, which {_CUT}")
    else:
        say.gpus(subject, attribute, cell.text, line=line, types=types)


def _partition_cells(say: SlurmFacts, subject: str, row: Row, *, default: bool, line: int) -> None:
    say.known(subject, "default", default, line=line)
    avail = row.get("avail", Cell(""))
    if avail.text:
        say.text(subject, "state", avail.text.upper(), line=line)
    limit = row.get("timelimit", row.get("time", Cell("")))
    if limit.text:
        say.duration(subject, "time-limit", limit.text, line=line)


def state_job_row(say: SlurmFacts, row: Row, *, line: int) -> bool:
    """A row of squeue or sacct. A step is no job: its facts are of ``job:ID/step:NAME``. Whether it could be read."""
    cell = next((row[key] for key in JOB_NAMES if key in row), Cell(""))
    found = _JOB_ID.fullmatch(cell.text)
    if found is None:
        say.skip(line, f"no number of a job: {cell.text[:60]!r}")
        return False
    subject = job(found[1]) + (f"/step:{path_part(found[2])}" if found[2] else "")
    if not found[2] and "+" in found[1]:
        whole, _, offset = found[1].partition("+")
        say.known(subject, "heterogeneous-job", whole, line=line)
        say.known(subject, "heterogeneous-offset", offset, line=line)
    for key, one in row.items():
        attribute = _STEP_WORDS.get(key, "") if found[2] else _JOB_WORDS.get(key, "")
        if attribute and one.text:
            if one.full:
                say.unknown(subject, attribute, line=line, note=f"{one.text[:80]!r} {_CUT}")
            else:
                say.text(subject, attribute, one.text, line=line)
        elif key in ("state", "st", "statecompact", "statelong"):
            _job_state(say, subject, one, step=bool(found[2]), line=line)
        elif not found[2]:
            _job_cell(say, subject, key, one, line=line)
    if not found[2]:
        _resources(say, subject, row, line=line)
    return True


def _job_state(say: SlurmFacts, subject: str, cell: Cell, *, step: bool, line: int) -> None:
    word = cell.text.strip().upper()
    state = slurm.JOB_STATES.get(word, word.split(" ")[0].rstrip("+"))
    if state in slurm.JOB_STATES.values():
        say.known(subject, "state", state, line=line)
        by = re.fullmatch(r"CANCELLED BY (\d{1,10})", word)
        if by and not step and not cell.full:
            say.known(subject, "cancelled-by", by[1], line=line)
    else:
        say.unknown(subject, "state", line=line, note=f"the tool printed {cell.text[:60]!r}, which is no state of a job, or is cut")


def _job_cell(say: SlurmFacts, subject: str, key: str, cell: Cell, *, line: int) -> None:
    text = cell.text
    match key:
        case "nodelistreason":
            if text.startswith("("):
                say.text(subject, "state-reason", text[1:].removesuffix(")"), line=line)
            elif text and not cell.full:
                say.hosts(subject, "nodes", text, line=line)
        case "nodelist" if text:
            if cell.full:
                say.unknown(subject, "nodes", line=line, note=f"{text[:80]!r} {_CUT}")
            else:
                say.hosts(subject, "nodes", text, line=line)
        case "nodes" | "nnodes" | "allocnodes" if text:
            same = re.fullmatch(r"(\d{1,9})-\1", text)
            say.amount(subject, "node-count", same[1] if same else text, line=line)
        case "cpus" | "ncpus" | "alloccpus" if text:
            say.amount(subject, "cpu-count", text, line=line)
        case "timelimit" if text:
            say.duration(subject, "time-limit", text, line=line)
        case "time":
            say.duration(subject, "run-time-seen", text, line=line)
        case "elapsed":
            say.duration(subject, "elapsed-seen", text, line=line)
        case "submit" | "submittime" | "start" | "starttime" | "end" | "endtime" if text:
            say.moment(subject, f"{key.removesuffix('time')}-time", text, line=line)
        case "dependency" if not cell.full:
            say.dependencies(subject, text, line=line)
        case "minmemory" if text:
            say.size(subject, "memory-requested", text, line=line)
        case _:
            pass


def _resources(say: SlurmFacts, subject: str, row: Row, *, line: int) -> None:
    """GPUs and memory of the whole job, from cells that are not cut."""
    whole = [
        row[key].text for key in ("alloctres", "tresalloc", "reqtres", "tresperjob") if key in row and row[key].text and not row[key].full
    ]
    each = [row[key].text for key in ("trespernode", "gres") if key in row and row[key].text and not row[key].full]
    nodes = next((row[key].text for key in ("nodes", "nnodes", "allocnodes") if key in row), "").partition("-")[0]
    state_job_gpus(say, subject, [(text, line) for text in whole], [(text, line) for text in each], nodes=nodes)
    for text in whole:
        if memory := slurm.tres_in(text).get("mem"):
            say.size(subject, "memory", memory, line=line)
            break


_SIZES: Final = {"memory": "memory", "freemem": "memory-free", "allocmem": "scheduler-memory-used"}
_STEP_WORDS: Final = {"jobname": "name", "exitcode": "exit-code"}
_JOB_WORDS: Final = {
    "jobname": "name",
    "name": "name",
    "user": "user",
    "username": "user",
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "reason": "state-reason",
    "exitcode": "exit-code",
    "features": "features",
    "reservation": "reservation",
    "cluster": "cluster",
    "workdir": "working-directory",
    "licenses": "licenses",
}
