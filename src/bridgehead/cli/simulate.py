"""``bridgehead simulate``: a plan, many times, under hazards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode

if TYPE_CHECKING:
    from bridgehead.app.plan_outcome import Outcome
    from bridgehead.app.plan_set import PlanSet
    from bridgehead.app.plan_simulation import Rows
    from bridgehead.model.hazards import Hazards


def simulate(
    plan: Path,
    /,
    *,
    runs: int = 1000,
    seed: int = 0,
    shard: str = "1/1",
    merge: Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")] = None,
    compare: Path | None = None,
    hazards: Path | None = None,
    estate: Path | None = None,
    policy: Path | None = None,
    jobs: int = 2,
    json: JsonOption = False,
) -> int:
    """Play PLAN in virtual time, people and trucks included, once for each run, and say what came of it as distributions.

    Exit code 0 when half of the runs or more keep the policy's last day (or the policy has none), 1 when not.

    Args:
        plan: a plan file.
        runs: how many.
        seed: of all chance; the same seed gives the same result.
        shard: I/N plays every N-th run only and prints rows to be merged; on the same seed on any machine.
        merge: files that shards printed; nothing is played.
        compare: another plan, played on the same luck.
        hazards: a file of hazards; what it does not give is a guess, and shown as one.
        estate: the estate that the plan was made for; default estate.yaml beside the plan.
        policy: the policy that the plan was made for; default policy.yaml beside the plan.
        jobs: processes.
    """
    from bridgehead.app import plan_simulation as played
    from bridgehead.app.plan_set import load_plan_set

    part = _shard(shard)
    if runs < 1 or jobs < 1:
        raise _wrong_use(f"--runs {runs} --jobs {jobs}", "there is nothing to play", "Give at least one run and one process.")
    if compare is not None and part != (1, 1):
        raise _wrong_use(f"--shard {shard} --compare", "shards are merged before they are compared", "Compare without --shard.")
    planned = load_plan_set(plan, estate_file=estate, policy_file=policy)
    given = _hazards(hazards)
    if merge:
        rows = played.merged([_read_rows(path) for path in merge])
        _refuse_strangers(rows, planned, given)
    else:
        rows = played.simulate(planned, given, runs=runs, seed=seed, shard=part, jobs=jobs, watch=_progress(runs // part[1]))
    if part != (1, 1):
        print(msgspec.json.encode(rows).decode())
        return ExitCode.DONE
    found = _outcome(planned, given, rows)
    other, between = None, None
    if compare is not None:
        from bridgehead.app.plan_outcome import difference

        against = load_plan_set(compare, estate_file=estate, policy_file=policy)
        others = played.simulate(against, given, runs=rows.runs, seed=rows.seed, jobs=jobs, watch=_progress(rows.runs))
        other = _outcome(against, given, others)
        between = difference(rows, others, late_s=_planned_s(planned, given), other_late_s=_planned_s(against, given))
    if json:
        document = {**msgspec.to_builtins(found)} if other is None else {"plan": found, "other": other, "difference": between}
        print(msgspec.json.encode(document).decode())
    else:
        from bridgehead.cli import simulate_display

        simulate_display.print_outcome(found)
        if other is not None and between is not None:
            simulate_display.print_outcome(other)
            simulate_display.print_difference(found, other, between)
    late = found.past_deadline_share
    return ExitCode.NEGATIVE if late is not None and late > 0.5 else ExitCode.DONE


def _outcome(planned: PlanSet, given: Hazards, rows: Rows) -> Outcome:
    from bridgehead.app import plan_simulation as played
    from bridgehead.app.plan_outcome import outcome

    return outcome(planned, played.model_of(planned, given), rows, played.rates_for(planned, given))


def _planned_s(planned: PlanSet, given: Hazards) -> float:
    from bridgehead.app.plan_simulation import model_of

    model = model_of(planned, given)
    return float(model.activities.ends_s[model.over].max()) if len(model.over) else planned.plan.ends_s


def _shard(text: str) -> tuple[int, int]:
    first, _, count = text.partition("/")
    if first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count):
        return int(first), int(count)
    raise _wrong_use(f"--shard {text}", "this is no shard", "Write it such as 2/8: the second of eight.")


def _hazards(path: Path | None) -> Hazards:
    from bridgehead.app.runbook_files import read_text
    from bridgehead.model.hazards import Hazards, read_hazards

    return Hazards() if path is None else read_hazards(read_text(path, what="hazards"), file=str(path))


def _read_rows(path: Path) -> Rows:
    from bridgehead.app.plan_simulation import Rows
    from bridgehead.app.runbook_files import read_text

    try:
        return msgspec.json.decode(read_text(path, what="shard"), type=Rows)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read a shard of a simulation",
            subject=str(path),
            happened=str(error),
            remedy="Give a file that `bridgehead simulate --shard` printed.",
        ) from error


def _refuse_strangers(rows: Rows, planned: PlanSet, given: Hazards) -> None:
    from bridgehead.app.plan_simulation import hazards_digest
    from bridgehead.model.plan import digest_of

    for what, found, wanted in (("plan", digest_of(planned.plan), rows.plan), ("hazards", hazards_digest(given), rows.hazards)):
        if found != wanted:
            raise BridgeheadError(
                ErrorCode.BAD_INPUT,
                tried="merge shards of a simulation",
                subject=planned.plan.name,
                happened=f"the shards were played with another {what} (digest {wanted[:12]}, not {found[:12]})",
                remedy=f"Name the {what} that they were played with.",
            )


def _wrong_use(subject: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_USAGE, tried="simulate a plan", subject=subject, happened=happened, remedy=remedy)


def _progress(total: int) -> Callable[[int], None]:
    """One line that rewrites itself; nothing when nobody looks."""

    def show(done: int) -> None:
        if sys.stderr.isatty() and (done % 20 == 0 or done == total):
            print(f"\r{done} of {total} runs", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show
