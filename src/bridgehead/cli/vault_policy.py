"""``bridgehead vault retain``, ``hold``, ``tier`` and ``drill``: what stays, where, and whether it can be brought back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import AsOption, JsonOption, who
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import Person, WorkloadId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridgehead.vault import Vault

WorkloadOption = Annotated[str | None, Parameter(help="Only this workload.")]
DryRunOption = Annotated[bool, Parameter(negative="", help="Say what would be done, and do nothing.")]
Several = Parameter(negative="", show_default=False)


def retain(
    vault: str,
    /,
    *,
    last: int = 0,
    hourly: int = 0,
    daily: int = 0,
    weekly: int = 0,
    workload: WorkloadOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Forget the snapshots in VAULT that no rule keeps, and say of each why it stays. `vault collect` frees their space.

    What stays besides: the newest usable one, the newest that another site holds, what is held or pinned, what the fence in force names
    until something newer replaces it, and evidence. Damaged and incomplete ones do not count as one of the last.

    Args:
        vault: a directory, or the address of a store.
        last: keep the newest so many.
        hourly: keep the newest of each of so many hours (UTC) that have any.
        daily: the same for days.
        weekly: the same for weeks.
    """
    from bridgehead.app import vault_policy, vaults
    from bridgehead.cli.vault_policy_display import print_retained
    from bridgehead.vault.retain import Policy

    for option, number in (("--last", last), ("--hourly", hourly), ("--daily", daily), ("--weekly", weekly)):
        if number < 0:
            raise vaults.usage("retain snapshots", subject=f"{option} {number}", happened="less than none", remedy="Give 0 or more.")
    with vaults.damage_named(vault):
        place = vaults.open_vault(vault)
        policy = Policy(last=last, hourly=hourly, daily=daily, weekly=weekly)
        done = vault_policy.retain(place, _chosen(place, workload), policy, dry_run=dry_run, now_s=time.time())
    if json:
        _print({"vault": vault, **msgspec.to_builtins(done)})
    else:
        print_retained(done, place=vault)
    return ExitCode.DONE


def hold(
    vault: str,
    name: str | None = None,
    /,
    *,
    reason: str = "",
    until: str | None = None,
    release: Annotated[bool, Parameter(negative="")] = False,
    by: AsOption = None,
    json: JsonOption = False,
) -> int:
    """Hold the snapshot NAME (legal hold): nothing can forget or collect it. Without NAME, list all holds.

    Args:
        vault: a directory, or the address of a store.
        name: WORKLOAD, WORKLOAD@latest, WORKLOAD@STEP or a whole id.
        reason: why; kept with the hold, and needed for a release.
        until: the hold ends by itself: a day such as 2027-01-31 (to its end, UTC), or a date with time and zone.
        release: end all holds of NAME; who and why stays on record.
    """
    from bridgehead.app import vault_names, vault_policy, vaults
    from bridgehead.cli.vault_policy_display import print_holds, until_text

    now_s, person = time.time(), Person(who(by))
    with vaults.damage_named(vault), vaults.space_named():
        place = vaults.open_vault(vault)
        if name is None:
            if release or until is not None:
                raise vaults.usage("hold a snapshot", subject=vault, happened="no NAME was given", remedy="Name a snapshot.")
            found = vault_policy.holds(place)
            if json:
                _print({"vault": vault, "holds": [{**msgspec.to_builtins(one), "in_force": one.in_force(now_s)} for one in found]})
            else:
                print_holds(found, now_s=now_s)
            return ExitCode.DONE
        snapshot = vault_names.find(place, name).snapshot.id
        if release:
            released = vault_policy.release(place, snapshot, by=person, reason=reason, now_s=now_s)
            if json:
                _print({"vault": vault, "snapshot": snapshot, "released": msgspec.to_builtins(released)})
            else:
                print(f"{snapshot} is no longer held; that {person} released it is on record")
            return ExitCode.DONE
        until_s = vault_policy.parse_until(until) if until is not None else None
        key = vault_policy.hold(place, snapshot, by=person, reason=reason, until_s=until_s, now_s=now_s)
    if json:
        _print({"vault": vault, "snapshot": snapshot, "key": key, "by": person, "reason": reason, "until_s": until_s})
    else:
        print(f"{snapshot} is held {until_text(until_s)}")
    return ExitCode.DONE


