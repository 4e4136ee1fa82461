"""``bridgehead dst``: simulate whole moves under seeded faults, and check that nothing is lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import cyclopts
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

if TYPE_CHECKING:
    from bridgehead.app.dst import Replay, Tally

app = cyclopts.App(name="dst", help="Simulate whole moves under seeded faults and check that nothing is lost.")


@app.default
def dst(
    *,
    seeds: int = 1000,
    first: int = 0,
    jobs: int = 2,
    replay: Annotated[int | None, Parameter(name="--replay")] = None,
    json: JsonOption = False,
) -> int:
    """Simulate ``seeds`` moves, each with other sizes and other faults, in virtual time. Exit code 0 when no promise was broken.

    Args:
        seeds: how many.
        first: the first seed.
        jobs: processes.
        replay: simulate only this seed and print all that happened.
    """
    from bridgehead.app.dst import replay as replay_seed
    from bridgehead.app.dst import run_seeds

    if replay is not None:
        played = replay_seed(replay)
        _print_replay(played, json=json)
        return ExitCode.NEGATIVE if played.result.failed else ExitCode.DONE
    tally = run_seeds(range(first, first + seeds), jobs=jobs, watch=lambda tally: _progress(tally, seeds))
    _print_tally(tally, json=json)
    return ExitCode.NEGATIVE if tally.failed else ExitCode.DONE


def _progress(tally: Tally, seeds: int) -> None:
    """One line that rewrites itself; nothing when nobody looks."""
    if sys.stderr.isatty() and (tally.seeds % 10 == 0 or tally.seeds == seeds):
        end = "\n" if tally.seeds == seeds else ""
        print(f"\r{tally.seeds}/{seeds} seeds, {len(tally.failed)} failed, {tally.wall_s:.0f} s", end=end, file=sys.stderr, flush=True)


def _print_tally(tally: Tally, *, json: bool) -> None:
    if json:
        import msgspec

        print(msgspec.json.encode(tally).decode())
    else:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(tally.verdicts.items()))
        cpu_ms = 1000 * tally.cpu_s / max(1, tally.seeds)
        print(f"{tally.seeds} seeds in {tally.wall_s:.1f} s ({cpu_ms:.0f} ms of CPU each): {verdicts}")
        print("faults hit (of those planned):")
        for kind in sorted(tally.hit.keys() | tally.missed.keys()):
            hit, missed = tally.hit.get(kind, 0), tally.missed.get(kind, 0)
            print(f"  {kind:<14} {hit:>5} of {hit + missed}")
        print(f"violations: {len(tally.failed)} seeds")
    for result in tally.failed:
        for broken in result.violations[:3]:
            print(f"seed {result.seed}, {broken.at_s:.3f} s: {broken.rule}: {broken.text}", file=sys.stderr)
        print(f"  replay: bridgehead dst --replay {result.seed}", file=sys.stderr)


def _print_replay(played: Replay, *, json: bool) -> None:
    if json:
        import msgspec

        print(msgspec.json.encode({"result": played.result, "faults": played.scenario.faults, "trace": played.trace}).decode())
        return
    print(f"seed {played.scenario.seed}: {played.scenario.temper}")
    for fault in played.scenario.faults:
        print(f"  planned: {fault}")
    for at_s, line in played.trace:
        print(f"{at_s:10.3f}  {line}")
    print(f"verdict {played.result.verdict}, trace {played.result.trace_hash}")
    for broken in played.result.violations:
        print(f"VIOLATION at {broken.at_s:.3f} s: {broken.rule}: {broken.text}")
