"""Courier sets: lost, damaged, foreign and doubled drives; a crash, an error or a full disk at every write (M9.3)."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError
from bridgehead.kernel.ids import Epoch, Person, SiteId, SnapshotId, WorkloadId
from bridgehead.ports.blobs import Blobs
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.courier.custody import Chain, Step, read_chain, sign
from bridgehead.vault.courier.drive import Drive
from bridgehead.vault.courier.gather import gather
from bridgehead.vault.courier.layout import Manifest, share_key
from bridgehead.vault.courier.pack import begin, write
from bridgehead.vault.courier.receive import Received, receive
from bridgehead.vault.records import encode

TRAIN, HERE = WorkloadId("train"), SiteId("here")
ME = Person("me")
SHARE = 700
MAX_WRITES = 400


class Scene:
    """A vault with two snapshots, drives and an empty vault elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signer = KeyFolder(folder / "keys")
        source = Vault.init(self.store("source"), pack_bytes=3000)
        rng = random.Random(5)
        self.files = {f"f{number}": rng.randbytes(1500) for number in range(4)}
        self.first = source.save(self.files, workload=TRAIN, step=1, epoch=Epoch(0), site=HERE).id
        self.second = source.save({**self.files, "f1": b"new" * 300}, workload=TRAIN, step=2, epoch=Epoch(0), site=HERE).id
        self.file = source.file
        Vault.init(self.store("target"), pack_bytes=3000)

    def store(self, name: str) -> LocalBlobs:
        return LocalBlobs(LocalBlobsOptions(str(self.folder / name)))

    def drive(self, number: int) -> Drive:
        (self.folder / f"drive{number}").mkdir(exist_ok=True)
        return Drive(f"drive{number}", self.store(f"drive{number}"))

    def drives(self, count: int = 3) -> list[Drive]:
        return [self.drive(number) for number in range(1, count + 1)]

    def pack(self, drives: Sequence[Drive], *, parity: int = 1, present: Sequence[str] = (), share: int = SHARE) -> Manifest:
        store = self.store("source")
        packing = begin(store, self.file, drives, parity=parity, present=present, now_s=1.0, share_bytes=share)
        return write(packing, store, signer=self.signer, moved=lambda _: None)

    def receive(self, drives: Sequence[Drive], *, target: Blobs | None = None) -> Received:
        return receive(gather(drives), target or self.store("target"), before_snapshots=lambda: None, moved=lambda _: None)

    def check_arrived(self) -> None:
        target = Vault.open(self.store("target"))
        assert target.verify().intact
        assert target.load(self.first) == self.files
        assert {info.id for info in target.list(TRAIN)} == {self.first, self.second}

    def check_valid(self) -> None:
        """Whatever happened: no damage, and every snapshot that is listed can be loaded."""
        target = Vault.open(self.store("target"))
        assert target.verify().intact
        for name in target.names(TRAIN):
            assert target.load(name.id)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_M9_3_a_set_brings_the_vault_and_nothing_of_its_keys(scene: Scene) -> None:
    scene.store("source").put_new("keys/age/one", b"secret")
    scene.store("source").put_new("state/notes", b"here only")
    drives = scene.drives()
    scene.pack(drives)
    assert not any("keys/" in entry.key or "state/" in entry.key or entry.key == "vault.json" for entry in gather(drives).entries)
    received = scene.receive(drives)
    assert (received.failed, received.held_back, received.lost_shares) == ((), 0, {})
    scene.check_arrived()
    assert scene.receive(drives).written == 0


