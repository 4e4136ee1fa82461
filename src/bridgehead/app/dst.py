"""Deterministic simulation: whole moves in a simulated world, under faults drawn from a seed, with every promise checked.

Also the prediction of a runbook's timeline for ``run dry-run``: the same world and the same ``decide``, without faults.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from bridgehead.app import wiring
from bridgehead.kernel.ids import StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import Runbook
from bridgehead.simulate.faults import kind_of
from bridgehead.simulate.invariants import Violation
from bridgehead.simulate.runbook_world import blueprint_of
from bridgehead.testing.fault_verdicts import verdict_of, violations
from bridgehead.testing.virtual_lab import VirtualLab, describe
from bridgehead.testing.virtual_move import Scenario, scenario

CHUNK = 20
"""Seeds that a worker takes at a time."""


class SeedResult(msgspec.Struct, frozen=True):
    """What came of one seed. ``hit`` and ``missed`` are kinds of planned faults; ``trace_hash`` is the same for the same seed."""

    seed: int
    verdict: str
    hit: tuple[str, ...]
    missed: tuple[str, ...]
    violations: tuple[Violation, ...]
    trace_hash: str
    cpu_s: float

    @property
    def failed(self) -> bool:
        """A promise was broken."""
        return bool(self.violations)


class Tally(msgspec.Struct):
    """Sums over seeds."""

    seeds: int = 0
    verdicts: dict[str, int] = {}
    hit: dict[str, int] = {}
    missed: dict[str, int] = {}
    failed: list[SeedResult] = []
    cpu_s: float = 0.0
    wall_s: float = 0.0

    def add(self, result: SeedResult) -> None:
        """Count one more."""
        self.seeds += 1
        self.verdicts = dict(Counter(self.verdicts) + Counter([result.verdict]))
        self.hit = dict(Counter(self.hit) + Counter(result.hit))
        self.missed = dict(Counter(self.missed) + Counter(result.missed))
        self.cpu_s += result.cpu_s
        if result.failed:
            self.failed.append(result)


class Replay(msgspec.Struct, frozen=True):
    """One seed with everything that happened: (virtual seconds since the beginning, line)."""

    scenario: Scenario
    result: SeedResult
    trace: tuple[tuple[float, str], ...]


def run_seed(seed: int) -> SeedResult:
    """Simulate the move of ``seed`` and check it. A fault in our own code is a violation, too."""
    return replay(seed).result


def replay(seed: int) -> Replay:
    """Like ``run_seed``, keeping the trace."""
    begun_s = time.process_time()
    drawn = scenario(seed)
    lab = VirtualLab(drawn.blueprint, drawn.runbook, wiring.actions, faults=drawn.faults)
    start_s = lab.world.now_s
    try:
        finished = lab.run()
        broken, verdict, trace_hash = violations(lab, finished), verdict_of(finished), finished.trace_hash
    except Exception:
        broken, verdict, trace_hash = [Violation(lab.world.now_s, "crash", traceback.format_exc())], "crash", ""
    result = SeedResult(
        seed=seed,
        verdict=verdict,
        hit=tuple(kind_of(fault) for fault in lab.book.hit),
        missed=tuple(kind_of(fault) for fault in lab.book.missed),
        violations=tuple(msgspec.structs.replace(one, at_s=one.at_s - start_s) for one in broken),
        trace_hash=trace_hash,
        cpu_s=time.process_time() - begun_s,
    )
    return Replay(drawn, result, tuple((at_s - start_s, line) for at_s, line in lab.trace))


def run_seeds(seeds: Iterable[int], *, jobs: int, watch: Callable[[Tally], None] = lambda tally: None) -> Tally:
    """Simulate many seeds, on ``jobs`` processes. ``watch`` is told after every few."""
    begun_s = time.monotonic()
    tally = Tally()
    for result in _results(seeds, jobs):
        tally.add(result)
        tally.wall_s = time.monotonic() - begun_s
        watch(tally)
    tally.failed.sort(key=lambda result: result.seed)
    return tally


def _results(seeds: Iterable[int], jobs: int) -> Iterator[SeedResult]:
    if jobs <= 1:
        yield from map(run_seed, seeds)
        return
    import multiprocessing

    # Fresh interpreters: a fork would copy whatever threads and locks the caller has.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=CHUNK)


class Foreseen(msgspec.Struct, frozen=True):
    """One line of a predicted timeline: seconds since the beginning, the step (None for the run itself), and what happens."""

    at_s: float
    step: StepId | None
    what: str


class Prediction(msgspec.Struct, frozen=True):
    """What a runbook would do; ``verdict`` is that of the run, "stuck" or "not ended"."""

    moments: list[Foreseen]
    verdict: str


def simulate_runbook(runbook: Runbook) -> Prediction:
    """Predict the timeline of ``runbook`` in a world of ordinary size that is built from what its steps name, without faults.

    People approve and sign off after a few seconds. Raises what a runbook raises that the linter refuses (KeyError, ValueError).
    """
    lab = VirtualLab(blueprint_of(runbook), runbook, wiring.actions)
    start_s = lab.world.now_s
    finished = lab.run()
    skipped = ev.DriverTook | ev.PhaseProgress | ev.GateMeasured
    shown = [(at_s - start_s, event) for at_s, event in lab.happened if not isinstance(event, skipped)]
    moments = [Foreseen(at_s, getattr(event, "step", None), describe(event)) for at_s, event in shown]
    return Prediction(moments, verdict_of(finished))
