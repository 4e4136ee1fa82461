"""Keys and signatures when the process dies, or the store fails, at every call: nobody is locked out, and the next run completes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.ports.blobs import Blobs
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs
from bridgehead.vault import Vault
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.names import SealedNames
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, RingCipher, new_root
from bridgehead.vault.vaultfile import NoVault

KINDS = [
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
    FaultKind.NO_SPACE,
    FaultKind.IO_ERROR,
    FaultKind.LOST_ANSWER,
    FaultKind.SHORT_WRITE,
]
ONE, TWO, NEW = (Credentials(raw_key=bytes([number]) * 32) for number in (1, 2, 3))
RECIPIENTS = [key_file_recipient(bytes([number]) * 32, now_s=1.0) for number in (1, 2, 3)]
FILES = {"w.bin": b"weights" * 1000}


def store(folder: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(str(folder)))


def make(blobs: Blobs) -> Vault:
    return Vault.init(blobs, key=keys.Founding(KeyRing([new_root(now_s=1.0)]), tuple(RECIPIENTS[:2])))


def opens(blobs: Blobs, found: Credentials) -> KeyRing:
    ring = Vault.open(blobs, key=found).ring
    assert ring is not None
    return ring


def add(blobs: Blobs) -> None:
    keys.add(blobs, opens(blobs, ONE), RECIPIENTS[2])


def remove(blobs: Blobs) -> None:
    ring = opens(blobs, ONE)
    if any(blobs.list(f"keys/{RECIPIENTS[1].id}/")):
        keys.remove(blobs, ring, RECIPIENTS[1].id)


def rotate(blobs: Blobs) -> None:
    keys.rotate(blobs, opens(blobs, ONE), now_s=9.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", [add, remove, rotate])
def test_broken_off_at_each_call_it_locks_nobody_out_and_is_completed(
    tmp_path: Path, action: Callable[[Blobs], None], kind: FaultKind
) -> None:
    if action is remove and kind in (FaultKind.NO_SPACE, FaultKind.SHORT_WRITE):
        return  # a removal writes nothing
    at = hits = 0
    while True:
        at += 1
        blobs = store(tmp_path / f"{at}")
        make(blobs)
        faulty = FaultyBlobs(blobs, [Fault(kind, at)])
        with suppress(Crashed, BridgeheadError):
            action(faulty)
        if faulty.calls < at:
            break
        hits += not faulty.missed
        everybody = [ONE] if action is remove else [ONE, TWO]
        sealed = [RingCipher(opens(blobs, one), "blocks").seal(b"x", label="") for one in everybody]
        for one in everybody:
            assert [RingCipher(opens(blobs, one), "blocks").open(piece, label="") for piece in sealed] == [b"x"] * len(sealed)
        action(blobs)
        everybody += [NEW] if action is add else []
        rings = [opens(blobs, one) for one in everybody]
        assert len({ring.active for ring in rings}) == 1
        assert Vault.open(blobs, key=ONE).verify().intact
        if action is rotate:
            assert rings[0].active.made_s >= 9.0
        if action is remove:
            with pytest.raises(BridgeheadError, match="opens none"):
                opens(blobs, TWO)
            assert list(blobs.list(f"keys/{RECIPIENTS[1].id}/")) == []
    assert hits > 1


@pytest.mark.parametrize("kind", KINDS)
def test_making_a_vault_broken_off_at_each_call_is_repeated(tmp_path: Path, kind: FaultKind) -> None:
    at = hits = 0
    while True:
        at += 1
        blobs = store(tmp_path / f"{at}")
        faulty = FaultyBlobs(blobs, [Fault(kind, at)])
        with suppress(Crashed, BridgeheadError):
            make(faulty)
        if faulty.calls < at:
            break
        hits += not faulty.missed
        if not (tmp_path / f"{at}").exists():
            continue
        try:
            opens(blobs, ONE)
        except (NoVault, BridgeheadError):
            if (tmp_path / f"{at}" / "vault.json").exists():
                assert kind is FaultKind.SHORT_WRITE  # half of vault.json: it is damaged, and says so
                continue
            make(blobs)
        vault = Vault.open(blobs, key=TWO)
        saved = vault.save(FILES, workload=WorkloadId("t"), step=1, epoch=Epoch(0), site=SiteId("a"))
        assert Vault.open(blobs, key=ONE).load(saved.id) == FILES
        assert Vault.open(blobs, key=ONE).verify().intact
    assert hits > 5


def test_two_rotations_and_two_removals_at_once(tmp_path: Path) -> None:
    blobs = store(tmp_path / "v")
    make(blobs)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: keys.rotate(blobs, opens(blobs, ONE), now_s=5.0 + number), range(2)))
    rings = [opens(blobs, ONE), opens(blobs, TWO)]
    assert rings[0].active == rings[1].active
    assert rings[0].keys == rings[1].keys

    def remove_one(number: int) -> bool:
        try:
            keys.remove(blobs, rings[number], RECIPIENTS[number].id)
            return True
        except BridgeheadError:
            return False

    with ThreadPoolExecutor(2) as pool:
        removed = list(pool.map(remove_one, range(2)))
    left = [found for found, gone in zip((ONE, TWO), removed, strict=True) if not gone]
    assert left
    for found in left:
        assert opens(blobs, found).keys == rings[0].keys


@pytest.mark.parametrize("kind", [FaultKind.CRASH_AFTER, FaultKind.IO_ERROR])
def test_a_save_that_dies_anywhere_is_signed_by_the_next_one(tmp_path: Path, kind: FaultKind) -> None:
    signer = KeyFolder(tmp_path / "keys")
    at = 0
    while True:
        at += 1
        blobs = store(tmp_path / f"{at}")
        Vault.init(blobs)
        faulty = FaultyBlobs(blobs, [Fault(kind, at)])
        with suppress(Crashed, BridgeheadError):
            vault = Vault.open(faulty)
            vault.signer = signer
            vault.save(FILES, workload=WorkloadId("t"), step=1, epoch=Epoch(0), site=SiteId("a"))
        if faulty.calls < at:
            break
        again = Vault.open(blobs)
        again.signer = signer
        again.save(FILES, workload=WorkloadId("t"), step=1, epoch=Epoch(0), site=SiteId("a"))
        assert len(list(blobs.list("signatures/"))) == 1
        assert Vault.open(blobs).verify().intact


@given(st.text("abcdefgh234567+@ABZ019.~=-", min_size=1, max_size=60), st.integers(1, 3))
@settings(max_examples=300)
def test_no_listed_name_makes_trouble(segment: str, depth: int) -> None:
    names = SealedNames(bytes(range(64)))
    stored = "/".join(["snapshots", *[segment] * depth])
    opened = names.open(stored)
    assert opened.split("/")[0] == "snapshots"
    assert "~" in opened


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_no_bytes_in_the_folder_of_keys_make_trouble(data: bytes) -> None:
    class One:
        def list(self, prefix: str) -> list[str]:
            return [f"keys/{'0' * 16}/recipient.json", f"keys/{'0' * 16}/{'0' * 8}-{'0' * 32}.age"]

        def get(self, key: str) -> bytes:
            return data

    with pytest.raises(BridgeheadError):
        keys.unlock(One(), family="0" * 32, credentials=Credentials(raw_key=os.urandom(32)))  # type: ignore[arg-type]  # reads only
