"""``bridgehead recover drill``: play a recovery in a bubble; history, what is due, and cleaning up."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from bridgehead.app.drills.isolation import Network
from bridgehead.cli.options import AsOption, HomeOption, JsonOption, who
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import SiteId, WorkloadId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridgehead.app.drills.cleaning import Cleaned
    from bridgehead.app.drills.preparing import Asked
    from bridgehead.app.home import Home
    from bridgehead.model.event import Event
    from bridgehead.runbook.state import RunState

WorkloadOption = Annotated[list[str] | None, Parameter(name="--workload", negative="", help="Only this workload; may be repeated.")]
FaultOption = Annotated[
    list[str] | None,
    Parameter(
        name="--fault",
        negative="",
        help="A fault that must strike: slow-line=RATE, damaged-block=WORKLOAD, kill-restore=WORKLOAD, dead-node=WORKLOAD or site-down; "
        "may be repeated.",
    ),
]
AskOption = Annotated[bool, Parameter(name="--ask", negative="", help="Ask the approvers of the recovery file first; no answer is a no.")]
HistoryOption = Annotated[bool, Parameter(name="--history", negative="", help="All drills of this home, and how RPO and RTO went.")]
DueOption = Annotated[bool, Parameter(name="--due", negative="", help="Which workloads must be drilled; exit code 1 when any is overdue.")]
CleanOption = Annotated[bool, Parameter(name="--clean", negative="", help="Remove what drills left whose process was killed.")]
VerifyOption = Annotated[Path | None, Parameter(name="--verify", help="Check the signature of a report (the .json file).")]
KeysOption = Annotated[
    Path | None, Parameter(name="--keys", help="With --verify: folder of public keys (*.pub) in place of the home's own.")
]


def drill(
    *, workload: WorkloadOption = None, site: str | None = None, fault: FaultOption = None, network: Network = Network.AUTO,
    ask: AskOption = False, recovery: Path = Path("recovery.yaml"), estate: Path = Path("estate.yaml"), name: str | None = None,
    by: AsOption = None, history: HistoryOption = False, due: DueOption = False, clean: CleanOption = False, verify: VerifyOption = None,
    keys: KeysOption = None, home: HomeOption = None, json: JsonOption = False,
) -> int:  # fmt: skip
    """Recover workloads in an isolated bubble beside their refuge, measure RPO and RTO, leave nothing, and sign a report.

    Nothing outside of the bubble changes: it has its own view of the site's vault, its own fences, orders and job names, and no proxy
    sends to it. What an earlier drill left whose process was killed is removed first.

    Args:
        site: where the recovery is played; default: the refuge of the first workload.
        network: of the bubble's jobs: own (a network namespace, needs root), shared (the site's), auto (own where it can be had).
        recovery: the recovery file: what is protected, and how.
        estate: the estate file that says how sites and services are reached.
        name: of the drill.
    """
    from bridgehead.app.home import Home

    _refuse_both(history=history, due=due, clean=clean, verify=verify is not None)
    place, person = Home(home), who(by)
    if verify is not None:
        return _verify(place, verify, keys, json=json)
    if history:
        return _history(place, json=json)
    cleaned = _clean(place, person, quiet=not clean)
    if clean:
        return _show_cleaned(cleaned, json=json)
    if due:
        return _due(place, recovery, json=json)
    from bridgehead.app.drills.playing import name_for
    from bridgehead.app.drills.preparing import Asked, parse_fault

    asked = Asked(
        name or name_for(time.time()),
        tuple(WorkloadId(one) for one in workload or []),
        SiteId(site) if site is not None else None,
        tuple(parse_fault(text) for text in fault or []),
        network,
        ask,
    )
    return _play(place, asked, recovery, estate, by=person, json=json)


def _refuse_both(**modes: bool) -> None:
    given = [f"--{mode}" for mode, wanted in modes.items() if wanted]
    if len(given) > 1:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE, tried="drill", subject=" ".join(given), happened="one thing at a time", remedy=f"Give {given[0]} alone."
        )


def _play(place: Home, asked: Asked, recovery: Path, estate: Path, *, by: str, json: bool) -> int:
    from bridgehead.app import estate_files
    from bridgehead.app.drills.playing import Drilling, play
    from bridgehead.app.drills.preparing import needs_of_recovery
    from bridgehead.app.recover import setting
    from bridgehead.cli.recover_drill_display import print_result
    from bridgehead.cli.stopping import stop_on_signals

    here = setting(recovery, estate)
    needs = needs_of_recovery(here.recovery, recovery, estate_files.load_estate(estate))
    if asked.ask and here.recovery.approvers is not None:
        people = ", ".join(here.recovery.approvers.people)
        print(f"asks {people}: `bridgehead run approve {asked.name} approve --as NAME{place.option}`", file=sys.stderr)
    result = play(Drilling(place, here, needs), asked, by=by, watcher=_Steps(), on_engine=stop_on_signals)
    if json:
        print(msgspec.json.encode(result).decode())
    else:
        print_result(result, place)
    return ExitCode.DONE if result.verdict.value == "passed" else ExitCode.NEGATIVE


class _Steps:
    """Says on stderr what was reached."""

    def __call__(self, state: RunState, events: Sequence[Event]) -> None:
        from bridgehead.model import event as ev

        for event in events:
            match event:
                case ev.PhaseDone(step=step, phase=ev.Phase.VERIFY) | ev.Approved(step=step):
                    print(f"{step}: done", file=sys.stderr, flush=True)
                case ev.StepFailed(step=step, reason=reason):
                    print(f"{step}: FAILED: {reason}", file=sys.stderr, flush=True)
                case _:
                    pass


def _clean(place: Home, by: str, *, quiet: bool) -> list[Cleaned]:
    from bridgehead.app.drills.folder import root_of

    if not root_of(place).is_dir():
        return []
    from bridgehead.app.drills.playing import clean_up

    cleaned = clean_up(place, by=by)
    for one in cleaned if quiet else ():
        if one.left:
            print(f"left of {one.bubble}, and not to be removed now: {'; '.join(one.left)}", file=sys.stderr)
        elif not one.busy:
            print(f"removed what was left of {one.bubble}, whose process was killed", file=sys.stderr)
    return cleaned


def _show_cleaned(cleaned: list[Cleaned], *, json: bool) -> int:
    if json:
        print(msgspec.json.encode({"bubbles": cleaned}).decode())
    else:
        for one in cleaned:
            state = "its drill goes on" if one.busy else f"LEFT: {'; '.join(one.left)}" if one.left else "removed"
            print(f"{one.bubble}: {state}")
        if not cleaned:
            print("nothing was left")
    return ExitCode.NEGATIVE if any(one.left for one in cleaned) else ExitCode.DONE


def _history(place: Home, *, json: bool) -> int:
    from bridgehead.app.drills.history import history
    from bridgehead.cli.recover_drill_display import print_history

    found = history(place)
    if json:
        print(msgspec.json.encode({"drills": found.drills, "trends": found.trends, "problems": found.problems}).decode())
    else:
        print_history(found)
    return ExitCode.DONE if found.holds else ExitCode.NEGATIVE


def _due(place: Home, recovery: Path, *, json: bool) -> int:
    from bridgehead.app.drills.history import due
    from bridgehead.app.recovery_files import load_recovery
    from bridgehead.cli.recover_drill_display import print_due

    now_s = time.time()
    found = due(place, load_recovery(recovery), now_s=now_s)
    overdue = [one.workload for one in found if one.overdue]
    if json:
        print(msgspec.json.encode({"overdue": overdue, "workloads": found}).decode())
    else:
        print_due(found, now_s=now_s)
    return ExitCode.NEGATIVE if overdue else ExitCode.DONE


def _verify(place: Home, file: Path, keys: Path | None, *, json: bool) -> int:
    from bridgehead.app.drills.reports import read
    from bridgehead.runbook.ledger import KeyFolder

    found = read(file, KeyFolder(keys) if keys is not None else place.keys)
    document: dict[str, Any] = {"file": str(file), "key_id": found.key_id, "sha256": found.sha256, "problem": found.problem}
    if json:
        print(msgspec.json.encode(document).decode())
    elif found.problem:
        print(f"{file} does NOT hold: {found.problem}")
    else:
        print(f"{file} is as it was signed, with key {found.key_id}")
    return ExitCode.NEGATIVE if found.problem else ExitCode.DONE
