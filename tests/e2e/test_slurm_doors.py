"""The runbook of docs/how-to/close-a-slurm-site.md empties a real Slurm cluster and, undone, opens it again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridgehead.testing.command_line import CommandLine
from bridgehead.testing.slurm_cluster import SlurmCluster
from bridgehead.testing.slurm_files import SlurmPlan

pytestmark = [pytest.mark.server("slurmctld", "munged"), pytest.mark.xdist_group("slurm-doors")]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "close-a-slurm-site.md"


@pytest.fixture
def cluster(tmp_path_factory):
    with SlurmCluster(SlurmPlan(settings={"KillWait": "2"}), tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def line(tmp_path, cluster):
    scheduler = {"driver": "slurm", "cluster": "site-a", "state": str(tmp_path / "state"), "conf": str(cluster.conf)}
    with CommandLine(tmp_path) as line:
        line.write("estate.yaml", {"estate": "lab", "sites": {"site-a": {"connections": {"scheduler": scheduler}}}})
        yield line


def runbook() -> str:
    found = re.search(r"<!-- test: runbook -->\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def begun(cluster, name):
    return bool(cluster.client("squeue", "-h", "-n", name, "-t", "RUNNING", "-o", "%i").split())


def nodes(cluster):
    return set(cluster.client("sinfo", "-h", "-o", "%T|%E").splitlines())


def test_M7_2_a_site_is_emptied_and_opened_again(line, cluster):
    for name in ("batch", "nightly"):  # the second waits for the first, which has all nodes
        cluster.client("sbatch", "-J", name, "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "exec sleep 600")
    cluster.wait(lambda: begun(cluster, "batch"), "batch does not begin")
    book = line.write("empty.yaml", runbook())
    assert line.run("runbook", "lint", book).returncode == 0
    driving = line.drive("run", "start", book, "--estate", line.estate, "--name", "empty")
    line.until("empty", lambda state: "seen empty" in str(state.steps["drain"]))
    assert begun(cluster, "batch")  # a drain ends nothing
    cluster.client("scancel", "-n", "batch")
    ended = driving.end()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert nodes(cluster) == {"drained|bridgehead empty: site-a is moved on Friday"}
    assert "ReservationName=for-the-move" in cluster.client("scontrol", "show", "reservation", "-o")
    assert not begun(cluster, "nightly")
    assert "JobHeldUser" in cluster.client("squeue", "-h", "-n", "nightly", "-o", "%r")

    undone = line.run("run", "undo", "empty")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert "ReservationName" not in cluster.client("scontrol", "show", "reservation", "-o")
    cluster.wait(lambda: begun(cluster, "nightly"), "nightly does not begin")
    assert all(row.endswith("|none") for row in nodes(cluster))


def test_J10_a_grace_that_is_too_short_stops_the_run_before_anything_is_done(line, cluster):
    book = line.write(
        "empty.yaml", runbook().replace("needs: 1 s", "needs: 3 s").replace("  - id: room\n", "  - id: room\n    needs: [grace]\n")
    )
    ended = line.run("run", "start", book, "--estate", line.estate, "--name", "empty")
    assert ended.returncode == 1
    assert "kills a job 2 s after TERM" in ended.stdout + ended.stderr
    assert nodes(cluster) == {"idle|none"}
