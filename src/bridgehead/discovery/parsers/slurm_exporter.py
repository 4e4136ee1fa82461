"""Lines of JSON that exporters of metrics make with squeue's and sinfo's formats: one job or node a line (D16)."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from bridgehead.discovery import slurm
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.slurm_facts import BRIEF, JOB_YIELDS, NODE_YIELDS, SlurmFacts, job, node

_TOOL: Final = "slurm-exporter"
_JOB: Final = re.compile(
    rb'^[ \t]*\{(?=[^\n]{0,400}"(?:id|job_id)"\s*:\s*"?\d)(?=[^\n]{0,400}"state"\s*:\s*"[A-Z_]+")[^\n]*\}[ \t]*\r?$', re.MULTILINE
)
_NODE: Final = re.compile(
    rb'^[ \t]*\{(?=[^\n]{0,400}"s"\s*:\s*")(?=[^\n]{0,400}"n"\s*:\s*")(?=[^\n]{0,400}"(?:cstate|fmem)"\s*:)[^\n]*\}[ \t]*\r?$', re.MULTILINE
)
_MAX_LINE: Final = 20_000
_MOST_SKIPPED: Final = 50
_WORDS: Final = {
    "a": "account",
    "account": "account",
    "u": "user",
    "user": "user",
    "p": "partition",
    "partition": "partition",
    "name": "name",
    "qos": "qos",
}


def recognises(head: bytes) -> bool:
    """A line that is an object with a job's id and state, or with a node's name and CPUs."""
    return _JOB.search(head) is not None or _NODE.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """Every line for itself: one that is broken is skipped, and the others count."""
    say = SlurmFacts(_TOOL, capture)
    skipped = 0
    lines = capture.lines
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        record = _record(text)
        if isinstance(record, dict) and ("id" in record or "job_id" in record):
            _state_job(say, record, line=number)
        elif isinstance(record, dict) and isinstance(record.get("n"), str):
            _state_node(say, record, line=number)
        elif (skipped := skipped + 1) <= _MOST_SKIPPED:
            why = record if isinstance(record, str) else "it is neither a job nor a node"
            say.skip(number, f"{why}: {text[:60]!r}")
    if skipped > _MOST_SKIPPED:
        say.skip(len(lines), f"{skipped - _MOST_SKIPPED} more lines that cannot be read")
    return say.done()


def _record(text: str) -> dict[str, Any] | str:
    """The object of a line, or why there is none."""
    if not text.startswith("{"):
        return "no line of JSON"
    if len(text) > _MAX_LINE:
        return "the line is too long"
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return f"the JSON is broken ({error})"
    return found if isinstance(found, dict) else "no object"


def _state_job(say: SlurmFacts, record: dict[str, Any], *, line: int) -> None:
    identity = slurm.amount_in(record.get("id", record.get("job_id"))).value
    if not isinstance(identity, int):
        say.skip(line, "a job without a number")
        return
    subject = job(identity)
    for key, value in record.items():
        match key:
            case "state":
                say.text(subject, "state", slurm.state_of(value), line=line)
            case "cpu" | "cpus":
                say.amount(subject, "cpu-count", value, line=line)
            case "mem" if isinstance(value, str):
                say.size(subject, "memory-requested", value, line=line)
            case "end_time" | "start_time" | "submit_time" if value != "NONE":
                say.moment(subject, key.replace("_", "-"), value, line=line)
            case "end_time" | "start_time" | "submit_time":
                say.unknown(subject, f"{key.replace('_', '-')}-local", line=line, note=f"the tool printed {value!r}")
            case "array_id":
                if isinstance(value, int | str) and str(value).isdigit() and int(value) != identity:
                    say.known(subject, "array-job", str(value), line=line)
            case "r" | "nodelist_reason" if isinstance(value, str):
                _place(say, subject, value, line=line)
            case _ if key in _WORDS:
                say.text(subject, _WORDS[key], value, line=line)
            case _:
                pass


def _place(say: SlurmFacts, subject: str, text: str, *, line: int) -> None:
    """Where a job runs; in parentheses why it does not."""
    if text.startswith("(") and text.endswith(")"):
        say.text(subject, "state-reason", text[1:-1], line=line)
    elif text.strip():
        say.hosts(subject, "nodes", text, line=line)


def _state_node(say: SlurmFacts, record: dict[str, Any], *, line: int) -> None:
    subject = node(record["n"])
    for key, value in record.items():
        match key:
            case "s" if isinstance(value, str):
                say.text(subject, "scheduler-state-brief", value.lower().rstrip("*~#!%$@^-"), line=line)
            case "mem":
                say.amount(subject, "memory", value, line=line, unit="B", scale=2**20)
            case "fmem":
                say.amount(subject, "memory-free", value, line=line, unit="B", scale=2**20)
            case "l":
                say.amount(subject, "cpu-load", value, line=line)
            case "w":
                say.amount(subject, "scheduler-weight", value, line=line)
            case "gres" if isinstance(value, str):
                say.gpus(subject, "scheduler-gpu-count", value, line=line, types="scheduler-gpu-type")
            case "cstate" if isinstance(value, str) and re.fullmatch(r"\d{1,7}(?:/\d{1,7}){3}", value, re.ASCII):
                used, _, _, whole = value.split("/")
                say.known(subject, "scheduler-cpus-used", int(used), line=line)
                say.known(subject, "scheduler-cpu-count", int(whole), line=line)
            case _:
                pass


PARSER = Parser(
    tool=_TOOL,
    command='squeue -h -o \'{"id": %A, "state": "%T", "p": "%P", "cpu": %C, "mem": "%m", "r": "%R"}\'',
    recognises=recognises,
    marks=(
        b'"state"',
        b'"s"',
    ),
    parse=parse,
    yields=(*NODE_YIELDS, *JOB_YIELDS, BRIEF),
)
