"""A site is lost in the middle of training and serving, comes back as a zombie, and gets its work back (M7.2, R1, R4; J01, J05 to J08)."""

from __future__ import annotations

import time
from pathlib import Path

from bridgehead.app.lab import jobs
from bridgehead.app.lab.figures import read_losses, training_figures, unmoved_losses
from bridgehead.app.lab.files import WorkOptions, trainer
from bridgehead.app.lab.work import COPIES
from bridgehead.testing.lab.lab import Lab
from bridgehead.testing.lab.record import SITE_A, SITE_B
from bridgehead.training import open_vault
from bridgehead.vault import Vault

SAVE_EVERY = 10
ZOMBIE = "zombie"
SNAPSHOT_BYTES = 4_000_000
"""Of the training, at least: weights and moments of 0.35 million numbers in 4 bytes."""


def until(look, *, within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def vault(lab: Lab, site: str) -> Vault:
    return open_vault(lab.folder.site(site) / "vault")


def losses(lab: Lab, site) -> list:
    return read_losses(jobs.losses_of(lab.folder, jobs.trainer_name(site)))


def test_a_lost_site_is_failed_over_fenced_off_and_failed_back(fresh: Lab, bridgehead, tmp_path: Path) -> None:
    root = fresh.folder.root
    here = ("--recovery", root / "recovery.yaml", "--estate", root / "estate.yaml")
    bridgehead("lab", "work", "--dir", root, "--requests-per-s", "60", "--save-every", SAVE_EVERY)
    works_since_s = time.time()
    # Slurm saves its state every few seconds. A job that it forgot is another story: tests/faults/test_slurm_faults.py.
    until(lambda: (fresh.folder.site(SITE_A) / "slurm" / "state" / "job_state").stat().st_mtime > works_since_s)
    until(lambda: (found := vault(fresh, SITE_B).newest(jobs.TRAINING)) is not None and found.step >= SAVE_EVERY)
    alive = bridgehead.json("recover", "failover", "site-a", *here, code=None)
    assert alive["error"]["code"] == "recovery-refused", "a site that is seen alive is not given up"

    lost_at_s = time.time()
    bridgehead("lab", "kill", "site-a", "--dir", root)
    assert fresh.record.namespace(SITE_A)
    last = losses(fresh, SITE_A)[-1].step
    came = bridgehead.json("recover", "failover", "site-a", *here, "--name", "failover", "--lost-for", f"{time.time() - lost_at_s:.3f} s")
    promoted = losses(fresh, SITE_B)[0].step - 1
    assert came["milestones"]["serving"] is not None
    assert 0 < came["rto_s"] < 90
    # What was said to be lost is what was lost: the report may be one step behind the log when the power fails in between.
    assert last - promoted - 1 <= came["rpo_steps"] <= last - promoted
    until(lambda: losses(fresh, SITE_B)[-1].step > last)
    figures = training_figures(fresh.folder, SITE_A, SITE_B, unmoved={})
    assert figures.lost_steps == last - promoted

    bridgehead("lab", "revive", "site-a", "--dir", root)
    wake(fresh)
    until(lambda: (newest := vault(fresh, SITE_A).newest(jobs.TRAINING)) is not None and newest.epoch == 0 and newest.step > last)
    rises = losses(fresh, SITE_B)[-1].step
    until(lambda: losses(fresh, SITE_B)[-1].step > rises)
    protected = bridgehead.json("recover", "protect", "site-a", *here)
    assert protected["mode"] == "done"
    assert protected["measured_steps"] == {"lm": came["rpo_steps"]}
    kept = [name for name in vault(fresh, SITE_A).names(jobs.TRAINING) if name.epoch == 0 and name.step > promoted]
    assert kept, "what the zombie wrote is evidence, and nothing else"
    usable = {info.id for site in (SITE_A, SITE_B) for info in vault(fresh, site).list(jobs.TRAINING)}
    assert not usable & {name.id for name in kept}
    assert not {name.id for name in kept} & {name.id for name in vault(fresh, SITE_B).names(jobs.TRAINING)}
    until(lambda: not any(one.alive for one in fresh.record.programs if one.name == ZOMBIE))

    bridgehead("lab", "rest", "--dir", root, code=1)  # without clients the service ramps, and needs no gates
    everything = sum(SNAPSHOT_BYTES for _ in vault(fresh, SITE_B).list(jobs.TRAINING))
    back = bridgehead.json("recover", "failback", "site-a", *here, "--name", "failback")
    assert back["mode"] == "done"
    assert back["rpo_steps"] == 0
    assert back["moved_bytes"] < everything, "only the difference travels"
    again = losses(fresh, SITE_A)[-1].step
    until(lambda: losses(fresh, SITE_A)[-1].step > again + 5)
    same = unmoved_losses(tmp_path / "unmoved", until=again)
    for line in [*losses(fresh, SITE_A), *losses(fresh, SITE_B)]:
        assert line.step > again or line.loss == same[line.step], line


def wake(lab: Lab) -> None:
    """The old training, started at the returned site by somebody who knows of nothing, as a boot script would."""
    lab.end_program(COPIES)
    lab.run(SITE_B, COPIES, jobs.copies(lab.record, lab.folder, SITE_A, SITE_B))
    spec = trainer(lab.folder, SITE_A, WorkOptions(pace_per_s=0.0, save_every=SAVE_EVERY))
    command = [word if "losses" not in word or word.startswith("--") else word + ".zombie" for word in spec.command]
    control = str(lab.folder.site(SITE_A) / "control" / ZOMBIE)
    lab.run(SITE_A, ZOMBIE, command, env={**spec.env, "BRIDGEHEAD_CONTROL": control})
