"""Signatures of snapshots: given at the save, copied with the record, judged by a list of trusted keys."""

from __future__ import annotations

import math
import time
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.crypt import keys, merkle, signing
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root
from bridgehead.vault.crypt.signing import Standing
from bridgehead.vault.records import encode
from bridgehead.vault.replicate import Pace, replicate

TRAIN, SITE = WorkloadId("train"), SiteId("a")
RAW = Credentials(raw_key=b"\7" * 32)


def store(folder: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(str(folder)))


def opened(folder: Path, *, sealed: bool) -> Vault:
    return Vault.open(store(folder), key=RAW if sealed else None)


def save(vault: Vault, step: int, signer: KeyFolder | None) -> SnapshotId:
    vault.signer = signer
    return vault.save({"w.bin": bytes([step]) * 100_000, "n.txt": b"x"}, workload=TRAIN, step=step, epoch=Epoch(0), site=SITE).id


@pytest.fixture(params=[False, True], ids=["plain", "sealed"])
def sealed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def vault(tmp_path: Path, sealed: bool) -> Vault:
    founding = keys.Founding(KeyRing([new_root(now_s=1.0)]), (key_file_recipient(b"\7" * 32, now_s=1.0),))
    return Vault.init(store(tmp_path / "v"), key=founding if sealed else None)


@pytest.fixture
def signer(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "keys")


def test_a_save_is_signed_over_its_record_and_blocks(vault: Vault, signer: KeyFolder) -> None:
    saved = save(vault, 1, signer)
    found = signing.read(vault.place.objects, saved)
    leaves = signing.leaves_of(vault.snapshot(saved))
    assert [found.public_key, found.snapshot, found.leaves] == [signer.public_key, saved, len(leaves)]
    root = bytes.fromhex(found.merkle_root)
    assert merkle.is_proved(leaves[0], 0, size=len(leaves), path=merkle.proof(leaves, 0), root=root)
    assert signer.verify(signer.key_id, found.statement, bytes.fromhex(found.signature))
    assert vault.verify().intact
    assert not vault.sign(saved)


def test_three_findings_are_told_apart(vault: Vault, signer: KeyFolder, tmp_path: Path, sealed: bool) -> None:
    stranger = KeyFolder(tmp_path / "stranger")
    good, unsigned, foreign, bad = save(vault, 1, signer), save(vault, 2, None), save(vault, 3, stranger), save(vault, 4, signer)
    objects = vault.place.objects
    key = signing.signature_key(bad)
    wrong = msgspec.structs.replace(signing.read(objects, bad), signed_s=5.0)
    objects.blobs.delete(key)
    objects.add(key, wrong)
    found = {one.snapshot: one for one in signing.judge(objects, {signer.public_key: "site a"})}
    assert {snapshot: one.standing for snapshot, one in found.items()} == {
        good: Standing.TRUSTED,
        unsigned: Standing.UNSIGNED,
        foreign: Standing.UNKNOWN,
        bad: Standing.BAD,
    }
    assert [found[good].signer, found[foreign].signer] == ["site a", stranger.public_key]
    (damage,) = opened(tmp_path / "v", sealed=sealed).verify().damages
    assert [damage.kind, damage.key] == ["signature", key]
    assert not vault.sign(bad)  # evidence stays


def test_a_signature_does_not_fit_another_record(vault: Vault, signer: KeyFolder) -> None:
    one, other = save(vault, 1, signer), save(vault, 2, signer)
    objects = vault.place.objects
    taken = objects.blobs.get(signing.signature_key(one))
    objects.blobs.delete(signing.signature_key(other))
    objects.blobs.put_new(signing.signature_key(other), taken)
    with pytest.raises(Damaged, match="another record"):
        signing.read(objects, other)


def test_a_record_that_was_rewritten_with_its_hash_is_noticed(vault: Vault, signer: KeyFolder) -> None:
    saved = save(vault, 1, signer)
    objects, record = vault.place.objects, vault.snapshot(saved)
    key = signing.signature_key(saved).removeprefix("signatures/")
    objects.blobs.delete(key)
    objects.blobs.put_new(key, encode(msgspec.structs.replace(record, context={"loss": "0.01"})))
    (damage,) = vault.verify().damages
    assert "another record" in damage.happened


def test_signatures_travel_with_their_records_and_later(vault: Vault, signer: KeyFolder, tmp_path: Path, sealed: bool) -> None:
    ring = vault.ring
    founding = keys.Founding(ring, (key_file_recipient(b"\7" * 32, now_s=1.0),)) if ring is not None else None
    target = Vault.init(store(tmp_path / "b"), key=founding)
    signed, later = save(vault, 1, signer), save(vault, 2, None)
    for snapshot in (signed, later):
        replicate(vault.snapshot(snapshot), source=vault.place, target=target.place, pace=Pace(math.inf, time.monotonic, lambda _: None))
    assert signing.read(target.place.objects, signed).public_key == signer.public_key
    vault.signer = signer
    assert vault.sign(later)
    assert signing.share_signatures(vault.place.objects, target.place.objects) > 0
    assert signing.share_signatures(vault.place.objects, target.place.objects) == 0
    assert [one.standing for one in signing.judge(target.place.objects, {signer.public_key: "a"})] == [Standing.TRUSTED] * 2
    assert opened(tmp_path / "b", sealed=sealed).verify().intact


def test_what_is_forgotten_and_saved_anew_is_signed_anew(vault: Vault, signer: KeyFolder) -> None:
    saved = save(vault, 1, signer)
    vault.forget(saved)
    assert save(vault, 1, signer) == saved
    assert vault.verify().intact


def test_trust_lists(tmp_path: Path) -> None:
    file = tmp_path / "trust"
    file.write_text(f"# ours\n{'ab' * 32} site a  # since May\n\n{'CD' * 32}\n")
    assert signing.read_trust(file) == {"ab" * 32: "site a", "cd" * 32: "cd" * 8}
    for text, happened in (("", "no key"), ("abcd\n", "64 hex"), (f"{'xy' * 32}\n", "64 hex")):
        file.write_text(text)
        with pytest.raises(BridgeheadError, match=happened) as raised:
            signing.read_trust(file)
        assert raised.value.code is ErrorCode.BAD_INPUT
    with pytest.raises(BridgeheadError, match="absent: there is no such file"):
        signing.read_trust(tmp_path / "absent")
