"""Damage is found, named and walked around (V15, V16, V22, V31)."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, ExitCode, Permanent
from bridgehead.kernel.ids import Epoch, Person, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.vault_damage import flip_in_block, pack_file, rewrite
from bridgehead.vault import Damaged, ObjectKind, SiteVaults, Vault
from bridgehead.vault.drills import Drill, record_drill
from bridgehead.vault.holds import Hold, place_hold
from bridgehead.vault.records import encode
from bridgehead.vault.vaultfile import VaultFile

A, B, TRAIN = SiteId("a"), SiteId("b"), WorkloadId("train")
STAMP = Stamp(run=RunId("run-1"), step=StepId("s"), attempt=1, epoch=Epoch(1))


def state(step: int) -> dict[str, bytes]:
    values = np.random.default_rng(step).standard_normal((3, 30_000), dtype=np.float32)
    return {"sub/model.safetensors": to_safetensors({name: row for name, row in zip(("wte", "attn.q", "attn.k"), values, strict=True)})}


def store(folder: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(str(folder)))


@pytest.fixture(params=[False, True], ids=["plain", "codec"])
def codec(request: pytest.FixtureRequest) -> bool:
    """Every test runs on a vault that stores blocks as they are, and on one that encodes them."""
    return bool(request.param)


@pytest.fixture
def root(tmp_path: Path, codec: bool) -> Path:
    """A vault with one object of each class: three signed snapshots, a fence that names all, a receipt, a hold, a drill."""
    vault = Vault.init(store(tmp_path / "a"), codec=codec)
    vault.signer = KeyFolder(tmp_path / "keys")
    ids = [vault.save(state(step), workload=TRAIN, step=step, epoch=Epoch(0), site=A).id for step in (1, 2, 3)]
    vault.receipt(ids[2], site=A)
    place_hold(vault.place.objects, Hold(ids[0], Person("eve"), "an audit", 1.0))
    record_drill(vault.place.objects, Drill(ids[0], 1.0, 0.5, 0.5, 9, True, "", Person("eve")))
    vault.fence(Fence(TRAIN, Epoch(1), B, tuple(ids), "run-1", 1.0))
    return tmp_path / "a"


def files_of(root: Path, kind: ObjectKind) -> list[Path]:
    pattern = {
        ObjectKind.VAULT: "vault.json",
        ObjectKind.PACK: "data/*/*",
        ObjectKind.INDEX: "index/*",
        ObjectKind.SNAPSHOT: "snapshots/train/*",
        ObjectKind.RECEIPT: "receipts/a/*",
        ObjectKind.FENCE: "fences/train/*",
        ObjectKind.HOLD: "holds/*/*",
        ObjectKind.DRILL: "drills/*/*",
        ObjectKind.SIGNATURE: "signatures/snapshots/train/*",
    }[kind]
    return sorted(root.glob(pattern))


def flip(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[int((len(data) - 2) * at)] ^= 0x04
    path.write_bytes(bytes(data))


CLASSES = [kind for kind in ObjectKind if kind not in (ObjectKind.KEY, ObjectKind.STATE, ObjectKind.UNKNOWN)]
"""Keys are in sealed vaults only: tests/faults/test_vault_keys_faults.py damages theirs."""


@pytest.mark.parametrize("at", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("kind", CLASSES)
def test_V31_flipped_bit_in_each_class_of_object_is_found_and_named(root: Path, kind: ObjectKind, at: float) -> None:
    vault = Vault.open(store(root))
    assert vault.verify().intact
    path = files_of(root, kind)[-1]
    flip(path, at)
    damages = Vault.open(store(root)).verify().damages if kind is not ObjectKind.VAULT else vault.verify().damages
    named = {(damage.kind, damage.key): damage for damage in damages}
    assert (kind, path.relative_to(root).as_posix()) in named
    if kind not in (
        ObjectKind.INDEX,
        ObjectKind.SNAPSHOT,
    ):  # what rests on these is told too: blocks in no known pack, a signature
        assert len(damages) == 1


def test_file_that_does_not_belong_is_named(root: Path) -> None:
    for name in ("stray", "data/zz/stray", "snapshots/train/stray.json", "fences/train/x.json"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"{}")
    vault = Vault.open(store(root))
    assert {damage.key for damage in vault.verify().damages} == {
        "stray",
        "data/zz/stray",
        "snapshots/train/stray.json",
        "fences/train/x.json",
    }
    assert [passed.key for passed in vault.survey(TRAIN).passed_over] == ["snapshots/train/stray.json"]
    assert vault.newest(TRAIN).step == 3


def test_V22_missing_block_is_named_with_file_and_tensor(root: Path) -> None:
    snapshot = Vault.open(store(root)).list(TRAIN)[0].id
    file = Vault.open(store(root)).snapshot(snapshot).files[0]
    block = file.blocks[2].stored or file.blocks[2].block
    pack_file(root, block).unlink()
    vault = Vault.open(store(root))
    for call in (
        lambda: vault.load(snapshot),
        lambda: vault.receipt(snapshot, site=A),
        lambda: vault.restore(snapshot, to=root.parent / "out"),
    ):
        with pytest.raises(Damaged) as caught:
            call()
        assert caught.value.subject.startswith("block ")
        assert "missing" in caught.value.happened
        assert "sub/model.safetensors (tensor " in caught.value.happened
        assert snapshot in caught.value.happened
        assert caught.value.exit_code is ExitCode.NEGATIVE
    assert not (root.parent / "out").exists()
    (damage,) = vault.verify().damages
    assert any(snapshot in hurt and "tensor " in hurt for hurt in damage.hurts)


def test_V16_newest_walks_back_and_survey_says_why(root: Path) -> None:
    first, second, third = files_of(root, ObjectKind.SNAPSHOT)
    third.write_bytes(third.read_bytes()[:100])
    refs = Vault.open(store(root)).snapshot(Vault.open(store(root)).survey(TRAIN).usable[0].id).files[0].blocks
    rewrite(pack_file(root, refs[1].stored or refs[1].block), lambda data: data[:-1])
    vault = Vault.open(store(root))
    newest = vault.newest(TRAIN)
    assert newest is not None
    assert newest.step == 1
    survey = vault.survey(TRAIN)
    assert [info.step for info in survey.usable] == [1]
    reasons = {passed.key.rsplit("/", 1)[1]: passed.reason for passed in survey.passed_over}
    assert "cannot be read" in reasons[third.name]
    assert "blocks are missing, torn or damaged, first " in reasons[second.name]
    assert first.name not in reasons


@pytest.mark.parametrize("content", [b"", b"\0" * 300, b"null", b"[" * 5000, b'{"hash":"","record":{}}', b"\xff\xfe"])
def test_V16_garbage_record_never_stops_the_listing(root: Path, content: bytes) -> None:
    files_of(root, ObjectKind.SNAPSHOT)[2].write_bytes(content)
    vault = Vault.open(store(root))
    assert vault.newest(TRAIN).step == 2
    assert len(vault.survey(TRAIN).passed_over) == 1


def test_damaged_fence_is_an_error_and_never_a_fall_back(root: Path) -> None:
    flip(files_of(root, ObjectKind.FENCE)[0], 0.5)
    vault = Vault.open(store(root))
    for call in (lambda: vault.newest(TRAIN), lambda: vault.newest_fence(TRAIN), lambda: vault.survey(TRAIN)):
        with pytest.raises(Damaged, match="fences/train/00000001"):
            call()


def test_torn_receipt_is_given_anew(root: Path) -> None:
    (path,) = files_of(root, ObjectKind.RECEIPT)
    path.write_bytes(path.read_bytes()[:40])
    vault = Vault.open(store(root))
    receipt = vault.receipt(vault.list(TRAIN)[0].id, site=A)
    assert vault.verify().intact
    assert vault.receipt(receipt.snapshot, site=A) == receipt


def test_V15_block_damaged_at_the_target_is_found_by_the_receipt_and_healed_by_the_next_copy(root: Path, codec: bool) -> None:
    source, target = Vault.open(store(root)), Vault.init(store(root.parent / "b"), codec=codec)
    sites = SiteVaults({A: source, B: target})
    snapshot = source.list(TRAIN)[0].id
    sites.replicate(snapshot, source=A, target=B, budget_s=9.0, stamp=STAMP)
    ref = source.snapshot(snapshot).files[0].blocks[1]
    block = ref.stored or ref.block
    flip_in_block(root.parent / "b", block, at=7)
    with pytest.raises(Permanent, match=block):
        sites.receipt(snapshot, site=B, stamp=STAMP)
    assert target.find(snapshot).verified is False
    assert sites.replicate(snapshot, source=A, target=B, budget_s=9.0, stamp=STAMP).done
    sites.receipt(snapshot, site=B, stamp=STAMP)
    assert target.verify().intact


def test_damaged_record_at_the_target_is_not_covered_up_by_a_copy(root: Path, codec: bool) -> None:
    source = Vault.open(store(root))
    Vault.init(store(root.parent / "b"), codec=codec)
    snapshot = source.list(TRAIN)[0].id
    SiteVaults({A: source, B: Vault.open(store(root.parent / "b"))}).replicate(snapshot, source=A, target=B, budget_s=9.0, stamp=STAMP)
    flip(next((root.parent / "b" / "snapshots" / "train").iterdir()), 0.5)
    with pytest.raises(Damaged, match="snapshots/train/"):
        SiteVaults({A: source, B: Vault.open(store(root.parent / "b"))}).replicate(snapshot, source=A, target=B, budget_s=9.0, stamp=STAMP)


def test_vault_with_an_unknown_mandatory_feature_is_refused(tmp_path: Path) -> None:
    store(tmp_path).put_new("vault.json", encode(VaultFile(1, ("packs-1", "packs-7"), "ab" * 16, 1.0)))
    with pytest.raises(Permanent, match="packs-7"):
        Vault.open(store(tmp_path))


def test_vault_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    file = {**msgspec.to_builtins(VaultFile(2, (), "ab" * 16, 1.0)), "new_field": 1}
    store(tmp_path).put_new("vault.json", encode(file))
    with pytest.raises(Permanent, match="format 2"):
        Vault.open(store(tmp_path))


def test_place_without_a_vault_and_place_with_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BridgeheadError) as caught:
        Vault.open(store(tmp_path))
    assert caught.value.code is ErrorCode.VAULT_NOT_FOUND
    made = Vault.init(store(tmp_path))
    assert len(made.file.id) == 32
    with pytest.raises(Conflict):
        Vault.init(store(tmp_path))
    assert Vault.open(store(tmp_path)).file == made.file


class Overwriting:
    """A store that does not honour create-only writes."""

    def __init__(self, inner: LocalBlobs) -> None:
        self._inner = inner

    def put_new(self, key: str, data: bytes) -> bool:
        self._inner.delete(key)
        return self._inner.put_new(key, data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_store_that_overwrites_cannot_hold_a_vault(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with pytest.raises(Permanent, match="overwrites"):
        Vault.init(Overwriting(store(tmp_path / "s")))
    assert list(store(tmp_path / "s").list("")) == []
