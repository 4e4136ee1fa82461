"""Retention and holds of a vault: what goes, why the rest stays, and what nobody may take (R6, R12)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.app.vaults import usage
from bridgehead.kernel.errors import Conflict, NotFound
from bridgehead.kernel.ids import Epoch, Person, SiteId, SnapshotId, WorkloadId
from bridgehead.kernel.moment import parse_moment
from bridgehead.vault import Vault
from bridgehead.vault.holds import Held, Hold, Release, held_snapshots, list_holds, place_hold, release_holds
from bridgehead.vault.layout import snapshot_name, snapshot_name_of_key
from bridgehead.vault.retain import Candidate, Policy, Standing, Verdict, decide, in_order, protected

PIN: Final = "pin"
"""A writer that notes this in the context of a snapshot wants it kept for ever, such as ``--context pin=release-2``."""
_DAY_S: Final = 86_400.0


class Judged(msgspec.Struct, frozen=True):
    """One snapshot: what becomes of it and why. ``forgotten``: it went now; False in a dry run."""

    workload: WorkloadId
    snapshot: SnapshotId | None
    key: str
    step: int
    epoch: Epoch
    created_s: float
    raw_bytes: int
    standing: Standing
    stays: bool
    reasons: tuple[str, ...]
    forgotten: bool


class Retained(msgspec.Struct, frozen=True):
    """What retention came to, workload by workload, newest first. ``forgotten_bytes``: raw; `collect` frees what was stored for them."""

    policy: Policy
    dry_run: bool
    snapshots: tuple[Judged, ...]
    stayed: int
    forgotten: int
    forgotten_bytes: int


def retain(vault: Vault, workloads: Sequence[WorkloadId], policy: Policy, *, dry_run: bool, now_s: float) -> Retained:
    """Apply a policy. Broken off, it goes on: what is left to do is decided from what is there.

    Raises BAD_USAGE for a policy that asks for nothing; VAULT_DAMAGED when a fence or a receipt listing cannot be read: nothing goes then.
    """
    if policy.is_empty:
        raise usage(
            "retain snapshots",
            subject="the policy",
            happened="it asks for nothing to be kept",
            remedy="Give --last, --hourly, --daily or --weekly; all that they name stays, and some more that is needed.",
        )
    decided = [
        (workload, decide(candidates(vault, workload, now_s=now_s), policy, fence=vault.newest_fence(workload))) for workload in workloads
    ]
    judged = []
    for workload, verdicts in decided:
        gone = {verdict.candidate.key for verdict in reversed(verdicts) if not dry_run and _forget(vault, verdict)}  # the oldest first
        judged += [_judged(workload, verdict, forgotten=verdict.candidate.key in gone) for verdict in verdicts]
    return Retained(
        policy=policy,
        dry_run=dry_run,
        snapshots=tuple(judged),
        stayed=sum(one.stays for one in judged),
        forgotten=sum(one.forgotten for one in judged),
        forgotten_bytes=sum(one.raw_bytes for one in judged if one.forgotten),
    )


def candidates(vault: Vault, workload: WorkloadId, *, now_s: float) -> tuple[Candidate, ...]:
    """All snapshots of a workload as the policy sees them. Raises VAULT_DAMAGED when the fence cannot be read."""
    survey = vault.survey(workload)
    held = held_snapshots(vault.place.objects, now_s=now_s)
    here = SiteId(f"vault-{vault.file.id[:8]}")
    receipts: dict[SnapshotId, list[SiteId]] = {}
    for site, snapshot in vault.receipt_names():
        receipts.setdefault(snapshot, []).append(site)
    found = [_unreadable(workload, one.key, held) for one in survey.passed_over if one.info is None]
    known = [(info, Standing.USABLE) for info in survey.usable]
    known += [(one.info, Standing.SPOILED if one.info.counts else Standing.EVIDENCE) for one in survey.passed_over if one.info is not None]
    for info, standing in known:
        try:
            record = vault.snapshot(info.id)
        except NotFound:  # forgotten since it was listed
            continue
        found.append(
            Candidate(
                key=snapshot_name(info.id).key,
                id=info.id,
                epoch=info.epoch,
                step=info.step,
                created_s=info.created_s,
                raw_bytes=info.raw_bytes,
                standing=standing,
                held=info.id in held,
                pinned=record.context.get(PIN, ""),
                elsewhere=tuple(sorted(site for site in receipts.get(info.id, ()) if site not in (here, record.site))),
            )
        )
    return tuple(found)


def bound_to_hot(vault: Vault, workload: WorkloadId, *, now_s: float) -> dict[SnapshotId, str]:
    """What must not leave this vault whatever its age, and why."""
    ordered = in_order(candidates(vault, workload, now_s=now_s))
    bound: dict[SnapshotId, str] = {}
    for candidate, why in protected(ordered, fence=vault.newest_fence(workload)):
        if candidate.id is not None and not why.startswith("newest that another site"):
            bound.setdefault(candidate.id, why)
    return bound


def hold(vault: Vault, snapshot: SnapshotId, *, by: Person, reason: str, until_s: float | None, now_s: float) -> str:
    """Place a hold. Returns its key. Raises BAD_USAGE for an end that is past, VAULT_NOT_FOUND."""
    if until_s is not None and until_s <= now_s:
        raise usage("hold a snapshot", subject="--until", happened="this date is past", remedy="Give one that is to come, or none.")
    return place_hold(vault.place.objects, Hold(snapshot, by, reason, now_s, until_s))


def release(vault: Vault, snapshot: SnapshotId, *, by: Person, reason: str, now_s: float) -> tuple[Release, ...]:
    """End all holds of a snapshot. Raises BAD_USAGE when there is none or no reason is given."""
    if not reason:
        raise usage("release a hold", subject=snapshot, happened="no reason was given", remedy="Say --reason; it is kept with the release.")
    try:
        return release_holds(vault.place.objects, snapshot, by=by, reason=reason, now_s=now_s)
    except NotFound as error:
        raise usage(error.tried, subject=snapshot, happened=error.happened, remedy=error.remedy) from error


def holds(vault: Vault) -> tuple[Held, ...]:
    """All that were not released."""
    return list_holds(vault.place.objects)


def parse_until(text: str) -> float:
    """``2027-01-31`` (to the end of that day, UTC), or a date with time and zone. Raises BAD_QUANTITY."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text.strip()):
        try:
            day = datetime.date.fromisoformat(text.strip())
        except ValueError:
            return parse_moment(text)  # says what is wrong with it
        return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp() + _DAY_S
    return parse_moment(text)


def _unreadable(workload: WorkloadId, key: str, held: frozenset[SnapshotId]) -> Candidate:
    name = snapshot_name_of_key(workload, key)
    if name is None:
        return Candidate(key, None, Epoch(0), 0, 0.0, 0, Standing.UNREADABLE)
    return Candidate(key, name.id, name.epoch, name.step, 0.0, 0, Standing.UNREADABLE, held=name.id in held)


def _forget(vault: Vault, verdict: Verdict) -> bool:
    """False: it stays after all, because somebody held it just now."""
    snapshot = verdict.candidate.id
    if verdict.stays or snapshot is None:
        return False
    try:
        vault.forget(snapshot)
    except Conflict:
        return False
    except NotFound:  # another retention was quicker
        return True
    return True


def _judged(workload: WorkloadId, verdict: Verdict, *, forgotten: bool) -> Judged:
    one = verdict.candidate
    return Judged(
        workload=workload,
        snapshot=one.id,
        key=one.key,
        step=one.step,
        epoch=one.epoch,
        created_s=one.created_s,
        raw_bytes=one.raw_bytes,
        standing=one.standing,
        stays=verdict.stays,
        reasons=verdict.reasons,
        forgotten=forgotten,
    )
