"""Ranks: the demo's training as a job of several processes, ``python -m bridgehead.app.demo.ranks --ranks 2``, for a scheduler's node.

Each rank has a batch of its own; gradients are averaged, and each rank keeps the optimizer's state of its share of the weights alone and
saves that share itself (as with ZeRO or FSDP). So a snapshot is made by all ranks together, and a rank that dies leaves none.
The first rank takes the orders; the others do what it says.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridgehead.app.demo.trainer import LossLine, paced
from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.training import Session, SessionOptions, open_vault
from bridgehead.training.options import required
from bridgehead.training.state import Capture, decode
from bridgehead.vault import Vault
from bridgehead.vault.sharing import Shard, Share

if TYPE_CHECKING:  # numpy is imported after the number of its threads is set, see main
    import numpy as np
    from numpy.typing import NDArray

    from bridgehead.app.demo.model import Learner, Weights

SNAPSHOT: Final = "snapshot"
CORPUS_CHARS: Final = 1_000_000
"""Enough to learn from, and read in a moment: what a lost site costs shall not be reading text."""


class Rank:
    """One of two or more processes: its number, its learner, and the pipes to the others (of the first one: to all)."""

    def __init__(self, number: int, count: int, pipes: Sequence[Connection], *, seed: int, vault: Vault) -> None:
        from bridgehead.app.demo.corpus import collect
        from bridgehead.app.demo.model import VOCABULARY_SIZE, Learner
        from bridgehead.app.demo.vocabulary import Vocabulary

        self.number, self.count, self.seed = number, count, seed
        self._pipes, self._vault = pipes, vault
        text = collect().decode("utf-8", errors="replace")[:CORPUS_CHARS]
        self.tokens: NDArray[np.int32] = Vocabulary.build(text, size=VOCABULARY_SIZE).encode_corpus(text)
        self.learner: Learner = Learner.fresh(seed=seed)
        self.mine = sorted(self.learner.weights)[number::count]

    def load(self, snapshot: SnapshotId) -> None:
        """All weights, and the optimizer's state of the share that is this rank's. Raises Damaged, port errors."""
        files = self._vault.load(snapshot)
        for number in range(self.count):
            part = decode({path.partition("/")[2]: data for path, data in files.items() if path.startswith(f"rank-{number}/")})
            for kind, target in (("weights", self.learner.weights), ("m", self.learner.m), ("v", self.learner.v)):
                for name, array in part[kind].items():
                    target[name][...] = array

    def step(self, number: int) -> float:
        """One step of all ranks together; the mean of their losses, the same on each."""
        everyone: list[tuple[float, Weights]] = self._exchange(self.learner.gradients(number, self.tokens, rank=self.number))
        mean: Weights = {}
        for name in self.mine:
            total = everyone[0][1][name].copy()
            for _, gradients in everyone[1:]:
                total += gradients[name]
            total /= total.dtype.type(self.count)
            mean[name] = total
        self.learner.update(number, mean)
        shares: list[Weights] = self._exchange({name: self.learner.weights[name] for name in self.mine})
        for share in shares:
            for name, array in share.items():
                self.learner.weights[name][...] = array
        return sum(loss for loss, _ in everyone) / self.count

    def store(self, step: int, epoch: Epoch, options: SessionOptions) -> str:
        """Store this rank's share of the state after ``step``; nothing is committed by it. Its digest."""
        learner, capture = self.learner, Capture()
        kinds = {"weights": learner.weights, "m": learner.m, "v": learner.v}
        capture.take({kind: {name: arrays[name] for name in self.mine} for kind, arrays in kinds.items()})
        files = {f"rank-{self.number}/{path}": data for path, data in capture.files().items()}
        return self._vault.save_part(
            files,
            workload=options.workload,
            step=step,
            epoch=epoch,
            site=options.site,
            shard=Shard(self.number + 1, self.count),
            share=Share.OWN,
            close=False,
        ).digest

    def say(self, word: object) -> None:
        """The first rank tells the others."""
        for pipe in self._pipes:
            pipe.send(word)

    def hear(self) -> object:
        """What the first rank says. Raises EOFError when it is gone."""
        return self._pipes[0].recv()

    def gather(self) -> list[object]:
        """The first rank: what each of the others says, in order."""
        return [pipe.recv() for pipe in self._pipes]

    def _exchange(self, own: Any) -> list[Any]:
        """What all ranks have, in the order of their numbers."""
        if self.number == 0:
            everything = [own, *self.gather()]
            self.say(everything)
            return everything
        self._pipes[0].send(own)
        heard = self.hear()
        assert isinstance(heard, list)
        return heard


