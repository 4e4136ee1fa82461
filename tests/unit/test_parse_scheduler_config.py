"""scontrol show config: how long a job has before it is killed, with the units that the tool prints (M5.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.parsers import parsers
from bridgehead.discovery.parsers.scontrol_config import PARSER
from bridgehead.discovery.parsing import Capture
from bridgehead.discovery.recognise import recognised_by
from bridgehead.model.fact import Fact, Status

CONFIG = (Path(__file__).resolve().parents[1] / "fixtures/discovery/slurm-text/scontrol_show_config.txt").read_bytes()


def facts(data: bytes) -> dict[str, Fact]:
    return {fact.attribute: fact for fact in PARSER.parse(Capture("f", data)).facts}


def test_times_are_seconds_whatever_unit_the_tool_prints() -> None:
    found = facts(CONFIG)
    assert {fact.subject for fact in found.values()} == {"slurm:tern"}
    times = ("kill-wait", "over-time-limit", "unkillable-step-timeout", "preempt-exempt-time", "slurmd-timeout", "inactive-limit")
    assert [(found[name].value, found[name].unit) for name in times] == [
        (45, "s"),
        (180, "s"),
        (120, "s"),
        (600, "s"),
        (300, "s"),
        (0, "s"),
    ]
    assert (found["slurm-version"].value, found["preempt-mode"].value) == ("23.11.4", "GANG,SUSPEND")
    assert found["controllers"].value == ("tern-ctl1", "tern-ctl2")
    assert found["kill-wait"].source.line == 12


def test_what_is_no_time_is_unknown_with_what_was_printed() -> None:
    found = facts(CONFIG.replace(b"45 sec", b"(null)").replace(b"3 min", b"UNLIMITED").replace(b"120 sec", b"120"))
    assert (found["kill-wait"].status, found["kill-wait"].value) == (Status.UNKNOWN, None)
    assert "(null)" in found["kill-wait"].note
    assert found["over-time-limit"].value == "unlimited"
    assert found["unkillable-step-timeout"].status is Status.UNKNOWN, "a number without a unit"
    assert found["prolog-epilog-timeout"].status is Status.UNKNOWN, "65534 is Slurm's word for no value"
    assert found["epilog-message-time"].status is Status.UNKNOWN


def test_variants_say_the_same_and_a_cut_line_says_nothing() -> None:
    assert {name: fact.value for name, fact in facts(CONFIG.replace(b"\n", b"\r\n")).items()} == {
        name: fact.value for name, fact in facts(CONFIG).items()
    }
    tabs = CONFIG.replace(b"KillWait                = 45", b"KillWait\t= 45")
    assert facts(tabs)["kill-wait"].value == 45
    cut = CONFIG[: CONFIG.index(b"45 sec") + 1]
    assert "kill-wait" not in facts(cut)
    assert facts(CONFIG.replace(b"ClusterName             = tern\n", b""))["kill-wait"].subject == "slurm:?"


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        (CONFIG, ["scontrol-config"]),
        (CONFIG.split(b"\n", 1)[1], ["scontrol-config"]),
        (b"$ scontrol show config\n" + CONFIG, ["scontrol-config"]),
        (b"ClusterName=tern\nKillWait=45\nSlurmctldHost=tern-ctl1\nNodeName=g[1-4] Gres=gpu:8\n", []),
        (b"PartitionName=main\n   AllowGroups=ALL\n   GraceTime=0 OverTimeLimit=NONE\n", ["scontrol"]),
    ],
)
def test_it_is_told_from_other_output_of_slurm(text: bytes, tools: list[str]) -> None:
    assert [parser.tool for parser in recognised_by(text, parsers())] == tools