@pytest.mark.parametrize(("count", "parity"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_M9_3_any_drives_within_the_parity_may_be_lost(scene: Scene, count: int, parity: int) -> None:
    scene.pack(scene.drives(count), parity=parity)
    for number, left in enumerate(itertools.combinations(range(1, count + 1), count - parity)):
        Vault.init(scene.store(f"target{number}"), pack_bytes=3000)
        assert not scene.receive([scene.drive(one) for one in left], target=scene.store(f"target{number}")).failed
        assert Vault.open(scene.store(f"target{number}")).load(scene.first) == scene.files


def test_too_few_drives_are_named(scene: Scene) -> None:
    drives = scene.drives(4)
    scene.pack(drives, parity=1)
    with pytest.raises(Permanent, match="2 of its 4 drives are here and 3 are needed; missing: drive 2, 4"):
        gather([drives[0], drives[2]])
    with pytest.raises(Permanent, match="no drive was given"):
        gather([])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_M9_3_a_damaged_share_counts_as_lost(scene: Scene) -> None:
    drives = scene.drives()
    scene.pack(drives)
    stripes = sorted((scene.folder / "drive2" / "shares").iterdir())
    flip(stripes[0])
    stripes[1].unlink()
    stripes[2].write_bytes(b"")
    received = scene.receive(drives)
    assert received.lost_shares == {2: 3}
    scene.check_arrived()


def test_a_flipped_bit_anywhere_on_one_drive_does_no_harm(scene: Scene) -> None:
    """One bit in every file of a drive, its label and its manifest too."""
    drives = scene.drives()
    scene.pack(drives)
    for path in (scene.folder / "drive1").rglob("*"):
        if path.is_file() and "~scratch" not in path.parts:
            flip(path)
    assert not scene.receive(drives).failed
    scene.check_arrived()


def test_too_much_damage_is_named_and_no_snapshot_is_committed(scene: Scene) -> None:
    drives = scene.drives()
    scene.pack(drives)
    for number in (1, 3):
        flip(scene.folder / f"drive{number}" / share_key(0))
    received = scene.receive(drives)
    assert received.failed
    assert "shares" in received.failed[0].reason
    assert received.held_back == 2
    assert Vault.open(scene.store("target")).names(TRAIN) == ()
    scene.check_valid()


def test_foreign_doubled_empty_and_unfinished_drives_are_refused_by_name(scene: Scene) -> None:
    drives = scene.drives()
    scene.pack(drives)
    other = [scene.drive(number) for number in (7, 8)]
    scene.pack(other)
    with pytest.raises(Conflict, match=r"drive drive7: it belongs to set"):
        gather([*drives[:2], other[0]])
    with pytest.raises(Conflict, match=r"drive drive1: it is drive 1 of the set, as is drive1"):
        gather([drives[0], scene.drive(1)])
    with pytest.raises(Permanent, match="nothing was packed on it"):
        gather([*drives[:2], scene.drive(9)])
    with pytest.raises(Conflict, match="begun with 3 drives"):
        scene.pack(drives[:2])
    with pytest.raises(Conflict, match="belongs to set"):
        scene.pack([*drives[:2], other[0]])
    for drive in other:
        drive.blobs.delete("manifest.json")
    with pytest.raises(Permanent, match="packing was not finished"):
        gather(other)


def test_a_manifest_that_was_changed_is_refused(scene: Scene) -> None:
    """Shares that fit, with a root that nobody signed."""
    drives = scene.drives(1)
    scene.pack(drives, parity=0)
    path = scene.folder / "drive1" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"signature":"', b'"signature":"0')[:-1])
    with pytest.raises(Damaged, match=r"manifest\.json"):
        gather(drives)


def test_an_object_that_is_damaged_at_the_source_is_not_packed(scene: Scene) -> None:
    pack = next(scene.store("source").list("data/"))
    flip(scene.folder / "source" / pack)
    with pytest.raises(Damaged, match=pack[-20:]):
        scene.pack(scene.drives())


def test_an_object_that_was_collected_since_is_told(scene: Scene) -> None:
    drives = scene.drives()
    begin(scene.store("source"), scene.file, drives, parity=1, present=(), now_s=1.0, share_bytes=SHARE)
    pack = next(scene.store("source").list("data/"))
    scene.store("source").delete(pack)
    with pytest.raises(NotFound, match="collected since"):
        scene.pack(drives)


def every_write() -> range:
    return range(1, MAX_WRITES)


@pytest.mark.parametrize(
    "kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.NO_SPACE, FaultKind.LOST_ANSWER, FaultKind.IO_ERROR]
)
def test_M9_3_packing_stopped_at_any_write_goes_on(scene: Scene, kind: FaultKind) -> None:
    """The second drive fails at its n-th write; the same command again finishes the same set."""
    told: set[str] = set()
    for at in every_write():
        names = [f"pack{at}-{number}" for number in (1, 2, 3)]
        for name in names:
            (scene.folder / name).mkdir()
        plain = [Drive(name, scene.store(name)) for name in names]
        faulty = FaultyBlobs(scene.store(names[1]), [Fault(kind, at, Operation.PUT)])
        try:
            scene.pack([plain[0], Drive(names[1], faulty), plain[2]])
        except Crashed:
            pass
        except PortError as error:
            told.add(error.subject)
        if faulty.missed:
            assert at > 5
            break
        label = plain[0].label()
        scene.pack(plain)
        if label is not None:
            assert label == plain[0].label()
        Vault.init(scene.store(f"to{at}"), pack_bytes=3000)
        assert not scene.receive(plain[1:], target=scene.store(f"to{at}")).failed
        assert Vault.open(scene.store(f"to{at}")).load(scene.first) == scene.files
    else:
        pytest.fail("the plan never ran out of writes")
    assert all(subject.startswith("drive pack") for subject in told)


def test_M9_3_what_is_on_all_drives_is_not_written_again(scene: Scene) -> None:
    """Two chunks; stopped in the second."""
    drives = scene.drives()
    crashing = FaultyBlobs(drives[1].blobs, [Fault(FaultKind.CRASH_BEFORE, 75, Operation.PUT)])
    with pytest.raises(Crashed):
        scene.pack([drives[0], Drive("drive2", crashing), drives[2]], share=50)
    watched = FaultyBlobs(drives[1].blobs, [Fault(FaultKind.CRASH_BEFORE, 70, Operation.PUT)])
    scene.pack([drives[0], Drive("drive2", watched), drives[2]], share=50)
    assert watched.missed, "it wrote the first chunk a second time"
    assert gather(drives).head.chunks == 2
    assert not scene.receive(drives).failed
    scene.check_arrived()


@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.NO_SPACE, FaultKind.TORN_WRITE])
def test_M9_3_receiving_stopped_at_any_write_goes_on(scene: Scene, kind: FaultKind) -> None:
    drives = scene.drives()
    scene.pack(drives)
    for at in every_write():
        Vault.init(scene.store(f"to{at}"), pack_bytes=3000)
        faulty = FaultyBlobs(scene.store(f"to{at}"), [Fault(kind, at, Operation.PUT)])
        try:
            first = scene.receive(drives, target=faulty)
            assert faulty.missed or first.failed  # what lies torn under its name is found by reading back
        except (Crashed, PortError):
            pass
        if faulty.missed:
            assert at > 5
            break
        if kind is not FaultKind.TORN_WRITE:
            target = Vault.open(scene.store(f"to{at}"))
            assert target.verify().intact
            assert all(target.load(name.id) for name in target.names(TRAIN))
        if kind is FaultKind.TORN_WRITE:
            continue
        assert not scene.receive(drives, target=scene.store(f"to{at}")).failed
        assert Vault.open(scene.store(f"to{at}")).load(scene.first) == scene.files
    else:
        pytest.fail("the plan never ran out of writes")


