"""The planned move between two real Slurm clusters: nothing is lost, no request fails (M7.1, M7.3, M10.4; J05, J14)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bridgehead.app.lab import jobs
from bridgehead.app.lab.figures import read_losses, training_figures, unmoved_losses
from bridgehead.app.lab.work import requests_so_far
from bridgehead.testing.lab.lab import Lab
from bridgehead.testing.lab.record import SITE_A, SITE_B

LEAST_REQUESTS = 10_000
AFTER = 40
"""Steps at the target whose losses are compared."""


def until(look: Callable[[], bool], *, within_s: float = 90.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_training_and_service_go_over_between_two_slurm_clusters_without_a_loss(fresh: Lab, bridgehead, tmp_path: Path) -> None:
    root = fresh.folder.root
    here = ("--recovery", root / "recovery.yaml", "--estate", root / "estate.yaml")
    before = bridgehead.json("lab", "work", "--dir", root, "--requests-per-s", "280")["places"]
    assert before["site-a"]["jobs"] == {"lm-site-a": "running", "chat-site-a": "running"}
    assert before["site-b"]["jobs"] == {}
    came = bridgehead.json("recover", "move", "site-a", *here, "--name", "move")
    assert came["mode"] == "done", came
    assert came["rpo_steps"] == 0
    log_of_target = jobs.losses_of(fresh.folder, jobs.trainer_name(SITE_B))
    last = read_losses(log_of_target)[0].step + AFTER
    until(lambda: read_losses(log_of_target)[-1].step >= last and requests_so_far(fresh) >= LEAST_REQUESTS)
    after = bridgehead.json("lab", "status", "--dir", root)["places"]
    assert after["site-a"]["jobs"] == {}
    assert after["site-b"]["jobs"] == {"lm-site-b": "running", "chat-site-b": "running"}
    summary = bridgehead.json("lab", "rest", "--dir", root)
    assert summary["sent"] >= LEAST_REQUESTS
    assert (summary["failed"], summary["wrong"], summary["cut"]) == (0, 0, 0)

    figures = training_figures(fresh.folder, SITE_A, SITE_B, unmoved=unmoved_losses(tmp_path / "unmoved", until=last))
    assert figures.lost_steps == 0
    assert figures.compared >= last, "every step's loss is held against that of a training that was never moved"
    assert figures.different == 0
    assert abs(came["lost_compute_s"] - figures.lost_compute_s) < 0.5
