"""Trainer: a real training job of the demo, ``python -m bridgehead.app.demo.trainer``.

It differs from any other script that uses ``bridgehead.training`` only in its pace (so that two cores can also carry traffic), in its loss
log, and in that it can be told to ignore orders, as a trainer would that knows nothing of them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bridgehead.training import Session, SessionOptions, open_vault
from bridgehead.training.options import required

if TYPE_CHECKING:  # numpy is imported after the number of its threads is set, see main
    from bridgehead.app.demo.model import Learner


class LossLine(msgspec.Struct, frozen=True):
    """One line of the loss log. ``loss`` in nats per token; ``at_s`` when the step was completed; ``site`` where."""

    step: int
    loss: float
    at_s: float
    site: str


def train(session: Session, *, site: str, seed: int, until: int, pace_per_s: float, losses: Path, corpus: Path | None, deaf: bool) -> None:
    """Train up to step ``until``, or until it is told to stop. ``deaf`` also ignores fences; SIGTERM is obeyed by everyone."""
    from bridgehead.app.demo.corpus import collect, read
    from bridgehead.app.demo.model import VOCABULARY_SIZE, Learner
    from bridgehead.app.demo.vocabulary import Vocabulary

    text = read(corpus) if corpus is not None else collect().decode("utf-8", errors="replace")
    vocabulary = Vocabulary.build(text, size=VOCABULARY_SIZE)
    tokens = vocabulary.encode_corpus(text)
    state = session.restore()
    learner: Learner = Learner.fresh(seed=seed) if state is None else Learner.from_state(state, seed=seed)
    losses.parent.mkdir(parents=True, exist_ok=True)
    with losses.open("ab", buffering=0) as log:
        for step in paced(session.steps(until), pace_per_s):
            loss = learner.step(step, tokens)
            log.write(msgspec.json.encode(LossLine(step, loss, time.time(), site)) + b"\n")
            if session.should_checkpoint(step):
                session.save(step, {**learner.state(), "vocabulary": list(vocabulary.tokens)}, context={"loss": loss, "seed": seed})
            if session.should_stop() and not (deaf and session.fenced is not None and not session.stop_asked):
                break


def paced(steps: Iterator[int], pace_per_s: float) -> Iterator[int]:
    """At most ``pace_per_s`` steps a second (0: as fast as it goes). The first comes at once; lost time is not caught up."""
    due_s = time.monotonic()
    for step in steps:
        if pace_per_s:
            time.sleep(max(0.0, due_s - time.monotonic()))
            due_s = max(due_s, time.monotonic() - 1 / pace_per_s) + 1 / pace_per_s
        yield step


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line; vault, workload, site and the like come from the environment (``SessionOptions.from_env``)."""
    parser = argparse.ArgumentParser(prog="bridgehead.app.demo.trainer", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until", type=int, required=True, help="number of the last step")
    parser.add_argument("--pace", type=float, default=20.0, help="steps a second; 0 for flat out")
    parser.add_argument("--losses", type=Path, required=True, help="JSON lines: step, loss, at_s, site")
    parser.add_argument("--corpus", type=Path, help="folder with corpus.txt; without it the text is collected afresh")
    parser.add_argument("--ignore-orders", action="store_true", help="neither hold when asked nor stop for a fence")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Every step is reported: its steps are so short that a pause between reports would leave some untold when it is killed.
    options = msgspec.structs.replace(SessionOptions.from_env(os.environ), report_every_s=0.0, listen=not asked.ignore_orders)
    with Session(open_vault(Path(required(os.environ, "BRIDGEHEAD_VAULT"))), options) as session:
        train(
            session,
            site=options.site,
            seed=asked.seed,
            until=asked.until,
            pace_per_s=asked.pace,
            losses=asked.losses,
            corpus=asked.corpus,
            deaf=asked.ignore_orders,
        )


if __name__ == "__main__":
    main()
