"""What a training session does when its vault or its script fails."""

from __future__ import annotations

import contextlib
import logging
import time
from pathlib import Path

import numpy as np
import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.testing.faulty_blobs import Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.testing.vault_damage import flip_in_block
from bridgehead.training import Session, SessionOptions, create_vault, open_vault
from bridgehead.training.state import decode
from bridgehead.vault import Vault

W = WorkloadId("w")


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return create_vault(tmp_path / "vault")


def options(tmp_path: Path, *, save_every_steps: int = 10) -> SessionOptions:
    return SessionOptions(workload=W, site=SiteId("a"), control=tmp_path / "control", save_every_steps=save_every_steps, report_every_s=0.0)


def train(session: Session, total: int) -> None:
    with session:
        state = session.restore()
        weights = state["w"] if state is not None else np.zeros(4, dtype=np.float32)
        for step in session.steps(total):
            weights += 1
            if session.should_checkpoint(step):
                session.save(step, {"w": weights})


def test_background_error_surfaces_at_the_next_call(tmp_path: Path, vault) -> None:
    reached = []

    def script() -> None:
        with Session(vault, options(tmp_path)) as session:
            for step in session.steps(3):
                reached.append(step)
                session.save(step, {"w": np.zeros(1)}, context={"too long": "x" * (2 << 20)})
                time.sleep(0.1)
                session.should_checkpoint(step)

    with pytest.raises(BridgeheadError) as caught:
        script()
    assert reached == [1]
    assert caught.value.code is ErrorCode.BAD_INPUT
    assert vault.newest(W) is None


def test_an_error_of_the_script_is_not_hidden_and_not_reported_as_finished(tmp_path: Path, vault) -> None:
    def script() -> None:
        with Session(vault, options(tmp_path)) as session:
            for step in session.steps(3):
                session.save(step, {"w": np.zeros(1)})
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        script()
    assert vault.newest(W).step == 1, "the save under way is finished"
    assert b'"running"' in (tmp_path / "control" / "progress.json").read_bytes()


def test_V16_restore_walks_back_and_says_what_it_skipped(tmp_path: Path, vault, caplog) -> None:
    train(Session(vault, options(tmp_path)), 20)
    newest = vault.newest(W)
    block = next(file for file in vault.snapshot(newest.id).files if file.path == "arrays.safetensors").blocks[-1].block
    flip_in_block(tmp_path / "vault", block)
    session = Session(open_vault(tmp_path / "vault"), options(tmp_path))
    with caplog.at_level(logging.WARNING), session:
        assert session.restore()["w"][0] == 10
    assert session.step == 10
    assert any(newest.id in record.message for record in caplog.records)


def test_J11_nothing_that_can_be_loaded_is_not_the_same_as_nothing_saved(tmp_path: Path, vault) -> None:
    train(Session(vault, options(tmp_path, save_every_steps=0)), 5)
    for path in (tmp_path / "vault" / "snapshots").rglob("*.json"):
        path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(BridgeheadError) as caught, Session(open_vault(tmp_path / "vault"), options(tmp_path)) as session:
        session.restore()
    assert caught.value.code is ErrorCode.VAULT_DAMAGED


@pytest.mark.parametrize("kind", [FaultKind.NO_SPACE, FaultKind.IO_ERROR, FaultKind.LOST_ANSWER])
def test_V19_whichever_call_of_a_save_fails_the_next_run_goes_on_from_a_whole_state(tmp_path: Path, vault: Vault, kind: FaultKind) -> None:
    """The script does not catch the error, so it ends; started again, it gets to the same end as if nothing had been."""
    blobs = LocalBlobs(LocalBlobsOptions(directory=str(tmp_path / "vault")))
    for at in range(1, 6):
        faulty = FaultyBlobs(blobs, [Fault(kind, at, Operation.PUT)])
        first = open_vault(tmp_path / "vault").newest(W)
        begin = first.step if first is not None else 0
        with contextlib.suppress(PortError):
            train(Session(Vault.open(faulty), options(tmp_path)), begin + 30)
        assert not faulty.missed
        newest = open_vault(tmp_path / "vault").newest(W)
        assert newest is None or decode(vault.load(newest.id))["w"].tolist() == [newest.step] * 4
        train(Session(open_vault(tmp_path / "vault"), options(tmp_path)), begin + 30)
        end = open_vault(tmp_path / "vault").newest(W)
        assert (end.step, decode(vault.load(end.id))["w"].tolist()) == (begin + 30, [begin + 30] * 4)