def lead(rank: Rank, session: Session, options: SessionOptions, *, until: int, pace_per_s: float, losses: Path) -> None:
    """The first rank: train up to ``until``, or until it is told to stop; the others follow every word."""
    state = session.restore()
    snapshot = state[SNAPSHOT] if state is not None else None
    rank.say(snapshot)
    if snapshot is not None:
        rank.load(snapshot)
    losses.parent.mkdir(parents=True, exist_ok=True)
    with losses.open("ab", buffering=0) as log:
        for step in paced(session.steps(until), pace_per_s):
            rank.say(("step", step))
            loss = rank.step(step)
            log.write(msgspec.json.encode(LossLine(step, loss, time.time(), options.site)) + b"\n")
            if session.should_checkpoint(step):
                session.save_by(step, partial(_commit, rank, options, step))
            if session.should_stop():
                break
    rank.say(("end", 0))


def follow(rank: Rank, options: SessionOptions) -> None:
    """Every other rank, until the first one says that it is over or is gone."""
    snapshot = rank.hear()
    if isinstance(snapshot, str):
        rank.load(SnapshotId(snapshot))
    for word, step, epoch in _words(rank):
        if word == "step":
            rank.step(step)
        else:
            rank._pipes[0].send(rank.store(step, epoch, options))


def _words(rank: Rank) -> Iterator[tuple[str, int, Epoch]]:
    while True:
        word = rank.hear()
        assert isinstance(word, tuple)
        if word[0] == "end":
            return
        yield word[0], word[1], Epoch(word[2] if len(word) > 2 else 0)


def _commit(rank: Rank, options: SessionOptions, step: int, epoch: Epoch) -> SnapshotId:
    rank.say(("save", step, epoch))
    digests = {number: str(digest) for number, digest in enumerate([rank.store(step, epoch, options), *rank.gather()], start=1)}
    result = rank._vault.commit_parts(workload=options.workload, step=step, epoch=epoch, shards=rank.count, digests=digests)
    return result.id


def _other(number: int, count: int, pipe: Connection, seed: int, vault: str, options: SessionOptions) -> None:
    """The whole life of another rank. It ends when the first one is gone, however that ended."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # schedulers send it to all: the first rank decides
    try:
        follow(Rank(number, count, [pipe], seed=seed, vault=open_vault(Path(vault))), options)
    except EOFError:
        raise SystemExit(1) from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line; vault, workload, site and the like come from the environment (``SessionOptions.from_env``)."""
    parser = argparse.ArgumentParser(prog="bridgehead.app.demo.ranks", description=main.__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until", type=int, required=True, help="number of the last step")
    parser.add_argument("--pace", type=float, default=10.0, help="steps a second; 0 for flat out")
    parser.add_argument("--losses", type=Path, required=True, help="JSON lines: step, loss, at_s, site")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    options, directory = SessionOptions.from_env(os.environ), required(os.environ, "BRIDGEHEAD_VAULT")
    context = get_context("spawn")
    pairs = [context.Pipe() for _ in range(asked.ranks - 1)]
    others = [
        context.Process(target=_other, args=(number, asked.ranks, far, asked.seed, directory, options), daemon=True)
        for number, (_, far) in enumerate(pairs, start=1)
    ]
    for other, (_, far) in zip(others, pairs, strict=True):
        other.start()
        far.close()  # so that the end of one side is seen by the other
    vault = open_vault(Path(directory))
    with Session(vault, options, load=lambda _vault, info: {SNAPSHOT: info.id}) as session:
        rank = Rank(0, asked.ranks, [near for near, _ in pairs], seed=asked.seed, vault=vault)
        lead(rank, session, options, until=asked.until, pace_per_s=asked.pace, losses=asked.losses)
    for other in others:
        other.join(10.0)


if __name__ == "__main__":
    main()
