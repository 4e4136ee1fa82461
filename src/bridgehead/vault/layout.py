"""Where objects lie in the blob store, and what their names say. Pure; docs/formats/vault.md is the description for others."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import Epoch, PackId, RunId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import FileEntry

VAULT_KEY: Final = "vault.json"
DATA_PREFIX: Final = "data/"
INDEX_PREFIX: Final = "index/"
KEYS_PREFIX: Final = "keys/"
SNAPSHOTS_PREFIX: Final = "snapshots/"
RECEIPTS_PREFIX: Final = "receipts/"
SESSIONS_PREFIX: Final = "state/sessions/"
CLOSING_PREFIX: Final = "state/closing/"
EVICTED_PREFIX: Final = "state/evicted/"
COLLECTION_PREFIX: Final = "state/collection/"
RESERVE_KEY: Final = "state/reserve"
RESERVE_BYTES: Final = 64 << 10
"""Kept so that a collection has the space for its first steps when the disk is full (V19)."""
MAX_STEP: Final = 10**12 - 1
MAX_EPOCH: Final = 10**8 - 1

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_SNAPSHOT_ID: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._+-]*)@(\d{1,12})\.(\d{1,8})-([0-9a-f]{16})")
_SNAPSHOT_FILE: Final = re.compile(r"(\d{12})-(\d{1,8})-([0-9a-f]{16})\.json")
_PACK: Final = re.compile(r"data/([0-9a-f]{2})/([0-9a-f]{64})")
_EPOCH_FILE: Final = re.compile(r"(\d{8})\.json")


class SnapshotName(msgspec.Struct, frozen=True, order=True):
    """What a snapshot's id says. Ordered by age of its history: a newer epoch went on from where the fence left the older one."""

    workload: WorkloadId
    epoch: Epoch
    step: int
    digest: str

    @property
    def id(self) -> SnapshotId:
        """``<workload>@<step>.<epoch>-<16 hex digits of the content>``."""
        return SnapshotId(f"{self.workload}@{self.step}.{self.epoch}-{self.digest}")

    @property
    def key(self) -> str:
        """Key of the snapshot's record."""
        return f"{snapshots_prefix(self.workload)}{self.step:012d}-{self.epoch}-{self.digest}.json"


def snapshot_name(snapshot: SnapshotId) -> SnapshotName:
    """Read an id. Raises Permanent when it is none."""
    match = _SNAPSHOT_ID.fullmatch(snapshot)
    if match is None:
        raise Permanent(
            "not a snapshot id",
            tried="read a snapshot id",
            subject=repr(snapshot),
            remedy="Ids look like train@1200.3-0123456789abcdef; `bridgehead vault list` shows them.",
        )
    return SnapshotName(WorkloadId(match[1]), Epoch(int(match[3])), int(match[2]), match[4])


def snapshot_name_of_key(workload: WorkloadId, key: str) -> SnapshotName | None:
    """The name that a listed key of ``snapshots/<workload>/`` stands for; None for a file that is none of ours."""
    match = _SNAPSHOT_FILE.fullmatch(key.removeprefix(snapshots_prefix(workload)))
    return SnapshotName(workload, Epoch(int(match[2])), int(match[1]), match[3]) if match else None


def content_digest(workload: WorkloadId, step: int, epoch: Epoch, files: tuple[FileEntry, ...]) -> str:
    """16 hex digits over what a restore gives back. Times, site and context are left out, so that a save that is repeated after a crash
    finds its own record."""
    return block_hash(canonical([workload, step, epoch, [_content(file) for file in files]]))[:16]


def _content(file: FileEntry) -> list[object]:
    """What is there for every file; then what only some have, so that the id of a plain file never changes."""
    odd = {
        "kind": file.kind or None,
        "target": file.target or None,
        "same_as": file.same_as or None,
        "holes": [[hole.offset_bytes, hole.size_bytes] for hole in file.holes or ()] or None,
    }
    named = {name: value for name, value in odd.items() if value is not None}
    return [file.path, file.mode, file.size_bytes, [ref.block for ref in file.blocks], *([named] if named else [])]


def pack_key(pack: PackId) -> str:
    """Key of a pack."""
    return f"{DATA_PREFIX}{pack[:2]}/{pack}"


def pack_of_key(key: str) -> PackId | None:
    """The pack that a listed key holds; None for a file that is none of ours."""
    match = _PACK.fullmatch(key)
    return PackId(match[2]) if match and match[2].startswith(match[1]) else None


def snapshots_prefix(workload: WorkloadId) -> str:
    """Folder of a workload's snapshot records."""
    return f"{SNAPSHOTS_PREFIX}{_checked(workload)}/"


def receipt_key(site: SiteId, snapshot: SnapshotId) -> str:
    """Key of a receipt."""
    return f"{RECEIPTS_PREFIX}{_checked(site)}/{snapshot_name(snapshot).id}.json"


def fences_prefix(workload: WorkloadId) -> str:
    """Folder of a workload's fences."""
    return f"fences/{_checked(workload)}/"


def fence_key(workload: WorkloadId, epoch: Epoch) -> str:
    """Key of the fence that opens ``epoch``."""
    return f"{fences_prefix(workload)}{epoch:08d}.json"


def epoch_of_fence_key(workload: WorkloadId, key: str) -> Epoch | None:
    """The epoch that a listed fence opens; None for a file that is none of ours."""
    match = _EPOCH_FILE.fullmatch(key.removeprefix(fences_prefix(workload)))
    return Epoch(int(match[1])) if match else None


def ballots_prefix(workload: WorkloadId, epoch: Epoch) -> str:
    """Folder of the ballots for the right to open ``epoch``."""
    return f"state/ballots/{_checked(workload)}/{epoch:08d}/"


def journal_prefix(run: RunId | None = None) -> str:
    """Folder of the copies of journals, or of one run's."""
    return "state/journals/" if run is None else f"state/journals/{_checked(run)}/"


def drivers_prefix(run: RunId) -> str:
    """Folder of the driving epochs that this vault has seen for a run (J13)."""
    return f"state/drivers/{_checked(run)}/"


def is_name(text: str) -> bool:
    """Whether a workload, a site or a run may be called so."""
    return _NAME.fullmatch(text) is not None


def _checked(name: str) -> str:
    if not is_name(name):
        raise Permanent(
            "not a name that can be part of a key",
            tried="name an object",
            subject=repr(name),
            remedy="Names of workloads, sites and runs consist of A-Z a-z 0-9 . _ + - and do not begin with . + or -.",
        )
    return name
