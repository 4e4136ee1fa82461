"""Signatures of snapshots on the command line: with whose key this machine signs, and whom a list trusts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bridgehead.app.home import Home
from bridgehead.app.vault_names import find
from bridgehead.app.vaults import open_vault, usage
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.vault.crypt.signing import Finding, Standing, judge, read_trust
from bridgehead.vault.records import Damaged
from bridgehead.vault.vault import Vault


class Trust(msgspec.Struct, frozen=True):
    """What a list of trusted keys says of a vault: how many snapshots are signed by one of them, and all others."""

    trusted: int
    findings: tuple[Finding, ...]


class Signed(msgspec.Struct, frozen=True):
    """Snapshots that were signed now; those whose record is damaged were not."""

    signed: tuple[SnapshotId, ...]
    damaged: tuple[SnapshotId, ...]


def sign_as_this_machine(vault: Vault) -> str:
    """Have what is saved signed with the key of this home, which is made at its first use. Returns why not, else ""."""
    keys = Home().keys
    try:
        keys.public_key  # noqa: B018  # made and read now: a save must not fail at its end for want of a key
    except BridgeheadError as error:
        return f"{error.subject}: {error.happened}"
    vault.signer = keys
    return ""


def public_key() -> str:
    """The key with which this machine signs, 64 hex digits. Raises BridgeheadError when there can be none."""
    return Home().keys.public_key


def sign_all(place: str, workloads: Sequence[WorkloadId]) -> Signed:
    """Sign what is unsigned, such as what a trainer has saved. Raises BridgeheadError when there is no key."""
    vault = open_vault(place)
    vault.signer = Home().keys
    signed: list[SnapshotId] = []
    damaged: list[SnapshotId] = []
    for name in [name for workload in workloads or vault.workloads() for name in vault.names(workload)]:
        try:
            signed += [name.id] if vault.sign(name.id) else []
        except Damaged:
            damaged.append(name.id)
    return Signed(tuple(signed), tuple(damaged))


def export(place: str, name: str, *, private_key: Path, to: Path) -> SnapshotId:
    """Write a snapshot as an OpenSSF model-signing bundle. All of its files are read. Raises BAD_INPUT, BAD_USAGE when ``to`` is there."""
    from bridgehead.host.durable import create_durably
    from bridgehead.vault.crypt.modelbundle import model_bundle, read_private_key

    key = read_private_key(private_key)
    vault = open_vault(place)
    snapshot = find(vault, name).snapshot
    bundle = model_bundle(snapshot, lambda file: vault.read(snapshot, file), key)
    try:
        written = create_durably(str(to), bundle)
    except OSError as error:
        raise usage("write a bundle", subject=str(to), happened=error.strerror or str(error), remedy="Name another file.") from error
    if not written:
        raise usage("write a bundle", subject=str(to), happened="it is there already", remedy="Name another file, or remove it.")
    return snapshot.id


def judged(place: str, trust: Path) -> Trust:
    """Judge every snapshot of a vault by a list of trusted keys. Raises BAD_INPUT for the list."""
    known = read_trust(trust)
    found = judge(open_vault(place).place.objects, known)
    others = tuple(one for one in found if one.standing is not Standing.TRUSTED)
    return Trust(len(found) - len(others), others)