def chain(scene: Scene, drive: Drive) -> Chain:
    label = drive.label()
    assert label is not None
    return read_chain(drive, label)


def signed(scene: Scene) -> Drive:
    drive = scene.drives(1)[0]
    scene.pack([drive], parity=0)
    label = drive.label()
    assert label is not None
    for step, who in ((Step.PACKED, "ann"), (Step.HANDED_OVER, "bob"), (Step.RECEIVED, "cid")):
        sign(drive, label, step, by=Person(who), note="dock 4", signer=scene.signer, now_s=2.0)
    return drive


def test_M9_3_custody_holds_when_nobody_touched_it(scene: Scene) -> None:
    found = chain(scene, signed(scene))
    assert found.faults == ()
    assert [link.handover.by for link in found.links if link.handover] == ["ann", "bob", "cid"]


def rewritten(path: Path, old: bytes, new: bytes) -> None:
    """Changed, with a fresh hash of the record, as somebody would who knows the format."""
    import hashlib

    body = path.read_bytes()
    record = body[body.index(b',"record":') + len(b',"record":') : -2].replace(old, new)
    path.write_bytes(b'{"hash":"' + hashlib.sha256(record).hexdigest().encode() + b'","record":' + record + b"}\n")


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda folder: rewritten(folder / "000002.json", b"bob", b"eve"), "entry 2: its content was changed"),
        (lambda folder: (folder / "000002.json").unlink(), "entry 3: entry 2 is missing"),
        (lambda folder: os.replace(folder / "000003.json", folder / "000002.json"), "entry 2: it says that it is entry 3"),
        (lambda folder: flip(folder / "000001.json"), "entry 1: it cannot be read"),
        (lambda folder: rewritten(folder / "000003.json", b'"signature":"', b'"signature":"00'), "entry 3: its signature is wrong"),
    ],
)
def test_M9_3_a_break_in_custody_names_the_entry(scene: Scene, tamper: Callable[[Path], object], said: str) -> None:
    drive = signed(scene)
    tamper(scene.folder / "drive1" / "custody")
    assert any(said in fault for fault in chain(scene, drive).faults), chain(scene, drive).faults


