"""Restore: the newest state that can be loaded; and, in standby, following newer ones until the release."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, NotFound, PortError
from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.training import Release
from bridgehead.training.state import decode
from bridgehead.vault import Damaged, Vault

log = logging.getLogger("bridgehead.training")
_NAMED = 5


Load = Callable[[Vault, SnapshotInfo], dict[str, Any]]
"""What makes a state of a snapshot. Raises Damaged, port errors."""


def whole_state(vault: Vault, info: SnapshotInfo) -> dict[str, Any]:
    """The state as ``Session.save`` saves it."""
    return decode(vault.load(info.id))


class Loaded(msgspec.Struct, frozen=True):
    """A state in memory, and where it came from."""

    snapshot: SnapshotId
    step: int
    state: dict[str, Any]


def load_newest(vault: Vault, workload: WorkloadId, load: Load = whole_state) -> Loaded | None:
    """The newest counting state whose every byte verifies, walking back over those that do not (V16, J11); None when there is none at all.

    What is skipped is logged with the reason.

    Raises:
        BridgeheadError: ``vault-damaged`` when there are snapshots but none can be loaded: beginning again at step 1 is not ours to decide.
    """
    survey = vault.survey(workload)
    for passed in survey.passed_over[:_NAMED]:
        log.warning("skipped %s: %s", passed.key, passed.reason)
    for info in survey.usable:
        try:
            return _load(vault, info, load)
        except Damaged as error:
            log.warning("skipped %s: %s", info.id, error)
    lost = [passed for passed in survey.passed_over if passed.info is None or passed.info.counts]
    if survey.usable or lost:
        raise BridgeheadError(
            ErrorCode.VAULT_DAMAGED,
            tried="restore the newest state",
            subject=f"workload {workload}",
            happened=f"none of its {len(survey.usable) + len(survey.passed_over)} snapshots can be loaded",
            remedy="Replicate an intact snapshot from another site, or take another workload name to begin again.",
        )
    return None


def load_exactly(vault: Vault, snapshot: SnapshotId, load: Load = whole_state) -> Loaded | None:
    """The state of this snapshot, None while the vault does not hold all of it. Raises Damaged, Transient."""
    info = vault.find(snapshot)
    return _load(vault, info, load) if info is not None and info.verified else None


def check_release(vault: Vault, workload: WorkloadId, release: Release) -> None:
    """Can this release be carried out now?

    Raises:
        Conflict: a newer fence has closed its epoch; the release is out of date.
        NotFound: the vault does not hold all of its snapshot (it may still be on its way).
        Transient: the vault cannot be seen.
    """
    fence, info = vault.newest_fence(workload), vault.find(release.snapshot)
    tried, subject = "take over as the writer", f"{release.snapshot} in epoch {release.epoch}"
    if fence is not None and fence.epoch > release.epoch:
        happened = f"the fence by {fence.opened_by} has opened epoch {fence.epoch} for {fence.holder}"
        raise Conflict(happened, tried=tried, subject=subject, remedy="This order is out of date; a new move gives a new one.")
    if info is None or not info.verified:
        raise NotFound("the vault does not hold all of it", tried=tried, subject=subject, remedy="Replicate it here.")


class Follower:
    """Keeps the newest state of the local vault in memory, so that a release finds it there. Memory: one state, two while it changes."""

    def __init__(self, vault: Vault, workload: WorkloadId, *, follow_s: float, load: Load = whole_state) -> None:
        self.loaded: Loaded | None = None
        self._vault = vault
        self._workload = workload
        self._follow_s = follow_s
        self._load = load
        self._looked_s = float("-inf")
        self._said: set[str] = set()

    def look(self) -> bool:
        """Load a newer state if it is time to look and there is one. True when ``loaded`` changed."""
        if time.monotonic() - self._looked_s < self._follow_s:
            return False
        self._looked_s = time.monotonic()
        return self._attempt(self._follow)

    def take(self, release: Release) -> Loaded | None:
        """Exactly the state of ``release``; None while it cannot be carried out."""
        return self.loaded if self._attempt(lambda: self._take(release)) else None

    def _follow(self) -> bool:
        info = self._vault.newest(self._workload)
        if info is None or (self.loaded is not None and info.id == self.loaded.snapshot):
            return False
        self.loaded = _load(self._vault, info, self._load)
        return True

    def _take(self, release: Release) -> bool:
        check_release(self._vault, self._workload, release)
        if self.loaded is None or self.loaded.snapshot != release.snapshot:
            self.loaded = load_exactly(self._vault, release.snapshot, self._load)
        return self.loaded is not None

    def _attempt(self, work: Callable[[], bool]) -> bool:
        """A vault that is out of reach or damaged now may be mended later: keep what is loaded, say it once, look again."""
        try:
            return work()
        except PortError as error:
            if str(error) not in self._said:
                log.warning("standby keeps what it has: %s", error)
                self._said.add(str(error))
            return False


def _load(vault: Vault, info: SnapshotInfo, load: Load) -> Loaded:
    return Loaded(info.id, info.step, load(vault, info))
