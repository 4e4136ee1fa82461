"""An encrypted vault: everything works as in a plain one, and who has no key learns nothing."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from bridgehead.app.wiring import _vaults
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, Permanent
from bridgehead.kernel.ids import Epoch, RunId, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.training import open_vault
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root
from bridgehead.vault.replicate import Pace, replicate

TRAIN, SITE = WorkloadId("secret-model"), SiteId("frankfurt")
RAW = Credentials(raw_key=b"\7" * 32)
SECRET = b"the weights of a model that nobody may see " * 4000


def store(folder: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(str(folder)))


def make(folder: Path, *, ring: KeyRing | None = None, codec: bool = False) -> Vault:
    ring = ring or KeyRing([new_root(now_s=1.0)])
    founding = keys.Founding(ring, (key_file_recipient(b"\7" * 32, now_s=1.0),))
    return Vault.init(store(folder), key=founding, codec=codec, pack_bytes=1 << 16)


def save(vault: Vault, step: int, content: bytes = SECRET) -> SnapshotId:
    files = {"model.bin": content, "notes.txt": b"loss 1.25"}
    return vault.save(files, workload=TRAIN, step=step, epoch=Epoch(0), site=SITE, context={"commit": "4f2a91c"}).id


def send(snapshot: SnapshotId, source: Vault, target: Vault) -> int:
    pace = Pace(math.inf, time.monotonic, lambda _: None)
    return replicate(source.snapshot(snapshot), source=source.place, target=target.place, pace=pace)


@pytest.mark.parametrize("codec", [False, True])
def test_everything_works_as_in_a_plain_vault(tmp_path: Path, codec: bool) -> None:
    saved = save(make(tmp_path / "v", codec=codec), 7)
    vault = Vault.open(store(tmp_path / "v"), key=RAW)
    assert vault.load(saved) == {"model.bin": SECRET, "notes.txt": b"loss 1.25"}
    vault.restore(saved, to=tmp_path / "out")
    assert (tmp_path / "out" / "model.bin").read_bytes() == SECRET
    newest = vault.newest(TRAIN)
    assert newest is not None
    assert newest.verified
    assert vault.workloads() == (TRAIN,)
    assert vault.receipt(saved, site=SITE).blocks > 0
    assert vault.receipt_names() == ((SITE, saved),)
    vault.fence(Fence(TRAIN, Epoch(1), SITE, (saved,), "run-1", 5.0))
    assert Vault.open(store(tmp_path / "v"), key=RAW).newest_fence(TRAIN) == vault.newest_fence(TRAIN)
    report = vault.verify()
    assert report.intact, report.damages
    assert report.snapshots == 1


def test_who_has_no_key_finds_no_word_of_it_and_few_sizes(tmp_path: Path) -> None:
    vault = make(tmp_path / "v")
    saved = save(vault, 7)
    vault.receipt(saved, site=SITE)
    secrets = [b"weights", b"model", TRAIN.encode(), SITE.encode(), b"notes.txt", b"loss", b"4f2a91c", saved.split("-")[-1].encode()]
    for folder, _, files in os.walk(tmp_path / "v"):
        for name in files:
            path = Path(folder) / name
            text = str(path.relative_to(tmp_path)).encode() + path.read_bytes()
            assert not [secret for secret in secrets if secret in text], path
            if path.relative_to(tmp_path / "v").parts[0] in ("snapshots", "receipts", "fences"):
                assert path.stat().st_size == 4096


def test_without_a_key_or_with_a_wrong_one_it_does_not_open(tmp_path: Path) -> None:
    make(tmp_path / "v")
    for key in (None, Credentials(), Credentials(passphrase="wrong"), Credentials(raw_key=b"\1" * 32)):
        with pytest.raises(BridgeheadError) as raised:
            Vault.open(store(tmp_path / "v"), key=key)
        assert raised.value.code is ErrorCode.VAULT_LOCKED
        assert "key-file" in raised.value.happened


def test_a_key_for_a_plain_vault_is_refused(tmp_path: Path) -> None:
    """Else who takes the feature out of vault.json would get everything in clear from then on."""
    Vault.init(store(tmp_path / "v"))
    with pytest.raises(BridgeheadError, match="not encrypted") as raised:
        Vault.open(store(tmp_path / "v"), key=RAW)
    assert raised.value.code is ErrorCode.BAD_USAGE
    assert Vault.open(store(tmp_path / "v"), key=Credentials())


def test_a_vault_that_is_there_gets_no_other_keys(tmp_path: Path) -> None:
    make(tmp_path / "v")
    before = list(store(tmp_path / "v").list("keys/"))
    with pytest.raises(Conflict):
        make(tmp_path / "v")
    assert list(store(tmp_path / "v").list("keys/")) == before


def test_V31_each_flipped_bit_is_found_by_verify_in_every_kind_of_object(tmp_path: Path) -> None:
    vault = make(tmp_path / "v")
    vault.receipt(save(vault, 7), site=SITE)
    vault.fence(Fence(TRAIN, Epoch(1), SITE, (), "run-1", 5.0))
    kinds = set()
    for path in sorted(one for one in (tmp_path / "v").rglob("*") if one.is_file() and "~scratch" not in one.parts):
        kind = path.relative_to(tmp_path / "v").parts[0]
        if kind == "state":
            continue
        kinds.add(kind)
        good = path.read_bytes()
        for at in range(len(good) * 8 // 3, len(good) * 8, max(len(good) * 8 // 4, 1)):
            bad = bytearray(good)
            bad[at // 8] ^= 1 << at % 8
            path.write_bytes(bytes(bad))
            try:
                report = Vault.open(store(tmp_path / "v"), key=RAW).verify()
            except (Damaged, Permanent, BridgeheadError):
                assert kind in ("vault.json", "keys")
            else:
                assert not report.intact, (path, at)
        path.write_bytes(good)
    assert kinds == {"vault.json", "keys", "data", "index", "snapshots", "fences", "receipts"}


def test_two_records_that_changed_places_and_a_foreign_name_are_found(tmp_path: Path) -> None:
    vault = make(tmp_path / "v")
    save(vault, 7)
    save(vault, 8, b"other")
    one, two = sorted((tmp_path / "v" / "snapshots").rglob("*"))[-2:]
    (one_bytes, two_bytes) = one.read_bytes(), two.read_bytes()
    one.write_bytes(two_bytes)
    two.write_bytes(one_bytes)
    assert len([damage for damage in Vault.open(store(tmp_path / "v"), key=RAW).verify().damages if damage.kind == "snapshot"]) == 2
    one.write_bytes(one_bytes)
    two.write_bytes(two_bytes)
    (one.parent / "000000000009-0-0123456789abcdef.json").write_bytes(one_bytes)
    opened = Vault.open(store(tmp_path / "v"), key=RAW)
    newest = opened.newest(TRAIN)
    assert newest is not None
    assert newest.step == 8
    (damage,) = opened.verify().damages
    assert damage.key == f"snapshots/{TRAIN}/~000000000009-0-0123456789abcdef.json"


def test_collect_and_repair_work_on_sealed_packs(tmp_path: Path) -> None:
    vault = make(tmp_path / "v")
    first, second = save(vault, 7, os.urandom(300_000)), save(vault, 8)
    vault.forget(first)
    assert vault.collect().freed_bytes > 250_000
    again = Vault.open(store(tmp_path / "v"), key=RAW)
    again.repair()
    assert again.verify().intact
    assert again.load(second)["model.bin"] == SECRET
    assert [key for key in store(tmp_path / "v").list("state/") if key == "state/reserve"] == []


def test_replication_within_a_family_copies_packs_as_they_are(tmp_path: Path) -> None:
    source = make(tmp_path / "a")
    target = make(tmp_path / "b", ring=source.ring)
    saved = save(source, 7)
    assert send(saved, source, target) == 0
    packs = sorted(key for key in store(tmp_path / "a").list("data/"))
    assert sorted(store(tmp_path / "b").list("data/")) == packs
    assert Vault.open(store(tmp_path / "b"), key=RAW).load(saved)["model.bin"] == SECRET


def test_replication_between_families_or_into_a_plain_vault_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "a")
    saved = save(source, 7)
    for target in (make(tmp_path / "b"), Vault.init(store(tmp_path / "c"))):
        with pytest.raises(Permanent, match="different families") as raised:
            send(saved, source, target)
        assert "--like" in raised.value.remedy


def test_a_new_data_key_of_the_source_reaches_the_recipients_of_the_target(tmp_path: Path) -> None:
    source = make(tmp_path / "a")
    target = make(tmp_path / "b", ring=KeyRing(source.ring.keys if source.ring else ()))
    assert source.ring is not None
    new = keys.rotate(store(tmp_path / "a"), source.ring, now_s=time.time())
    source = Vault.open(store(tmp_path / "a"), key=RAW)
    saved = save(source, 7)
    assert source.ring is not None
    assert source.ring.active == new
    target = Vault.open(store(tmp_path / "b"), key=RAW)
    send(saved, source, target)
    late = Vault.open(store(tmp_path / "b"), key=RAW)
    assert late.ring is not None
    assert late.ring.active == new
    assert late.verify().intact
    assert late.load(saved)["model.bin"] == SECRET


def test_trainers_and_runs_find_the_key_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "a")
    make(tmp_path / "b", ring=source.ring)
    saved = save(source, 7)
    (tmp_path / "key").write_bytes(b"\7" * 32)
    for name in ("BRIDGEHEAD_PASSPHRASE", "BRIDGEHEAD_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    sites = {SiteId(name): {"driver": "localfs", "directory": str(tmp_path / name)} for name in ("a", "b")}
    stamp = Stamp(RunId("run"), StepId("step"), 1, Epoch(1))
    move = {"source": SiteId("a"), "target": SiteId("b"), "budget_s": 60.0, "stamp": stamp}
    with pytest.raises(BridgeheadError, match="no key was given"):
        open_vault(tmp_path / "a")
    with pytest.raises(BridgeheadError, match="no key was given"):
        _vaults(sites).replicate(saved, **move)
    monkeypatch.setenv("BRIDGEHEAD_KEY_FILE", str(tmp_path / "key"))
    assert open_vault(tmp_path / "a").load(saved)["model.bin"] == SECRET
    assert _vaults(sites).replicate(saved, **move).done
    assert open_vault(tmp_path / "b").load(saved)["model.bin"] == SECRET


def test_a_process_that_only_writes_uses_the_new_key_from_its_next_save_on(tmp_path: Path) -> None:
    writer = make(tmp_path / "v")
    late = Vault.open(store(tmp_path / "v"), key=RAW)
    save(late, 7)
    assert writer.ring is not None
    new = keys.rotate(store(tmp_path / "v"), writer.ring, now_s=time.time())
    before = set(store(tmp_path / "v").list("data/"))
    save(late, 8, os.urandom(100_000))
    added = set(store(tmp_path / "v").list("data/")) - before
    assert {store(tmp_path / "v").get(key)[8:12].hex() for key in added} == {new.id}
