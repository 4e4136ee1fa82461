"""Three drills in the lab, as docs/how-to/run-a-drill.md gives them, leave nothing: on Slurm, beside work that goes on (R13)."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from bridgehead.app.lab import jobs
from bridgehead.app.lab.figures import read_losses
from bridgehead.testing.lab.record import SITE_A, SITE_B, LabFolder
from bridgehead.training import open_vault

DRILLS = ("quiet", "killed", "twice")


def around(folder: LabFolder, bridgehead) -> dict[str, object]:
    """Everything beside a bubble that must be as it was. Of the vault: not what is copied meanwhile, and not the notes of drills."""
    place, slurm = folder.site(SITE_B), {**os.environ, "SLURM_CONF": str(folder.site(SITE_B) / "slurm" / "slurm.conf")}
    queue = ["squeue", "--noheader", "--format=%j", "--states=PENDING,RUNNING,SUSPENDED,COMPLETING"]
    pids = subprocess.run(["ip", "netns", "pids", folder.require().namespace(SITE_B)], capture_output=True, text=True, check=True).stdout
    vault = open_vault(place / "vault")
    return {
        "processes": sorted(filter(None, map(command_of, pids.split()))),
        "namespaces": sorted(path.name for path in Path("/run/netns").glob(f"bh{folder.require().id}*")),
        "namespaces of drills": [path.name for name in DRILLS for path in Path("/run/netns").glob(f"bh-{name}-*")],
        "jobs": subprocess.run(queue, env=slurm, capture_output=True, text=True, check=True).stdout.split(),
        "records": sorted(str(path.relative_to(place)) for path in (place / "jobs").glob("[!.]*/**/*")),
        "orders": sorted(path.name for path in (place / "control").glob("[!.]*")),
        "leases": [run["run"] for run in bridgehead.json("run", "list")["runs"] if run["driver"]],
        "fences": [*vault.place.objects.blobs.list("fences/")],
        "snapshots of another writer": [name.id for name in vault.names(jobs.TRAINING) if name.epoch],
        "logs": sorted(path.name for path in folder.log.iterdir()),
        "weights": json.loads((folder.root / "hub" / "weights.json").read_text())
        if (folder.root / "hub" / "weights.json").exists()
        else None,
        "bubbles": sorted(path.name for path in (bridgehead.home / "drills").glob("*") if path.name != "reports"),
    }


def command_of(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def until(look, *, within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_R13_three_drills_in_the_lab_leave_nothing(page, bridgehead, short: Path) -> None:
    commands = page("run-a-drill.md")
    drills = [command for command in commands.commands if any(f"--name {name}" in command for name in DRILLS)]
    assert len(drills) == 3
    begin = commands.commands.index(drills[0])
    for command in commands.commands[:begin]:
        commands.run(command)
    folder = LabFolder(short / "page" / "lab")
    until(lambda: open_vault(folder.site(SITE_B) / "vault").newest(jobs.TRAINING) is not None, within_s=30.0)
    before, steps = around(folder, bridgehead), len(read_losses(jobs.losses_of(folder, jobs.trainer_name(SITE_A))))

    for command in drills:
        commands.run(command)
        until(lambda: around(folder, bridgehead)["processes"] == before["processes"], within_s=10.0)  # slurmstepd outlives its job a little
        assert around(folder, bridgehead) == before

    losses = read_losses(jobs.losses_of(folder, jobs.trainer_name(SITE_A)))
    assert len(losses) > steps, "production trains on"
    assert [line.step for line in losses] == list(range(1, len(losses) + 1)), "and no drill wrote into its log"
    reports = [json.loads((bridgehead.home / "drills" / "reports" / f"{name}.json").read_text())["report"] for name in DRILLS]
    for report in reports:
        assert 0 < report["rto_s"] < 60
        assert 0 <= report["rpo_s"] < 60
        assert report["rpo_steps"] >= 0
        assert report["rpo_gpu_hours"] == pytest.approx(report["rpo_s"] * jobs.RANKS / 3600)
    for command in commands.commands[begin + len(drills) :]:
        commands.run(command)
