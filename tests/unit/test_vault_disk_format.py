"""docs/formats/vault.md, byte for byte: written down here without the code that it describes."""

import hashlib
from pathlib import Path

from blake3 import blake3

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.vault import SiteVaults, Vault


def envelope(record: str) -> bytes:
    return f'{{"hash":"{hashlib.sha256(record.encode()).hexdigest()}","record":{record}}}\n'.encode()


def test_every_object_is_as_described(tmp_path: Path) -> None:
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path))), now_s=lambda: 1.5)
    saved = vault.save({"d/a": b"hello"}, workload=WorkloadId("train"), step=12, epoch=Epoch(0), site=SiteId("a"), context={"loss": "2"})
    stamp = Stamp(run=RunId("run-1"), step=StepId("s"), attempt=1, epoch=Epoch(4))
    sites = SiteVaults({SiteId("a"): vault})
    sites.receipt(saved.id, site=SiteId("a"), stamp=stamp)
    sites.fence(Fence(WorkloadId("train"), Epoch(1), SiteId("b"), (saved.id,), "run-1", 3.25), site=SiteId("a"), stamp=stamp)

    block = blake3(b"hello").hexdigest()
    digest = blake3(f'["train",12,0,[["d/a",420,5,["{block}"]]]]'.encode()).hexdigest()[:16]
    assert saved.id == f"train@12.0-{digest}"
    files = f'[{{"blocks":[{{"block":"{block}","offset_bytes":0,"size_bytes":5}}],"mode":420,"path":"d/a","size_bytes":5,"tensors":[]}}]'
    table = bytes.fromhex("9193c420" + block + "0805")  # MessagePack: one entry, of 32 bytes, offset 8 and size 5
    pack = b"BHPACK1\n" + b"hello" + table + len(table).to_bytes(8, "little") + b"\nBHPACKE"
    name = blake3(pack).hexdigest()
    index = bytes.fromhex("9193c420" + name) + bytes([len(pack)]) + table  # one pack: its name, its size, its table
    expected = {
        "vault.json": envelope(
            f'{{"created_s":1.5,"family":"","features":["packs-1"],"format":1,"id":"{vault.file.id}","pack_bytes":33554432,"replica_of":""}}'
        ),
        f"data/{name[:2]}/{name}": pack,
        f"index/{blake3(index).hexdigest()}": index,
        f"snapshots/train/000000000012-0-{digest}.json": envelope(
            f'{{"context":{{"loss":"2"}},"created_s":1.5,"epoch":0,"files":{files},"id":"{saved.id}","incomplete":[],'
            '"raw_bytes":5,"site":"a","step":12,"workload":"train"}'
        ),
        f"receipts/a/{saved.id}.json": envelope(f'{{"blocks":1,"raw_bytes":5,"site":"a","snapshot":"{saved.id}","verified_s":1.5}}'),
        "fences/train/00000001.json": envelope(
            f'{{"counts":["{saved.id}"],"epoch":1,"holder":"b","opened_by":"run-1","opened_s":3.25,"workload":"train"}}'
        ),
        "state/reserve": bytes(65536),
        "state/drivers/run-1/00000004": envelope('{"attempt":1,"epoch":4,"run":"run-1","step":"s"}'),
    }
    found = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {key: value for key, value in found.items() if not key.startswith("~scratch/")} == expected
