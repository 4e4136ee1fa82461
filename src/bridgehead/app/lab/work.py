"""Work: training and a service at site-a as Slurm jobs, copies of vaults at site-b, clients at the hub; and what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bridgehead.app import wiring
from bridgehead.app.demo.commands import QUIET
from bridgehead.app.demo.records import SUMMARY_NAME, LoadSummary
from bridgehead.app.lab import files, jobs
from bridgehead.app.lab.files import WorkOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import Epoch, RunId, SnapshotId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.switchboard import Switchboard
from bridgehead.testing.lab.lab import Lab
from bridgehead.testing.lab.record import HUB, SITE_A, SITE_B, SITES, Started
from bridgehead.testing.lab.servers import SERVICE
from bridgehead.training import open_vault

CLIENTS, COPIES = "clients", "copies"
MODEL_STEPS: Final = 60
"""The model that is served has learnt for so many steps: enough that its answers differ from chance."""
SETTLE_S: Final = 60.0
Value = TypeVar("Value")


def start_work(lab: Lab, options: WorkOptions = WorkOptions()) -> SnapshotId:
    """Start everything at site-a and the clients, write ``recovery.yaml``; the snapshot that is served.

    Raises SERVER_MISSING when this Python lacks what the jobs import, BAD_USAGE when clients run already, PORT_PERMANENT when something
    does not come up, port errors.
    """
    _check_imports("aiohttp", *(["torch"] if options.script is not None else []))
    record, folder = lab.record, lab.folder
    if lab.runs(CLIENTS):
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="start the lab's work",
            subject=str(folder.root),
            happened="it has work already",
            remedy=f"`bridgehead lab rest --dir {folder.root}` ends the clients; then new ones can be started.",
        )
    model = publish_model(lab)
    files.write_recovery_file(record, folder, options)
    ports = ports_of(lab)
    scheduler = ports.scheduler(SITE_A)
    specs = (
        files.trainer(folder, SITE_A, options),
        jobs.backend(record, folder, SITE_A, model),
    )
    for number, spec in enumerate(specs):
        scheduler.start(spec, stamp=Stamp(RunId("lab"), StepId(f"work-{number}"), 1, Epoch(1)))
    until(lambda: quietly(lambda: ports.serving(SERVICE).health(SERVICE, SITE_A).warm), f"{SERVICE} at {SITE_A} to be warm", lab)
    until(lambda: quietly(lambda: ports.training(SITE_A).progress(jobs.trainer_name(SITE_A)).step > 0), "the training's first step", lab)
    if not lab.runs(COPIES):
        lab.run(SITE_B, COPIES, jobs.copies(record, folder, SITE_A, SITE_B), env=QUIET)
    if options.rate_per_s:
        start_clients(lab, model, rate_per_s=options.rate_per_s)
    return model


def _check_imports(*names: str) -> None:
    """A job that cannot begin says so in its own log only, and the lab would wait for it in vain."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        extras = ",".join(sorted({"torch" if name == "torch" else "demo" for name in missing}))
        raise BridgeheadError(
            ErrorCode.SERVER_MISSING,
            tried="start the lab's work",
            subject=sys.executable,
            happened=f"it has no {' and no '.join(missing)}, which the jobs import",
            remedy=f"pip install 'bridgehead[{extras}]'",
        )


def publish_model(lab: Lab) -> SnapshotId:
    """The served model in site-a's vault: learnt here and now, the same every time."""
    from bridgehead.app.demo.corpus import collect
    from bridgehead.app.demo.model import VOCABULARY_SIZE, Learner
    from bridgehead.app.demo.ranks import CORPUS_CHARS
    from bridgehead.app.demo.vocabulary import Vocabulary
    from bridgehead.training.state import Capture

    vault = open_vault(lab.folder.site(SITE_A) / "vault")
    text = collect().decode("utf-8", errors="replace")[:CORPUS_CHARS]
    vocabulary = Vocabulary.build(text, size=VOCABULARY_SIZE)
    learner, tokens, capture = Learner.fresh(seed=jobs.SEED + 1), vocabulary.encode_corpus(text), Capture()
    for step in range(1, MODEL_STEPS + 1):
        learner.step(step, tokens)
    capture.take({"weights": learner.weights, "vocabulary": list(vocabulary.tokens)})
    return vault.save(capture.files(), workload=jobs.MODEL, step=MODEL_STEPS, epoch=Epoch(0), site=SITE_A).id


def start_clients(lab: Lab, model: SnapshotId, *, rate_per_s: float) -> Started:
    """Clients at the hub, as a program of the lab."""
    _summary_file(lab).unlink(missing_ok=True)  # of clients before them
    command = jobs.clients(lab.record, lab.folder, SITE_A, model, rate_per_s=rate_per_s)
    return lab.run(HUB, CLIENTS, command, env=QUIET)


def stop_clients(lab: Lab) -> LoadSummary:
    """Let every open request come to its end; what came of all of them.

    Raises BAD_USAGE when no clients run, Transient when they do not end, PORT_PERMANENT when they died and cannot say it.
    """
    lab.end_program(CLIENTS)
    try:
        return msgspec.json.decode(_summary_file(lab).read_bytes(), type=LoadSummary)
    except FileNotFoundError as error:
        raise BridgeheadError(
            ErrorCode.PORT_PERMANENT,
            tried="read what came of the requests",
            subject=str(_summary_file(lab)),
            happened="the clients had died before they could write it",
            remedy=f"See {lab.folder.log / f'{CLIENTS}-{HUB}.log'}.",
        ) from error


def _summary_file(lab: Lab) -> Path:
    return lab.folder.site(HUB) / CLIENTS / SUMMARY_NAME


def requests_so_far(lab: Lab) -> float:
    """How many requests the clients have finished, as Prometheus has it; 0 while it has nothing."""
    return sum(ports_of(lab).metrics.read(SERVICE, site).counters.get("requests_total", 0.0) for site in SITES)


def ports_of(lab: Lab) -> Switchboard:
    """The lab as its estate file connects it."""
    return wiring.connect(files.estate(lab.record, lab.folder).connections())


def until(look: Callable[[], Value], what: str, lab: Lab, *, timeout_s: float = SETTLE_S) -> Value:
    """Look until the answer is true. Raises PORT_PERMANENT when it never is."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := look()):
        if time.monotonic() > deadline_s:
            raise BridgeheadError(
                ErrorCode.PORT_PERMANENT,
                tried=f"wait for {what}",
                subject=str(lab.folder.root),
                happened=f"it did not come within {timeout_s:g} s",
                remedy=f"See the logs in {lab.folder.log} and the jobs' output below each site's folder 'jobs'.",
            )
        time.sleep(0.1)
    return value


def quietly(look: Callable[[], bool]) -> bool:
    """False while the other side does not answer yet."""
    try:
        return look()
    except PortError:
        return False
