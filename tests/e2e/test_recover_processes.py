"""`bridgehead recover` on real processes: a whole site is killed, goes over, returns as a zombie, and is gone back to (J05-J08; R1, R2)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.demo.lost_site import TRAINER, LostSite
from bridgehead.app.demo.places import SOURCE, TARGET, WORKLOAD

pytestmark = pytest.mark.server("haproxy")


class Verbs:
    """The command line with the files of the two sites."""

    def __init__(self, lab: LostSite) -> None:
        self._lab = lab
        self.home = lab.places.root / "home"

    def __call__(self, *words: str, code: int = 0) -> dict:
        files = ["--recovery", str(self._lab.recovery), "--estate", str(self._lab.estate)]
        command = [sys.executable, "-m", "bridgehead.cli.main", "recover", *words, *files, "--home", str(self.home), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stderr[-3000:]
        return json.loads(done.stdout) if done.stdout else {}


def losses_at(lab: LostSite, site: str) -> list[int]:
    """Steps that the trainer of a site logged, in their order."""
    lines = lab.places.losses(TRAINER[site]).read_bytes().splitlines()
    return [msgspec.json.decode(line)["step"] for line in lines if line.endswith(b"}")]


def test_site_loss_zombie_protection_and_failback(tmp_path: Path) -> None:
    with LostSite(tmp_path / "lab") as lab:
        verbs, scene = Verbs(lab), lab.scene
        scene.until(lambda: lab.copied_step() >= 40, "copies at site-b", timeout_s=60.0)

        refused = verbs("failover", "site-a", code=1)
        assert refused["error"]["code"] == "recovery-refused"
        assert "is alive" in refused["error"]["happened"]

        lab.kill_site_a()
        killed_s = time.time()
        last, copied = lab.last_step_at_a(), lab.copied_step()
        planned = verbs("failover", "site-a", "--plan-only")
        stated = planned["rpo_steps"]
        # A trainer that is killed between its log and its report has reported one step less than it did: nobody can know of that one.
        assert last - copied - 1 <= stated <= last - copied
        assert f"goes on from step {copied}" in planned["text"]
        came = verbs("failover", "site-a", "--lost-for", f"{time.time() - killed_s:.3f} s")
        assert came["rpo_steps"] == stated
        assert came["rpo_exact"]
        assert came["milestones"]["protected"] is None
        assert 0 < came["rto_s"] < 60
        assert losses_at(lab, TARGET)[0] == copied + 1

        lab.start_blobs()
        lab.start_trainer(SOURCE, deaf=True)
        scene.until(lambda: len(losses_at(lab, SOURCE)) > last + 3, "the zombie to compute in vain")
        ended = verbs("protect", "site-a")
        assert ended["run"] == came["run"]
        assert ended["mode"] == "done"
        assert ended["measured_steps"] == {WORKLOAD: stated}
        assert not scene.runs(SOURCE, TRAINER[SOURCE])
        newest = lab.vaults.newest(WORKLOAD, site=SOURCE)
        assert (newest.epoch, newest.site) == (1, TARGET)

        back = verbs("failback", "site-a", "--workload", WORKLOAD)
        assert back["mode"] == "done"
        assert back["rpo_steps"] == 0
        assert back["lost_compute_s"] < 10
        assert losses_at(lab, TARGET)[-1] + 1 in losses_at(lab, SOURCE)  # it went on where it was held
