"""Play failovers in the simulated world by seed: ``python tools/failover_seeds.py 0 10000``. Prints each seed that breaks a promise.

Each third seed is played on to the failback. Exit code 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter

from bridgehead.app import wiring
from bridgehead.model import event as ev
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.virtual_failover import TRAIN, lost_by, play


def run(seed: int) -> tuple[int, list[str], Counter[str]]:
    """Broken promises of one seed, and what it was about."""
    played = play(lost_by(seed), actions_of=wiring.actions, back=seed % 3 == 0)
    about = Counter([f"failover {verdict_of(played.failover)}"])
    if played.failback is not None:
        about[f"failback {verdict_of(played.failback)}"] += 1
    about.update(type(fault).__name__ for fault in played.lab.book.hit)
    stretches = played.lab.world.history[TRAIN]
    about["a writer computed on behind the fence"] += any(
        one.uncounted_from is not None and (one.last or 0) >= one.uncounted_from for one in stretches
    )
    about["drivers"] += sum(isinstance(event, ev.DriverTook) for _, event in played.lab.happened)
    return seed, [f"{violation.rule}: {violation.text}" for violation in played.violations], about


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    begun_s, total, broken = time.monotonic(), Counter[str](), 0
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        for seed, violations, about in pool.imap_unordered(run, range(asked.first, asked.last), chunksize=20):
            total += about
            broken += bool(violations)
            for text in violations:
                print(f"seed {seed}: {text}", flush=True)
    print(f"{asked.last - asked.first} seeds in {time.monotonic() - begun_s:.0f} s, {broken} broke a promise")
    for what, count in sorted(total.items()):
        print(f"  {what}: {count}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
