"""Nothing of a lab is left, however its start ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridgehead.testing.lab.leftovers import leftovers


def ids(folder: Path) -> str:
    return str(json.loads((folder / "lab.json").read_text())["id"])


@pytest.mark.parametrize("after", ["line-site-b", "prometheus", "slurmctld"])
def test_up_is_killed_in_the_middle_and_down_finds_everything(after: str, short: Path, bridgehead) -> None:
    folder = short / f"k{len(after)}"
    process = subprocess.Popen(bridgehead.line("lab", "up", "--dir", folder), env=bridgehead.env, stdout=subprocess.DEVNULL)
    deadline_s = time.monotonic() + 30
    while not (folder / "lab.json").exists() or f'"{after}"' not in _commands(folder):
        assert time.monotonic() < deadline_s
        assert process.poll() is None, "it came to its end before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lab_id = ids(folder)
    assert lab_id in str(bridgehead.json("lab", "up", "--dir", folder, code=2))
    assert bridgehead.json("lab", "down", "--dir", folder)["ended"] > 0
    assert leftovers(lab_id) == []
    assert not folder.exists()
    assert bridgehead.json("lab", "down", "--dir", folder)["ended"] == 0


def _commands(folder: Path) -> str:
    """Names of what runs by now: recorded, or seen in the folder's logs before it is recorded."""
    logs = " ".join(f'"{path.stem}"' for path in (folder / "log").glob("*.log"))
    slurm = " ".join('"slurmctld"' for _ in folder.glob("site-*/slurm/log/slurmctld.out"))
    return logs + slurm + ('"prometheus"' if (folder / "log" / "prometheus-hub.log").exists() else "")


def test_of_two_ups_at_once_one_is_refused_and_names_the_other(short: Path, bridgehead) -> None:
    folder = short / "two"
    first, second = (
        subprocess.Popen(bridgehead.line("lab", "up", "--dir", folder, "--json"), env=bridgehead.env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    outputs = [process.communicate(timeout=100)[0] for process in (first, second)]
    lab_id = ids(folder)
    bridgehead("lab", "down", "--dir", folder)
    assert leftovers(lab_id) == []
    codes = [process.returncode for process in (first, second)]
    assert sorted(codes) in ([0, 2], [0, 4]), outputs
    winner, loser = (first, outputs[1]) if codes[0] == 0 else (second, outputs[0])
    assert str(winner.pid) in loser


def test_what_is_missing_is_said_with_the_command_that_brings_it(short: Path, bridgehead, tmp_path: Path) -> None:
    script = f"from bridgehead.testing.lab import needs\nneeds.PATH = {str(tmp_path)!r}\nneeds.require()"
    done = subprocess.run([sys.executable, "-c", script], env=bridgehead.env, capture_output=True, text=True, check=False)
    assert "apt-get install haproxy iproute2 munge nftables" in done.stderr
