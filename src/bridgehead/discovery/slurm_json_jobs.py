"""Jobs in Slurm's JSON: those of the queue, and those of accounting with their steps (D16, J12). Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery import slurm
from bridgehead.discovery.json_items import Item
from bridgehead.discovery.slurm_facts import SlurmFacts, job
from bridgehead.discovery.slurm_json_nodes import inner
from bridgehead.discovery.slurm_records import state_job_gpus
from bridgehead.discovery.tables import path_part

_MOST_STEPS: Final = 200
_SIGNAL: Final = re.compile(r"--signal[= ](?:[RB]{1,2}:)?(\w{1,10})(?:@(\d{1,6}))?(?=\s|$)", re.ASCII)


def state_job(say: SlurmFacts, item: Item) -> None:
    """A job of either kind."""
    identity = slurm.amount_in(item.get("job_id")).value
    if not isinstance(identity, int):
        say.skip(item.line, "a job without an id")
        return
    subject = job(identity)
    accounted = "association" in item or ("time" in item and isinstance(item.get("state"), dict))
    for key in item:
        if key in _WORDS and item[key]:
            say.text(subject, _WORDS[key], item[key], line=item.at(key))
    if isinstance(item.get("nodes"), str):
        say.hosts(subject, "nodes", item["nodes"], line=item.at("nodes"))
    if "exit_code" in item:
        state_exit(say, subject, item["exit_code"], line=item.at("exit_code"))
    (_accounted if accounted else _queued)(say, subject, item)


def _queued(say: SlurmFacts, subject: str, item: Item) -> None:
    if "job_state" in item:
        say.text(subject, "state", slurm.state_of(item["job_state"]), line=item.at("job_state"))
    if "time_limit" in item:
        say.amount(subject, "time-limit", item["time_limit"], line=item.at("time_limit"), unit="s", scale=60, limit=True)
    for key in ("node_count", "cpus", "restart_cnt"):
        if key in item:
            say.amount(subject, _COUNTS[key], item[key], line=item.at(key))
    for key in ("submit_time", "start_time", "end_time"):
        if key in item:
            say.moment(subject, key.replace("_", "-"), item[key], line=item.at(key))
    if "dependency" in item:
        say.dependencies(subject, item["dependency"], line=item.at("dependency"))
    if isinstance(item.get("requeue"), bool):
        say.known(subject, "requeue", item["requeue"], line=item.at("requeue"))
    for key, attribute in (("array_job_id", "array-job"), ("het_job_id", "heterogeneous-job")):
        number = slurm.amount_in(item.get(key)).value
        if number:
            say.known(subject, attribute, str(number), line=item.at(key))
            other, name = ("array_task_id", "array-task") if key == "array_job_id" else ("het_job_offset", "heterogeneous-offset")
            if (part := slurm.amount_in(item.get(other)).value) is not None:
                say.known(subject, name, str(part), line=item.at(other))
    if "kill_warning_delay" in item and (delay := slurm.amount_in(item["kill_warning_delay"]).value):
        say.known(subject, "grace", delay, line=item.at("kill_warning_delay"), unit="s")
    wholes = [(item[key], item.at(key)) for key in ("tres_alloc_str", "tres_req_str", "tres_per_job") if _text(item.get(key))]
    detail = item.get("gres_detail")
    if isinstance(detail, list) and detail and all(isinstance(one, str) for one in detail):
        wholes.insert(1 if _text(item.get("tres_alloc_str")) else 0, (",".join(detail), item.at("gres_detail")))
    for text, line in wholes:
        if memory := slurm.tres_in(text).get("mem"):
            say.size(subject, "memory", memory, line=line)
            break
    per_node = [(item["tres_per_node"], item.at("tres_per_node"))] if _text(item.get("tres_per_node")) else []
    count = slurm.amount_in(item.get("node_count")).value
    state_job_gpus(say, subject, wholes, per_node, nodes="" if count is None else str(count))


def _accounted(say: SlurmFacts, subject: str, item: Item) -> None:
    state, time = inner(item, "state"), inner(item, "time")
    if current := state.get("current"):
        say.text(subject, "state", slurm.state_of(current), line=item.at("state"))
    if _text(state.get("reason")):
        say.text(subject, "state-reason", state["reason"], line=item.at("state"))
    if "limit" in time:
        say.amount(subject, "time-limit", time["limit"], line=item.at("time"), unit="s", scale=60, limit=True)
    if "elapsed" in time:
        say.amount(subject, "elapsed-seen", time["elapsed"], line=item.at("time"), unit="s")
    for key, attribute in (("submission", "submit-time"), ("start", "start-time"), ("end", "end-time")):
        if key in time:
            say.moment(subject, attribute, time[key], line=item.at("time"))
    if "allocation_nodes" in item:
        say.amount(subject, "node-count", item["allocation_nodes"], line=item.at("allocation_nodes"))
    _tres(say, subject, inner(item, "tres"), line=item.at("tres"))
    if (offset := slurm.amount_in(inner(item, "het").get("job_offset")).value) is not None and inner(item, "het").get("job_id"):
        whole = slurm.amount_in(inner(item, "het")["job_id"]).value
        if whole:
            say.known(subject, "heterogeneous-job", str(whole), line=item.at("het"))
            say.known(subject, "heterogeneous-offset", str(offset), line=item.at("het"))
    signal = _SIGNAL.search(item["submit_line"][:4000]) if _text(item.get("submit_line")) else None
    if signal:
        say.known(subject, "grace-signal", signal[1], line=item.at("submit_line"))
        note = "" if signal[2] else "the default of Slurm, since --signal names no time"
        say.known(subject, "grace", int(signal[2] or 60), line=item.at("submit_line"), unit="s", note=note)
    steps = item.get("steps")
    steps = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    for step in steps[:_MOST_STEPS]:
        _step(say, subject, step, line=item.at("steps"))
    if len(steps) > _MOST_STEPS:
        say.skip(item.at("steps"), f"{len(steps) - _MOST_STEPS} more steps of {subject}")


def _tres(say: SlurmFacts, subject: str, tres: dict[str, Any], *, line: int) -> None:
    """What is allocated, else what is asked for; a GPU has an entry without a type and perhaps one for each type."""
    held: list[Any] = next((tres[key] for key in ("allocated", "requested") if isinstance(tres.get(key), list) and tres[key]), [])
    entries = [one for one in held if isinstance(one, dict)]
    if not entries:
        return
    text = ",".join(f"{_name(one)}={one.get('count')}" for one in entries)
    say.gpus(subject, "gpu-count", text, line=line, types="gpu-type")
    for one in entries:
        if one.get("type") == "mem":
            say.amount(subject, "memory", one.get("count"), line=line, unit="B", scale=2**20)
        if one.get("type") == "cpu":
            say.amount(subject, "cpu-count", one.get("count"), line=line)


def _name(entry: dict[str, Any]) -> str:
    kind, name = entry.get("type"), entry.get("name")
    return f"{kind}/{name}" if kind == "gres" else str(kind)


def _step(say: SlurmFacts, subject: str, step: dict[str, Any], *, line: int) -> None:
    identity = inner(step, "step").get("id")
    number = identity.get("step_id") if isinstance(identity, dict) else identity
    part = (
        f"{subject}/step:{path_part(str(number if number is not None else inner(step, 'step').get('name') or '?')).split('.')[-1] or '?'}"
    )
    if step.get("state"):
        say.text(part, "state", slurm.state_of(step["state"]), line=line)
    if "exit_code" in step:
        state_exit(say, part, step["exit_code"], line=line)
    if _text(inner(step, "step").get("name")):
        say.text(part, "name", inner(step, "step")["name"], line=line)


def state_exit(say: SlurmFacts, subject: str, value: Any, *, line: int) -> None:
    """Code and signal: of a wait status in one number, or of a table."""
    if isinstance(value, dict) and "return_code" in value:
        code = slurm.amount_in(value["return_code"]).value
        held = inner(value, "signal")
        signal = slurm.amount_in(held.get("id", held.get("signal_id"))).value or 0
    else:
        status = slurm.amount_in(value).value
        code = status >> 8 if isinstance(status, int) else None
        signal = status & 127 if isinstance(status, int) else 0
    if isinstance(code, int):
        say.known(subject, "exit-code", f"{code}:{signal}", line=line)
    else:
        say.unknown(subject, "exit-code", line=line, note="the tool printed no exit code that is set")


def _text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


_WORDS: Final = {
    "name": "name",
    "user_name": "user",
    "user": "user",
    "account": "account",
    "cluster": "cluster",
    "partition": "partition",
    "qos": "qos",
    "state_reason": "state-reason",
    "resv_name": "reservation",
    "features": "features",
    "licenses": "licenses",
    "command": "command",
    "current_working_directory": "working-directory",
    "working_directory": "working-directory",
    "kill_warning_signal": "grace-signal",
}
_COUNTS: Final = {"node_count": "node-count", "cpus": "cpu-count", "restart_cnt": "restarts"}
