"""scontrol show: texts with blanks, GRES with suffixes, units, and what is none (M2, M5.2, D16, D17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.discovery.hostlist import Hostlists, expand
from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers.scontrol import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.discovery.slurm import Gpus, amount_in, duration_s, gpus_in, size_bytes
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "slurm-text"
GIB = 2**30


def data(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def parse(text: bytes | str) -> Parsed:
    return PARSER.parse(Capture("f", text if isinstance(text, bytes) else text.encode()))


def values(parsed: Parsed, subject: str) -> dict[str, object]:
    return {view.attribute: view.value for view in merge(parsed.facts) if view.subject == subject and view.status is Status.KNOWN}


def test_D16_node_with_gpus_and_texts_with_blanks() -> None:
    parsed = parse(data("scontrol_show_nodes.txt"))
    node = values(parsed, "node:lab-07")
    assert node["scheduler-state"] == "MIXED"
    assert (node["scheduler-gpu-count"], node["scheduler-gpu-type"], node["scheduler-gpus-used"]) == (4, "v100", 3)
    assert node["memory"] == 385000 * 2**20
    assert node["scheduler-memory-used"] == 96 * GIB  # AllocMem 98304 and 96G are one
    assert node["kernel-build"] == "Linux 5.4.0-70-generic #78-Ubuntu SMP Fri Mar 19 13:29:52 UTC 2021"
    assert (node["scheduler-cpu-count"], node["scheduler-cpus-used"], node["cpu-load"]) == (32, 24, 11.42)
    assert (node["partitions"], node["features"], node["features-active"]) == (("day", "night"), ("ib", "lab"), ("lab",))
    assert node["boot-time-local"] == "2021-04-02T08:00:01"
    assert "power-draw" not in node  # CurrentWatts=0 is no measurement
    assert "memory-free" not in node
    assert not [view for view in merge(parsed.facts) if view.status is Status.CONFLICT]


def test_D16_drained_node_without_gpus_and_a_reason_with_blanks_brackets_and_a_key() -> None:
    node = values(parse(data("scontrol_show_nodes.txt")), "node:lab-08")
    assert node["scheduler-state"] == "DOWN+DRAIN+NOT_RESPONDING"
    assert (node["scheduler-gpu-count"], node["scheduler-gpus-used"]) == (0, 0)
    assert node["scheduler-reason"] == "fan 3 [rear] is loud, State=IDLE soon?"
    assert (node["scheduler-reason-by"], node["scheduler-reason-at-local"]) == ("ops", "2021-04-05T16:20:00")
    assert "cpu-load" not in node
    assert "boot-time-local" not in node


def test_job_with_a_name_like_a_record_and_what_it_is_allocated() -> None:
    job = values(parse(data("scontrol_show_job.txt")), "job:8801")
    assert job["name"] == "train large, lr=3e-4 JobState=PENDING"
    assert (job["state"], job["user"], job["account"], job["partition"]) == ("RUNNING", "mira", "vision", "day")
    assert (job["gpu-count"], job["gpu-type"], job["gpus-per-node"], job["node-count"]) == (16, "v100", 4, 4)
    assert job["nodes"] == ("lab-01", "lab-02", "lab-03", "lab-04")
    assert (job["time-limit"], job["run-time-seen"]) == (172800, 93630)
    assert (job["memory"], job["cpu-count"]) == (1400 * GIB, 128)
    assert (job["requeue"], job["restarts"], job["depends-on"]) == (True, 2, ())
    assert (job["array-job"], job["array-task"]) == ("8800", "3")
    assert job["command"] == "/home/mira/my runs/train.sh --tag NodeList=x"
    assert job["working-directory"] == "/home/mira/my runs"


def test_M5_2_job_that_waits_for_others() -> None:
    parsed = parse(data("scontrol_show_job.txt"))
    job = values(parsed, "job:8810")
    assert job["depends-on"] == ("afterok:8801_3", "afterany:8802", "afterany:8803")
    assert (job["gpu-count"], job["gpus-per-node"], job["node-count"], job["time-limit"]) == (4, 2, 2, "unlimited")
    assert "nodes" not in job
    assert "start-time-local" not in job
    assert [skipped.line for skipped in parsed.skipped] == [1]  # the prompt


def test_partitions_with_limits_and_grace() -> None:
    parsed = parse(data("scontrol_show_partition.txt"))
    day, night = values(parsed, "partition:day"), values(parsed, "partition:night")
    assert (day["state"], day["default"], day["time-limit"], day["time-limit-default"]) == ("UP", True, 172800, 3600)
    assert (day["grace"], day["preempt-mode"], day["priority-tier"]) == (120, "REQUEUE", 10)
    assert (day["node-count"], day["cpu-count"], day["gpu-count"], len(day["nodes"])) == (8, 256, 28, 8)
    assert day["accounts"] == ("speech", "vision")
    assert (night["state"], night["time-limit"], night["nodes"]) == ("DOWN", "unlimited", ("lab-07", "lab-08"))
    assert "time-limit-default" not in night
    assert "gpu-count" not in night  # without gres/gpu in the TRES nobody says that there are none


@pytest.mark.parametrize("name", ["scontrol_show_nodes.txt", "scontrol_show_job.txt", "scontrol_show_partition.txt"])
def test_line_ends_and_tabs_change_nothing(name: str) -> None:
    plain = [(fact.subject, fact.attribute, fact.value) for fact in parse(data(name)).facts]
    for other in (data(name).replace(b"\n", b"\r\n"), data(name).replace(b"\n   ", b"\n\t")):
        assert [(fact.subject, fact.attribute, fact.value) for fact in parse(other).facts] == plain


def test_one_line_for_each_node_gives_the_same() -> None:
    several = data("scontrol_show_nodes.txt").decode()
    one = "\n".join(" ".join(line.strip() for line in record.splitlines()).strip() for record in several.split("\n\n") if record.strip())
    said = [{(fact.subject, fact.attribute, fact.value) for fact in parse(text).facts} for text in (several, one + "\n")]
    assert said[0] == said[1]


def test_a_cut_value_is_no_value() -> None:
    parsed = parse("NodeName=n1 Arch=x86_64 CoresPerSocket=8\n   Gres=gpu:a100:16 RealMemory=25786")
    assert values(parsed, "node:n1") == {
        "architecture": "x86_64",
        "scheduler-cores-per-socket": 8,
        "scheduler-gpu-count": 16,
        "scheduler-gpu-type": "a100",
    }
    assert "may be cut in RealMemory" in parsed.skipped[0].reason


def test_gres_and_tres_that_differ_are_a_conflict() -> None:
    parsed = parse("NodeName=n1 Arch=x86_64 CoresPerSocket=8\n   Gres=gpu:a100:8\n   CfgTRES=cpu=8,gres/gpu=7\n")
    [view] = [view for view in merge(parsed.facts) if view.attribute == "scheduler-gpu-count"]
    assert view.status is Status.CONFLICT


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:8(S:0-3)", Gpus(8)),
        ("gpu:k80:4(IDX:0-3)", Gpus(4, ("k80",))),
        ("gpu:a100:8(S:0,1),mps:400,shard:32", Gpus(8, ("a100",))),
        ("cpu=8,mem=4G,gres/gpu=4,gres/gpu:a100=4,gres/gpumem=0", Gpus(4, ("a100",))),
        ("gpu:a100:2(IDX:0,3),gpu:t4:1(IDX:4)", Gpus(3, ("a100", "t4"))),
        ("gpu:tesla:no_consume:2", Gpus(2, ("tesla",))),
        ("(null)", Gpus(0)),
        ("gpu:a100", None),
        ("gpu:nvidia_h100_80gb_h", None),
        ("gpu", None),
        ("gpu:a100:8:9:7", None),
    ],
)
def test_D17_gres(text: str, gpus: Gpus | None) -> None:
    assert gpus_in(text) == gpus


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Node[201,205]", ("Node201", "Node205")),
        ("n[008-011],m1", ("n008", "n009", "n010", "n011", "m1")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("a[1,[3-4],b[5-6]]", ("a1", "a3", "a4", "ab5", "ab6")),
        ("[1101-1102]", ("1101", "1102")),
        ("sw.1.[9-10]", ("sw.1.9", "sw.1.10")),
    ],
)
def test_host_lists(text: str, names: tuple[str, ...]) -> None:
    assert expand(text).names == names


@pytest.mark.parametrize(
    "text", ["", "a,,b", "a[1-", "a]", "a[9-1]", "a[1-2-3]", "a[0-99999999]", "a b", "[1-300]" * 9, "[" * 99 + "]" * 99]
)
def test_host_lists_that_are_refused_with_a_reason(text: str) -> None:
    assert expand(text).names == ()
    assert expand(text).fault


def test_host_lists_of_one_capture_are_bounded_together() -> None:
    lists = Hostlists(size_bytes=0)
    assert [bool(lists.expand(f"n{number}[1-90000]").names) for number in range(4)] == [True, True, False, False]
    assert lists.expand("n0[1-90000]").names[-1] == "n090000"  # seen before


def test_values_and_sentinels() -> None:
    assert size_bytes("192G") == size_bytes("196608M") == size_bytes("196608")
    assert (size_bytes("62.50G"), size_bytes("4Gn"), size_bytes("N/A")) == (62.5 * GIB, 4 * GIB, None)
    assert [duration_s(text) for text in ("2-00:00:00", "30:00", "1-12", "00:01.234", "UNLIMITED", "5", "1:99:00")] == [
        *(172800, 1800, 129600, 1),
        *(None, None, None),
    ]
    assert [amount_in(value).value for value in (5, 4294967294, 18446744073709551614, None, "N/A", True, -1, 65534)] == [
        5,
        *[None] * 6,
        65534,
    ]
    assert amount_in(65534, narrow=True).value is None
    assert amount_in({"set": True, "infinite": False, "number": 7}).value == 7
    assert amount_in({"set": False, "infinite": False, "number": 0}).value is None
    assert amount_in({"set": True, "infinite": True, "number": 0}).unlimited
