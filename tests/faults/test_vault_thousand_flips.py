"""One flipped bit at a thousand random places, in every class of object, plain and sealed: found every time, named, healed (V22, V31)."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from bridgehead.app.vault_copies import Replication
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root
from bridgehead.vault.vaultfile import NoVault

PLACES = 500  # of each of the two vaults
HEALED_EVERY = 10
SITE, TRAIN = SiteId("a"), WorkloadId("train")
RAW = Credentials(raw_key=b"\7" * 32)
HEALABLE = ("data", "snapshots", "receipts")


def opened(folder: Path, *, sealed: bool) -> Vault:
    return Vault.open(LocalBlobs(LocalBlobsOptions(str(folder))), key=RAW if sealed else None)


def made(folder: Path, *, sealed: bool) -> None:
    """A vault with packs of several blocks, deltas, a receipt and a fence."""
    ring = KeyRing([new_root(now_s=1.0)])
    founding = keys.Founding(ring, (key_file_recipient(b"\7" * 32, now_s=1.0),)) if sealed else None
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder))), codec=True, pack_bytes=1 << 16, key=founding)
    chance = random.Random(1)
    content = bytearray(chance.randbytes(200_000))
    for step in (1, 2):
        content[:50] = chance.randbytes(50)
        saved = vault.save({"model.bin": bytes(content), "notes": b"loss"}, workload=TRAIN, step=step, epoch=Epoch(0), site=SITE)
    vault.receipt(saved.id, site=SITE)
    vault.fence(Fence(TRAIN, Epoch(1), SITE, (saved.id,), "run-1", 1.0))


def found_by(folder: Path, *, sealed: bool) -> list[str]:
    """Keys that verify names; what cannot even be opened is named by its error."""
    try:
        return [damage.key for damage in opened(folder, sealed=sealed).verify().damages]
    except (Damaged, NoVault) as error:
        return [error.subject]
    except BridgeheadError as error:
        return [error.happened] if error.code is ErrorCode.VAULT_LOCKED else []


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_V31_flipped_bit_at_any_place_is_found_named_and_healed(tmp_path: Path, sealed: bool) -> None:
    home, replica = tmp_path / "v", tmp_path / "w"
    made(home, sealed=sealed)
    shutil.copytree(home, replica)
    assert found_by(home, sealed=sealed) == []
    classes: dict[str, list[Path]] = {}
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        kind = path.relative_to(home).parts[0]
        if kind not in ("state", "tmp") and not kind.startswith("."):
            classes.setdefault(kind, []).append(path)
    assert {"vault.json", "data", "index", "snapshots", "receipts", "fences"} <= set(classes)
    assert sealed == ("keys" in classes)
    chance, hit, healed = random.Random(f"flips {sealed}"), Counter[str](), Counter[str]()
    for number in range(PLACES):
        kind = sorted(classes)[number % len(classes)]
        path = chance.choice(classes[kind])
        key, intact = path.relative_to(home).as_posix(), path.read_bytes()
        place, bit = chance.randrange(len(intact)), chance.randrange(8)
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 1 << bit]) + intact[place + 1 :])
        named = found_by(home, sealed=sealed)
        told = (
            f"{kind}/" if sealed and "/" in key and kind != "data" else key
        )  # names are sealed, too; who has the key is told the real one
        assert any(told in name for name in named), f"bit {bit} of byte {place} of {key} ({len(intact)} bytes): {named}"
        hit[kind] += 1
        if kind in HEALABLE and hit[kind] % HEALED_EVERY == 1:
            source, target = opened(replica, sealed=sealed), opened(home, sealed=sealed)
            replication = Replication(source, target, site=SITE, heal=True)
            wanted, _ = replication.plan([TRAIN])
            copied = replication.run(wanted, say=lambda _text: None)
            assert copied.failed == (), key
            if kind == "data":  # a pack whose blocks are right is made anew where its table is not
                target.repair()
            assert found_by(home, sealed=sealed) == [], f"{key} was healed"
            healed[kind] += 1
            shutil.rmtree(home)
            shutil.copytree(replica, home)
        path.write_bytes(intact)
    assert min(hit.values()) >= PLACES // len(classes)
    assert set(healed) == set(HEALABLE)
