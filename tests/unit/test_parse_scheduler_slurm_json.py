"""Slurm's JSON of all versions: states in two shapes, numbers in three, sentinels, hundredths, minutes (M2, M5.2, D16)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridgehead.discovery.merge import merge
from bridgehead.discovery.packing import pack
from bridgehead.discovery.parsers.slurm_json import PARSER
from bridgehead.discovery.parsing import Capture, Parsed, Statements
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "slurm-json"


def read(name: str) -> Parsed:
    return PARSER.parse(Capture(name, (FIXTURES / name).read_bytes()))


def parse(document: object) -> Parsed:
    return PARSER.parse(Capture("f", json.dumps(document, indent=2).encode()))


def values(parsed: Parsed, subject: str) -> dict[str, Any]:
    return {view.attribute: view.value for view in merge(parsed.facts) if view.subject == subject and view.status is Status.KNOWN}


def number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


def test_sinfo_of_v0037_has_states_and_no_gpus() -> None:
    parsed = read("sinfo_v0037.json")
    states = {fact.subject: fact.value for fact in parsed.facts if fact.attribute == "scheduler-state"}
    assert states == {
        "node:cs2.example.company.com": "MIXED",
        "node:cs3.example.company.com": "IDLE",
        "node:cs4.example.company.com": "ALLOCATED",
        "node:cs5.example.company.com": "DOWN",
    }
    node = values(parsed, "node:cs2.example.company.com")
    assert (node["scheduler-gpu-count"], node["memory"], node["scheduler-cpu-count"]) == (0, 500000 * 2**20, 64)
    assert (node["slurm-version"], node["partitions"], node["cpu-load"]) == ("21.08.5", ("hw",), 0.01)
    [line] = [fact.source.line for fact in parsed.facts if fact.subject == "node:cs3.example.company.com" and fact.attribute == "memory"]
    assert (FIXTURES / "sinfo_v0037.json").read_text().splitlines()[line - 1].strip() == '"real_memory": 500000,'


def test_nodes_of_v0038_have_a_state_and_flags_beside_it() -> None:
    parsed = read("slurmrestd_nodes.json")
    assert [values(parsed, f"node:naboo{number}")["scheduler-state"] for number in (145, 146, 147)] == ["IDLE+DRAIN"] * 2 + ["ALLOCATED"]
    assert {values(parsed, f"node:naboo{number}")["scheduler-cpu-count"] for number in (145, 146, 147)} == {36}
    assert {values(parsed, f"node:naboo{number}")["scheduler-gpu-count"] for number in (145, 146, 147)} == {0}
    node = values(parsed, "node:naboo147")
    assert node["cpu-load"] == 29.69  # D16: hundredths
    drained = values(parsed, "node:naboo145")
    assert (drained["scheduler-reason"], drained["scheduler-reason-by"]) == ("Kill task failed", "root")
    assert drained["scheduler-reason-at"] == 1723077306


def test_jobs_of_v0038() -> None:
    parsed = read("slurmrestd_jobs.json")
    jobs = {name: values(parsed, f"job:{name}") for name in (20464, 20468, 23772)}
    assert [job["state"] for job in jobs.values()] == ["RUNNING", "RUNNING", "COMPLETED"]
    assert [job["nodes"] for job in jobs.values()] == [("naboo222",), ("naboo222",), ("naboo147",)]
    assert [job["cpu-count"] for job in jobs.values()] == [2, 2, 8]
    assert {job["gpu-count"] for job in jobs.values()} == {0}
    job = jobs[20464]
    assert job["time-limit"] == job["end-time"] - job["start-time"] == 3600 * 60  # minutes
    assert (job["memory"], job["depends-on"], job["requeue"], job["partition"]) == (4000 * 2**20, (), False, "atlas")
    assert not [fact for fact in parsed.facts if "23772" in fact.subject and fact.attribute == "heterogeneous-job"]


def test_partitions_of_v0038() -> None:
    partition = values(read("slurmrestd_partitions.json"), "partition:atlas")
    assert (partition["state"], partition["default"], partition["node-count"], partition["cpu-count"]) == ("UP", True, 21, 632)
    assert len(partition["nodes"]) == 21
    assert (partition["time-limit"], partition["grace"], partition["preempt-mode"]) == ("unlimited", 0, "OFF")
    assert "time-limit-default" not in partition


def test_D16_nodes_of_v0040_with_lists_tables_and_sentinels() -> None:
    parsed = read("scontrol_nodes_v0040.json")
    node, silent = values(parsed, "node:hgx-11"), values(parsed, "node:hgx-12")
    assert node["scheduler-state"] == "MIXED+DRAIN"
    assert (node["scheduler-gpu-count"], node["scheduler-gpu-type"], node["scheduler-gpus-used"]) == (8, "h100", 6)
    assert (node["cpu-load"], node["boot-time"], node["features"]) == (12.5, 1711000000, ("h100", "ib"))
    assert node["scheduler-reason"] == "nvlink 3 down, see ticket [77]"
    assert not {"memory-free", "power-draw"} & node.keys()
    assert silent == {"scheduler-state": "DOWN+NOT_RESPONDING", "memory": 2000000 * 2**20}
    unknown = {fact.attribute: fact.note for fact in parsed.facts if fact.subject == "node:hgx-12" and fact.status is Status.UNKNOWN}
    assert "NO_VAL" in unknown["cpu-load"]
    assert "NO_VAL64" in unknown["memory-free"]
    assert "cut" in unknown["scheduler-gpu-count"]
    assert values(parsed, "cluster:aurora") == {"slurm-version": "23.11.4"}
    assert "a warning of the plug-in" in parsed.skipped[0].reason


def test_load_that_is_no_whole_number_is_not_divided() -> None:
    parsed = parse({"nodes": [{"name": "n1", "state": ["IDLE", "DRAIN"], "real_memory": 5, "gres": "gpu:a100:4", "cpu_load": 0.5}]})
    assert values(parsed, "node:n1") == {
        "scheduler-state": "IDLE+DRAIN",
        "memory": 5 * 2**20,
        "scheduler-gpu-count": 4,
        "scheduler-gpu-type": "a100",
    }


def test_integers_of_more_than_64_bits_are_no_values() -> None:
    huge = 10**330
    parsed = parse({"nodes": [{"name": "n1", "real_memory": huge, "gres_used": "", "cpus": number(huge), "cpu_load": huge}]})
    found = {one.attribute: one for one in parsed.facts}
    assert {(found[name].status, "more than 64 bits" in found[name].note) for name in ("cpu-load", "memory")} == {(Status.UNKNOWN, True)}
    assert not any(isinstance(one.value, int) and one.value >= 2**64 for one in parsed.facts)
    pack(parsed.facts)


def test_a_fact_never_is_an_integer_of_more_than_64_bits() -> None:
    say = Statements("tool", Capture("f", b""))
    say.known("node:n1", "a", 2**64 - 1, line=1)
    say.known("node:n1", "b", -(2**63), line=1)
    say.known("node:n1", "c", 2**64, line=1)
    say.conflict("node:n1", "d", -(2**63) - 1, line=1, note="two say it")
    assert [one.value for one in say.done().facts] == [2**64 - 1, -(2**63), None, None]
    pack(say.done().facts)


def test_job_of_v0041_that_runs_and_one_that_waits() -> None:
    running = {
        "job_id": 42,
        "name": "pretrain",
        "job_state": ["RUNNING", "COMPLETING"],
        "time_limit": {"set": True, "infinite": True, "number": 0},
        "node_count": number(2),
        "cpus": number(64),
        "nodes": "hgx-[11-12]",
        "tres_alloc_str": "cpu=64,mem=1T,node=2,billing=64",
        "tres_per_node": "gres/gpu:h100:8",
        "gres_detail": ["gpu:h100:8(IDX:0-7)", "gpu:h100:8(IDX:0-7)"],
        "exit_code": {"status": ["SUCCESS"], "return_code": number(3), "signal": {"id": {"set": False, "number": 0}, "name": ""}},
        "restart_cnt": 1,
        "array_job_id": number(40),
        "array_task_id": number(2),
        "submit_time": number(1711000000),
        "start_time": number(0),
    }
    waits = {
        "job_id": 43,
        "job_state": ["PENDING"],
        "time_limit": number(90),
        "node_count": number(4),
        "nodes": "",
        "tres_req_str": "cpu=8,mem=4G,node=4,billing=8",
        "tres_alloc_str": "",
        "tres_per_node": "gres/gpu:8",
        "dependency": "afterok:42(unfulfilled)",
    }
    parsed = parse({"jobs": [running, waits], "meta": {"Slurm": {}}})
    job = values(parsed, "job:42")
    assert (job["state"], job["time-limit"], job["gpu-count"], job["gpus-per-node"]) == ("RUNNING+COMPLETING", "unlimited", 16, 8)
    assert (job["nodes"], job["memory"], job["exit-code"]) == (("hgx-11", "hgx-12"), 2**40, "3:0")
    assert (job["array-job"], job["array-task"], job["submit-time"]) == ("40", "2", 1711000000)
    assert "start-time" not in job
    later = values(parsed, "job:43")
    assert (later["gpu-count"], later["time-limit"], later["depends-on"]) == (32, 5400, ("afterok:42",))
    assert "nodes" not in later


def test_job_of_accounting_with_its_steps_and_its_grace() -> None:
    job = {
        "job_id": 7,
        "name": "train",
        "association": {"account": "ml", "cluster": "aurora", "user": "mira"},
        "account": "ml",
        "user": "mira",
        "state": {"current": ["TIMEOUT"], "reason": "None"},
        "time": {"elapsed": 600, "limit": number(10), "start": 1711000000, "end": 1711000600, "submission": 1710999999},
        "allocation_nodes": 2,
        "nodes": "None assigned",
        "submit_line": "sbatch --signal=B:USR1@300 job.sh",
        "tres": {
            "allocated": [
                {"type": "cpu", "name": "", "id": 1, "count": 128},
                {"type": "mem", "name": "", "id": 2, "count": 1024},
                {"type": "gres", "name": "gpu", "id": 1001, "count": 16},
                {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 16},
            ]
        },
        "steps": [{"step": {"id": "7.extern", "name": "extern"}, "state": ["COMPLETED"], "exit_code": {"return_code": 0}}],
    }
    parsed = parse({"jobs": [job], "meta": {"slurm": {"release": "24.05.1"}}})
    said = values(parsed, "job:7")
    assert (said["state"], said["gpu-count"], said["gpu-type"], said["cpu-count"]) == ("TIMEOUT", 16, "h100", 128)
    assert (said["memory"], said["time-limit"], said["elapsed-seen"]) == (2**30, 600, 600)
    assert (said["grace"], said["grace-signal"]) == (300, "USR1")
    assert "nodes" not in said
    assert values(parsed, "job:7/step:extern") == {"state": "COMPLETED", "exit-code": "0:0", "name": "extern"}


def test_groups_of_sinfo_say_of_a_node_only_what_all_have() -> None:
    group = {
        "node": {"state": ["IDLE"]},
        "nodes": {"total": 2, "nodes": ["a1", "a2"]},
        "cpus": {"minimum": 64, "maximum": 64},
        "memory": {"minimum": 1000, "maximum": 2000},
        "gres": {"total": "gpu:8", "used": "gpu:0"},
        "partition": {"name": "train", "maximums": {"time": number(1440)}, "grace_time": 30, "partition": {"state": ["UP"]}},
    }
    parsed = parse({"sinfo": [group], "meta": {"slurm": {}}})
    assert values(parsed, "node:a2") == {"scheduler-state": "IDLE", "scheduler-gpu-count": 8, "scheduler-cpu-count": 64}
    assert values(parsed, "partition:train") == {"state": "UP", "time-limit": 86400, "grace": 30}


@pytest.mark.parametrize("name", [path.name for path in sorted(FIXTURES.iterdir())])
def test_a_cut_document_says_nothing_and_names_the_line(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    parsed = PARSER.parse(Capture("f", whole[: len(whole) // 2]))
    assert parsed.facts == ()
    assert parsed.skipped[0].line > 1


@pytest.mark.parametrize("name", [path.name for path in sorted(FIXTURES.iterdir())])
def test_a_document_in_one_line_or_with_other_line_ends_says_the_same(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    plain = {(fact.subject, fact.attribute, fact.value) for fact in read(name).facts}
    for other in (
        json.dumps(json.loads(whole)).encode(),
        whole.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + whole,
        b"$ sinfo --json\n" + whole,
    ):
        assert PARSER.recognises(other)
        assert {(fact.subject, fact.attribute, fact.value) for fact in PARSER.parse(Capture("f", other)).facts} == plain
