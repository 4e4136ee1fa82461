"""Names of snapshots as people write them: ``train``, ``train@latest``, ``train@1200``, ``train@1200.3``, or a whole id."""

from __future__ import annotations

import re
import time
from typing import Final

import msgspec

from bridgehead.app.vault_tiers import last_tiered
from bridgehead.app.vaults import missing, usage
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import WorkloadId
from bridgehead.kernel.phrase import near_word
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault import Vault
from bridgehead.vault.fences import counting
from bridgehead.vault.layout import SnapshotName, is_name, snapshot_name

_TRIED: Final = "find a snapshot"
_REST: Final = re.compile(r"(?P<step>\d{1,12})(\.(?P<epoch>\d{1,8})(-(?P<digest>[0-9a-f]{16}))?)?")
_SHOWN: Final = 5


class Found(msgspec.Struct, frozen=True):
    """A snapshot that was meant. ``counts`` is False only when it was named with its epoch (J05)."""

    snapshot: Snapshot
    counts: bool


def find(vault: Vault, text: str) -> Found:
    """The snapshot that ``text`` names: without a step the newest usable one, with a step the one of the newest epoch that counts.

    Raises BAD_USAGE for a text that is no name or can mean several, VAULT_NOT_FOUND, VAULT_DAMAGED.
    """
    workload, at, rest = text.partition("@")
    match = _REST.fullmatch(rest)
    if not is_name(workload) or (match is None and rest != "latest" and at):
        raise usage(
            _TRIED, subject=repr(text), happened="not the name of a snapshot", remedy="Write NAME, NAME@latest, NAME@STEP or a whole id."
        )
    workload_id = WorkloadId(workload)
    if match is None:
        return _newest(vault, workload_id, text)
    names = vault.names(workload_id)
    if not any(name.step == int(match["step"]) for name in names):
        _refuse_moved(vault, workload_id, int(match["step"]), text)
    if not names:
        raise unknown_workload(vault, workload_id)
    counts = counting(vault.newest_fence(workload_id))
    chosen = _choose(text, match, names, [name for name in names if counts(name)])
    if len(chosen) > 1:
        raise _ambiguous(vault, text, chosen)
    return Found(vault.snapshot(chosen[0].id), counts(chosen[0]))


def _refuse_moved(vault: Vault, workload: WorkloadId, step: int, text: str) -> None:
    """Raises VAULT_NOT_FOUND, naming the colder vault, when ``vault tier`` has moved the snapshot there."""
    tiered = last_tiered(vault)
    for one in tiered.snapshots if tiered is not None else ():
        name = snapshot_name(one.snapshot)
        tier = next((tier for tier in tiered.tiers if tier.name in one.tiers), None) if tiered is not None else None
        if tier is not None and (name.workload, name.step) == (workload, step):
            happened = f"it was moved to the {tier.name} tier, {tier.place}"
            raise missing(_TRIED, subject=text, happened=happened, remedy=f"Name {tier.place} instead of this vault.")


def unknown_workload(vault: Vault, workload: WorkloadId) -> BridgeheadError:
    """The error for a workload of which the vault has nothing."""
    known = vault.workloads()
    near = near_word(workload, list(known))
    remedy = f"Did you mean {near!r}?" if near else f"It has {', '.join(known[:_SHOWN])}." if known else "The vault is empty."
    return missing(_TRIED, subject=workload, happened="the vault has no snapshot of this workload", remedy=remedy)


def _newest(vault: Vault, workload: WorkloadId, text: str) -> Found:
    newest = vault.newest(workload)
    if newest is not None:
        return Found(vault.snapshot(newest.id), counts=True)
    passed = vault.survey(workload).passed_over
    if not passed:
        raise unknown_workload(vault, workload)
    reasons = "\n".join(f"{one.key}: {one.reason}" for one in passed[:_SHOWN])
    none = "its only snapshot cannot be used" if len(passed) == 1 else f"none of its {len(passed)} snapshots can be used"
    raise missing(
        _TRIED,
        subject=text,
        happened=f"{none}:\n{reasons}",
        remedy="Do what is said there, replicate from a vault that holds it whole, or name one by its whole id.",
    )


def _choose(text: str, match: re.Match[str], names: tuple[SnapshotName, ...], counting_names: list[SnapshotName]) -> list[SnapshotName]:
    step = int(match["step"])
    at_step = [name for name in names if name.step == step]
    if not at_step:
        steps = list(dict.fromkeys(name.step for name in names))
        near = sorted(sorted(steps, key=lambda one: abs(one - step))[:_SHOWN])
        raise missing(
            _TRIED, subject=text, happened=f"there is no snapshot of step {step}", remedy=f"Nearest: {', '.join(map(str, near))}."
        )
    if match["epoch"] is not None:
        exact = [name for name in at_step if name.epoch == int(match["epoch"]) and match["digest"] in (None, name.digest)]
        if not exact:
            raise missing(
                _TRIED, subject=text, happened="there is none of this step, epoch and content", remedy=f"There is {_ids(at_step)}."
            )
        return exact
    valid = [name for name in counting_names if name.step == step]
    if not valid:
        raise missing(
            _TRIED,
            subject=text,
            happened="what there is of this step does not count: it was written in an epoch that is closed, or that nobody opened",
            remedy=f"It is kept as evidence; to get it all the same, give its whole id: {_ids(at_step)}.",
        )
    newest = max(name.epoch for name in valid)
    return [name for name in valid if name.epoch == newest]


def _ambiguous(vault: Vault, text: str, chosen: list[SnapshotName]) -> BridgeheadError:
    lines = []
    for name in chosen:
        try:
            saved = f"saved {_clock(vault.snapshot(name.id).created_s)}"
        except BridgeheadError as error:
            saved = str(error)
        lines.append(f"{name.id}, {saved}")
    return usage(
        _TRIED,
        subject=text,
        happened="it can mean several: this step was saved more than once, with different content\n" + "\n".join(lines),
        remedy="Give the whole id.",
    )


def _ids(names: list[SnapshotName]) -> str:
    return ", ".join(name.id for name in names[:_SHOWN])


def _clock(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_s))