def tier(
    vault: str,
    /,
    *,
    to: Annotated[tuple[str, ...], Several] = (),
    hot: str | None = None,
    warm: str | None = None,
    workload: WorkloadOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Move snapshots from VAULT (hot) to other vaults (warm, cold) by age and last restore, proved before anything is forgotten.

    What was restored lately comes back up. Predicted restore times are shown for each tier. `vault collect` frees the space above.

    Args:
        vault: the hot tier: a directory, or the address of a store.
        to: the vault that is the warm tier; a second one is the cold tier.
        hot: what was not saved or restored for longer leaves the hot tier, such as '7 d'.
        warm: what was not for longer leaves the warm tier, such as '30 d'; needed with two --to.
    """
    from bridgehead.app import vault_tiers, vaults
    from bridgehead.cli.vault_display import Progress
    from bridgehead.cli.vault_policy_display import print_tiered
    from bridgehead.kernel.quantity import parse
    from bridgehead.kernel.units import Dimension

    limits_s = [parse(text, Dimension.DURATION) for text in (hot, warm) if text is not None]
    with Progress("moving between tiers") as progress, vaults.damage_named(vault), vaults.space_named():
        top = vaults.open_vault(vault)
        colder = [(place, vaults.open_vault(place, moved=progress.moved)) for place in to]
        tiers = vault_tiers.tiers_of(vault, top, colder=colder, limits_s=limits_s)
        known = tuple(sorted({one for level in tiers for one in level.vault.workloads()}))
        chosen = known if workload is None or WorkloadId(workload) not in known else (WorkloadId(workload),)
        if workload is not None and chosen == known and WorkloadId(workload) not in known:
            _chosen(top, workload)  # raises, and says which there are
        done = vault_tiers.tier(tiers, chosen, dry_run=dry_run, now_s=time.time())
    if json:
        _print({"vault": vault, **msgspec.to_builtins(done)})
    else:
        print_tiered(done)
    return ExitCode.NEGATIVE if any(move.failed for move in done.moves) else ExitCode.DONE


def drill(
    vault: str,
    /,
    *,
    count: int = 1,
    budget: str | None = None,
    workload: WorkloadOption = None,
    weight: Annotated[tuple[str, ...], Several] = (),
    scratch: Path | None = None,
    list: Annotated[bool, Parameter(negative="")] = False,
    by: AsOption = None,
    json: JsonOption = False,
) -> int:
    """Prove that VAULT can be restored: bring back the most critical, longest untested snapshots into a folder that is removed again.

    Each is read back and compared, and the measured time is signed off in the vault. Exit code 1 when one fails; what is hurt is named.

    Args:
        vault: a directory, or the address of a store.
        count: how many snapshots.
        budget: begin no test that would end after this time, such as '30 min'; the first one always runs.
        weight: how critical a workload is, such as train=5 (others have 1).
        scratch: folder to restore into; default the one for temporary files.
        list: only show the last test of each snapshot, and which are due.
    """
    import math

    from bridgehead.app import vault_drills, vaults
    from bridgehead.cli.vault_display import Progress
    from bridgehead.cli.vault_policy_display import print_drilled, print_ranked
    from bridgehead.kernel.quantity import parse
    from bridgehead.kernel.units import Dimension

    if count < 1:
        raise vaults.usage("drill", subject=f"--count {count}", happened="nothing to test", remedy="Give 1 or more.")
    budget_s = parse(budget, Dimension.DURATION) if budget is not None else math.inf
    weights = dict(_weight(text) for text in weight)
    with Progress("restoring for a test") as progress, vaults.damage_named(vault):
        place = vaults.open_vault(vault, moved=progress.moved)
        ranked = vault_drills.rank(place, _chosen(place, workload), weights, now_s=time.time())
        if list:
            if json:
                _print({"vault": vault, "snapshots": msgspec.to_builtins(ranked)})
            else:
                print_ranked(ranked, now_s=time.time())
            return ExitCode.DONE
        if not ranked:
            raise vaults.missing("drill", subject=vault, happened="it has no usable snapshot", remedy="`bridgehead vault list` says why.")
        progress.total_bytes = sum(one.info.raw_bytes for one in ranked[:count])
        person = Person(who(by))
        done = vault_drills.drill(place, ranked, count=count, budget_s=budget_s, scratch=scratch, by=person, say=progress.say)
    if json:
        _print({"vault": vault, "passed": done.passed, **msgspec.to_builtins(done)})
    else:
        print_drilled(done)
    return ExitCode.DONE if done.passed else ExitCode.NEGATIVE


def _weight(text: str) -> tuple[WorkloadId, float]:
    from bridgehead.app.vaults import usage

    name, equals, number = text.partition("=")
    try:
        weight = float(number)
    except ValueError:
        weight = 0.0
    if not equals or not 0 < weight < float("inf"):
        raise usage("drill", subject=f"--weight {text!r}", happened="not WORKLOAD=NUMBER, above 0", remedy="Write train=5.")
    return WorkloadId(name), weight


def _chosen(place: Vault, workload: str | None) -> Sequence[WorkloadId]:
    from bridgehead.app import vault_names

    known = place.workloads()
    if workload is None:
        return known
    if workload not in known:
        raise vault_names.unknown_workload(place, WorkloadId(workload))
    return (WorkloadId(workload),)


def _print(document: object) -> None:
    print(msgspec.json.encode(document).decode())
