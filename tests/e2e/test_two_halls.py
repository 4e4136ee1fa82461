"""examples/two-halls through the commands: discovery of both halls, and what follows from the two planted faults (M2, M5.3)."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
HALLS = Path(__file__).resolve().parents[2] / "examples" / "two-halls"
SITES = ("--site", f"old-hall={HALLS / 'old-hall.tar.gz'}", "--site", f"new-hall={HALLS / 'new-hall.tar.gz'}")
DECLARED = ("--declared", str(HALLS / "declared.yaml"), "--declared", str(HALLS / "cords.yaml"))

PLANTED = {"INT-ADAPTERS new-hall/node:new00042", "INT-NVLINKS new-hall/node:new00017"}
FOLLOWS = {
    "TOP-RAILS new-hall", "FAB-BANDWIDTH new-hall/fabric:infiniband",  # an adapter less is less network for the GPUs of its node and rack
    "GEN-BALANCE new-hall", "TOP-NODES new-hall",  # both nodes are unlike the others, and unlike those that are left
}  # fmt: skip
OF_THE_PLAN = {
    "COOL-LOOP-LOSS new-hall/loop:air",
    "COOL-LOOP-LOSS old-hall/loop:air",
    "RSV-CUT-OVER new-hall",
    "RSV-CUT-OVER workload:pretrain",
    "RSV-INTERVAL workload:pretrain",
}
"""Warnings that have nothing to do with the faults: one cooling loop a hall, the interval of checkpoints, the budget of lost compute."""


def run(*words: str, expected: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == expected, done.stdout[-2000:] + done.stderr[-2000:]
    return done


@pytest.fixture(scope="session")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The estate of both halls; never written to."""
    found = tmp_path_factory.mktemp("two-halls") / "estate.yaml"
    run("discover", *SITES, *DECLARED, "-o", str(found), expected=0)
    return found


def judged(estate: Path, *words: str) -> dict[str, Any]:
    done = run("assess", str(estate), "--policy", str(HALLS / "policy.yaml"), "--json", *words, expected=1)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def named(document: dict[str, Any], **wanted: str) -> set[str]:
    found = [one for one in document["findings"] if all(one[key] == value for key, value in wanted.items())]
    return {f"{one['code']} {one['subject']}" for one in found}


def test_only_the_planted_faults_and_what_follows_from_them_fail(estate: Path) -> None:
    found = judged(estate)
    assert (found["verdict"], found["source"], found["target"]) == ("no-go", "old-hall", "new-hall")
    assert named(found, status="unknown") == set()
    assert named(found, status="fail", severity="blocking") == PLANTED | {one for one in FOLLOWS if one.startswith(("TOP-RAILS", "FAB"))}
    warned = {one for one in named(found, status="fail", severity="warning") if not one.startswith("COOL-AIR-RACK ")}
    assert warned == {one for one in FOLLOWS if one.startswith(("GEN", "TOP-NODES"))} | OF_THE_PLAN
    texts = {f"{one['code']} {one['subject']}": one["text"] for one in found["findings"]}
    assert "missing: mlx5_6" in texts["INT-ADAPTERS new-hall/node:new00042"]
    assert texts["INT-NVLINKS new-hall/node:new00017"].startswith("GPU 3 (0000:61:00.0) has 17 of 18 NVLinks")


def test_order_of_sites_and_of_captured_files_changes_no_byte(estate: Path, tmp_path: Path) -> None:
    """The new hall comes first, and its hosts and files one by one, from the last to the first."""
    captures = tmp_path / "captures"
    with tarfile.open(HALLS / "new-hall.tar.gz") as archive:
        archive.extractall(captures, filter="data")
    found_at = [f"new-hall={path}" for path in sorted(captures.iterdir(), reverse=True)]
    other = tmp_path / "estate.yaml"
    words = [word for path in found_at for word in ("--site", path)]
    run("discover", *words, *SITES[:2], *DECLARED, "-o", str(other), expected=0)
    assert other.read_bytes() == estate.read_bytes()


def test_what_if_a_breaker_is_smaller_names_its_circuit(estate: Path) -> None:
    found = judged(estate, "--what-if", "sites.new-hall.circuits.R0001-a.current=32 A")
    circuit = "PWR-CIRCUIT new-hall/circuit:R0001-a"
    assert circuit in named(found, status="fail") - named(found["before"], status="fail")
    (text,) = [one["text"] for one in found["findings"] if f"{one['code']} {one['subject']}" == circuit]
    assert "circuit R0001-a carries" in text
    assert named(found, code="PWR-CIRCUIT", status="fail") == {circuit}
