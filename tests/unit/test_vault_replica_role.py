"""The role of a replica: it collects nothing that its source still needs (R4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.app.vault_copies import Replication
from bridgehead.cli.main import call
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.vault import Vault

TRAIN = WorkloadId("train")


def vault(folder: Path, *, replica_of: str = "") -> Vault:
    return Vault.init(LocalBlobs(LocalBlobsOptions(str(folder))), replica_of=replica_of)


def copy(source: Vault, target: Vault) -> None:
    replication = Replication(source, target, site=SiteId("b"))
    wanted, _ = replication.plan([TRAIN])
    assert replication.run(wanted, say=lambda _text: None).failed == ()


def test_replica_keeps_what_the_source_needs_whatever_is_forgotten_there(tmp_path: Path) -> None:
    source = vault(tmp_path / "a")
    replica = vault(tmp_path / "b", replica_of=source.file.id)
    kept, gone = (
        source.save({"w": bytes([step]) * 100_000}, workload=TRAIN, step=step, epoch=Epoch(0), site=SiteId("a")).id for step in (1, 2)
    )
    copy(source, replica)
    for snapshot in (kept, gone):
        replica.forget(snapshot)
    source.forget(gone)
    done = replica.collect(source=source)
    assert done.freed_bytes > 100_000, "what neither needs goes"
    copy(source, replica)
    assert replica.load(kept) == {"w": b"\1" * 100_000}
    assert replica.verify().intact


def test_collect_of_a_replica_asks_for_its_source(tmp_path: Path) -> None:
    source, other = vault(tmp_path / "a"), vault(tmp_path / "c")
    replica = vault(tmp_path / "b", replica_of=source.file.id)
    with pytest.raises(Permanent, match="may still need it"):
        replica.collect()
    with pytest.raises(Permanent, match=other.file.id):
        replica.collect(source=other)
    with pytest.raises(Permanent, match="no replica"):
        source.collect(source=other)
    assert Vault.open(LocalBlobs(LocalBlobsOptions(str(tmp_path / "b")))).file.replica_of == source.file.id


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert call(["vault", "init", a]) == 0
    assert call(["vault", "init", b, "--replica-of", a, "--json"]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(made["replica_of"]) == 32
    assert call(["vault", "collect", b]) != 0
    assert "--source" in capsys.readouterr().err
    assert call(["vault", "collect", b, "--source", a]) == 0
    assert call(["vault", "init", str(tmp_path / "c"), "--replica-of", a, "--like", a]) == 2
