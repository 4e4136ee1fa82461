"""sinfo, squeue and sacct as text: steps are no jobs, cells that are cut are no values, GRES with suffixes (M2, D16, D17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers.slurm_tables import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "slurm-text"
NAMES = ["sacct_parsable2_hetjob.txt", "sacct_jobname.txt", "sacct_columns.txt", "squeue.txt", "sinfo.txt", "sinfo_gres.txt"]


def parse(text: str | bytes) -> Parsed:
    data = text if isinstance(text, bytes) else text.encode()
    assert PARSER.recognises(data)
    return PARSER.parse(Capture("f", data))


def read(name: str) -> Parsed:
    return parse((FIXTURES / name).read_bytes())


def values(parsed: Parsed, subject: str) -> dict[str, Any]:
    return {view.attribute: view.value for view in merge(parsed.facts) if view.subject == subject and view.status is Status.KNOWN}


def jobs(parsed: Parsed) -> list[str]:
    return sorted({fact.subject for fact in parsed.facts if fact.subject.startswith("job:") and "/" not in fact.subject})


def test_heterogeneous_job_has_three_components_and_its_steps_are_no_jobs() -> None:
    parsed = read("sacct_parsable2_hetjob.txt")
    assert jobs(parsed) == ["job:1853+0", "job:1853+1", "job:1853+2"]
    steps = {fact.subject for fact in parsed.facts if "/step:" in fact.subject}
    assert steps == {"job:1853+0/step:batch", "job:1853+0/step:0", "job:1853+1/step:0", "job:1853+2/step:0"}
    job = values(parsed, "job:1853+2")
    assert (job["name"], job["state"], job["heterogeneous-job"], job["heterogeneous-offset"]) == ("echo-2", "COMPLETED", "1853", "2")


def test_job_name_with_signs_and_a_step_that_ended_otherwise() -> None:
    parsed = read("sacct_jobname.txt")
    assert values(parsed, "job:771204") == {
        "name": "mapper_round=2,part=p_07,ref=XY_9.1",
        "partition": "bio",
        "account": "genome",
        "cpu-count": 4,
        "state": "FAILED",
        "exit-code": "2:0",
    }
    assert values(parsed, "job:771204/step:extern") == {"name": "extern", "state": "COMPLETED", "exit-code": "0:0"}
    assert jobs(parsed) == ["job:771204", "job:771210"]  # a delimiter in the name of 771209: which cell is which cannot be told
    assert [skipped.line for skipped in parsed.skipped] == [5]
    job = values(parsed, "job:771210")
    assert (job["state"], job["cancelled-by"]) == ("CANCELLED", "2041")


def test_D16_columns_of_sacct_that_are_cut() -> None:
    parsed = read("sacct_columns.txt")
    job = values(parsed, "job:8801")
    assert "name" not in job
    assert (job["state"], job["cpu-count"], job["partition"]) == ("COMPLETED", 128, "day")
    assert values(parsed, "job:8802")["state"] == "CANCELLED"
    assert "partition" not in values(parsed, "job:8801/step:batch")


def test_D16_columns_of_squeue() -> None:
    parsed = read("squeue.txt")
    running, waits = values(parsed, "job:8801"), values(parsed, "job:8802")
    assert (running["state"], running["run-time-seen"], running["node-count"], running["user"]) == ("RUNNING", 93630, 4, "mira")
    assert running["nodes"] == ("lab-01", "lab-02", "lab-03", "lab-04")
    assert "name" not in running  # eight signs wide: it may go on
    assert (waits["state"], waits["name"]) == ("PENDING", "eval")
    assert waits["state-reason"] == "Nodes required for job are DOWN, DRAINED"
    assert "nodes" not in waits
    assert values(parsed, "job:8803_[1-9]")["state"] == "PENDING"


def test_partitions_and_nodes_of_sinfo() -> None:
    parsed = read("sinfo.txt")
    assert values(parsed, "node:lab-02") == {"scheduler-state-brief": "drain", "in-partition:day": True}
    assert values(parsed, "partition:day") == {"default": True, "state": "UP", "time-limit": 172800}
    assert values(parsed, "partition:night") == {"default": False, "state": "UP", "time-limit": "unlimited"}


def test_D17_gres_without_a_heading() -> None:
    parsed = read("sinfo_gres.txt")
    assert values(parsed, "node:gpu-a-01") == {"scheduler-gpu-count": 4}
    assert values(parsed, "node:gpu-a-03") == {"scheduler-gpu-count": 8, "scheduler-gpu-type": "a100"}
    assert values(parsed, "node:cpu-01") == {"scheduler-gpu-count": 0}
    assert values(parse("node0001,gpu:8(S:0-3)\n"), "node:node0001") == {"scheduler-gpu-count": 8}


def test_node_list_in_long_form_with_a_date_and_a_reason() -> None:
    parsed = parse(
        "Thu Jan 25 15:43:52 2018\n"
        "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              \n"
        "bryan1         1  skylake*        idle   36   2:18:1 384000        0   1000   (null) none                \n"
        "bryan2         1  skylake*    drained*   36   2:18:1 191000        0   1000   (null) bad gpu 3           \n"
    )
    assert values(parsed, "node:bryan1") == {
        "scheduler-state-brief": "idle",
        "scheduler-cpu-count": 36,
        "memory": 384000 * 2**20,
        "in-partition:skylake": True,
    }
    node = values(parsed, "node:bryan2")
    assert (node["scheduler-state-brief"], node["scheduler-reason"]) == ("drained", "bad gpu 3")


@pytest.mark.parametrize(
    ("row", "gpus"),
    [
        ("node0001            gpu:a100:8(S:0-1)   mixed\n", 8),
        ("node0001            gpu:a100:8          mixed\n", 8),
        ("node0001            gpu:nvidia_h100_80gb_mixed\n", None),  # two cells that ran together
        ("node0001            gpu:h100_80gb_hbm3:1mixed\n", None),
        ("node0001            gpu:h100_80gb_hbm3: mixed\n", None),
        ("node0001            gpu:h100_80gb_hbm:1 mixed\n", None),  # the column is full: 1 may be 16
    ],
)
def test_D16_gres_that_fills_its_column_is_not_believed(row: str, gpus: int | None) -> None:
    parsed = parse(f"HOSTNAMES           GRES                STATE\n{row}")
    assert values(parsed, "node:node0001").get("scheduler-gpu-count") == gpus


def test_least_of_several_nodes_is_no_value_of_each() -> None:
    node = values(parse("NODELIST|CPUS|MEMORY|GRES\na[1-2]|64+|250000+|gpu:4\n"), "node:a2")
    assert node == {"scheduler-gpu-count": 4}


def test_sacct_with_resources_and_a_delimiter_at_the_end() -> None:
    parsed = parse(
        "JobID|State|AllocTRES|ReqTRES|NNodes|NodeList|Timelimit|Submit|Start|\n"
        "91|RUNNING|billing=8,cpu=8,gres/gpu:h100=16,gres/gpu=16,mem=1T,node=2|cpu=8|2|g[1-2]|1-00:00:00|2024-05-01T10:00:00|Unknown|\n"
    )
    job = values(parsed, "job:91")
    assert (job["gpu-count"], job["gpu-type"], job["memory"], job["node-count"]) == (16, "h100", 2**40, 2)
    assert (job["nodes"], job["time-limit"], job["submit-time-local"]) == (("g1", "g2"), 86400, "2024-05-01T10:00:00")
    assert "start-time-local" not in job


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_change_nothing_and_a_cut_row_says_nothing(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    plain = [(fact.subject, fact.attribute, fact.value) for fact in read(name).facts]
    assert [(fact.subject, fact.attribute, fact.value) for fact in parse(whole.replace(b"\n", b"\r\n")).facts] == plain
    cut = parse(whole[:-3])
    last = whole.count(b"\n")
    assert max(fact.source.line for fact in cut.facts) < last
    assert "cut off" in cut.skipped[-1].reason


@pytest.mark.parametrize("text", ["hostname,serial\nn1,7\n", "name|state\na|b\n", "node0001 up\n", "JobID is a word\n"])
def test_other_tables_are_not_taken(text: str) -> None:
    assert not PARSER.recognises(text.encode())