def test_an_entry_of_another_drive_does_not_stand_in(scene: Scene) -> None:
    drives = scene.drives(2)
    scene.pack(drives)
    for drive in drives:
        label = drive.label()
        assert label is not None
        sign(drive, label, Step.PACKED, by=ME, note="", signer=scene.signer, now_s=1.0)
    path = scene.folder / "drive1" / "custody" / "000001.json"
    path.write_bytes((scene.folder / "drive2" / "custody" / "000001.json").read_bytes())
    assert "another drive" in str(chain(scene, drives[0]).faults)


def test_what_the_target_has_is_not_packed(scene: Scene) -> None:
    from bridgehead.app.vault_copies import Replication

    source, target = Vault.open(scene.store("source")), Vault.open(scene.store("target"))
    replication = Replication(source, target)
    wanted, _ = replication.plan([TRAIN])
    replication.run([one for one in wanted if one.id == scene.first], say=lambda _: None)
    present = list(scene.store("target").list(""))
    drives = scene.drives()
    scene.pack(drives, present=present)
    entries = gather(drives).entries
    assert sum(entry.size_bytes for entry in entries if entry.key.startswith("data/")) < 3000
    scene.receive(drives)
    scene.check_arrived()


def test_M9_3_after_the_courier_the_network_sends_only_the_rest(scene: Scene) -> None:
    from bridgehead.app.vault_copies import Replication

    drives = scene.drives()
    scene.pack(drives)
    source = Vault.open(scene.store("source"))
    later = source.save({**scene.files, "f2": b"later" * 100}, workload=TRAIN, step=3, epoch=Epoch(0), site=HERE).id
    scene.receive(drives)
    target = Vault.open(scene.store("target"))
    replication = Replication(source, target)
    wanted, to_send = replication.plan([TRAIN])
    copied = replication.run(wanted, say=lambda _: None)
    assert to_send == 500
    assert copied.copied == (later,)
    assert copied.present == 2
    assert target.load(SnapshotId(later))["f2"] == b"later" * 100


@pytest.mark.parametrize(
    "change", [{"chunks": ("zz",)}, {"chunks": ("\u00e4" * 64,)}, {"root": "x"}, {"signature": "zz"}, {"public_key": ""}]
)
def test_a_manifest_of_nonsense_with_a_right_hash_counts_as_damaged_on_its_drive(scene: Scene, change: dict[str, object]) -> None:
    """Found by the fuzzer."""
    drives = scene.drives()
    manifest = scene.pack(drives)
    drives[0].blobs.delete("manifest.json")
    drives[0].blobs.put_new("manifest.json", encode(msgspec.structs.replace(manifest, **change)))
    scene.receive(drives)
    scene.check_arrived()


@pytest.mark.parametrize("change", [{"stripe_bytes": 0}, {"data": 0}, {"data": 300}, {"parity": -1}, {"total_bytes": -1}])
def test_a_label_that_says_what_cannot_be_is_damage(scene: Scene, change: dict[str, object]) -> None:
    (drive,) = scene.drives(1)
    scene.pack([drive], parity=0)
    label = drive.label()
    assert label is not None
    drive.blobs.delete("set.json")
    head = msgspec.structs.replace(label.head, **change)
    drive.blobs.put_new("set.json", encode(msgspec.structs.replace(label, head=head)))
    with pytest.raises(Damaged, match=r"cannot be of a set of drives"):
        gather([drive])
