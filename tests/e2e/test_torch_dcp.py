"""PyTorch DCP onto the vault: FSDP2 and DDP, two processes, gloo on the CPU (issue 3, part 12). Skipped where torch is not installed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.training import create_vault
from bridgehead.vault import Vault
from bridgehead.vault.shards import PARTS_PREFIX

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'bridgehead[torch]' (CPU build)")
SCRIPT = Path(__file__).with_name("dcp_ranks.py")
W = WorkloadId("w")


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return create_vault(tmp_path / "vault")


def run(tmp_path: Path, kind: str, action: str, *rest: str, ranks: int = 2) -> Any:
    """All ranks of one job; they meet through a file, so that no port is needed. What rank 0 held in the end."""
    out = tmp_path / f"{kind}-{action}-{ranks}.out"
    meeting = tmp_path / f"meeting-{kind}-{action}-{ranks}"
    processes = []
    for rank in range(ranks):
        env = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "RENDEZVOUS": f"file://{meeting}",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(SCRIPT), kind, action, str(tmp_path / "vault"), str(out), *rest]
        processes.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
    if action == "die":
        processes[1].wait(100)
        try:
            processes[0].wait(5)
        except subprocess.TimeoutExpired:
            processes[0].kill()
    try:
        ended = [(process.communicate(timeout=100)[1], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if action != "die":
        assert [code for _, code in ended] == [0] * ranks, "\n".join(text for text, _ in ended)
        return torch.load(out, weights_only=True)
    return None


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    else:
        assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fsdp", "ddp"])
def test_weights_and_optimizer_are_bit_identical_also_on_another_number_of_ranks(tmp_path: Path, vault: Vault, kind: str) -> None:
    saved = run(tmp_path, kind, "save")
    found = vault.newest(W)
    assert found.step == 3
    assert vault.snapshot(found.id).context["loss"] == "1"
    assert {".metadata", "__0_0.distcp", "__1_0.distcp"} == {file.path for file in vault.snapshot(found.id).files}
    assert list(vault.place.objects.blobs.list(PARTS_PREFIX)) == []
    assert_same(run(tmp_path, kind, "load", found.id), saved)
    assert_same(run(tmp_path, kind, "load", found.id, ranks=1), saved)


@pytest.mark.slow
def test_one_rank_saves_for_two(tmp_path: Path, vault: Vault) -> None:
    saved = run(tmp_path, "fsdp", "save", ranks=1)
    assert_same(run(tmp_path, "fsdp", "load", vault.newest(W).id, ranks=2), saved)


@pytest.mark.slow
def test_async_save_holds_the_state_of_its_moment(tmp_path: Path, vault: Vault) -> None:
    expected = run(tmp_path, "fsdp", "async")
    assert_same(run(tmp_path, "fsdp", "load", vault.newest(W).id), expected)


@pytest.mark.slow
def test_rank_that_dies_leaves_no_snapshot_and_the_next_save_goes_through(tmp_path: Path, vault: Vault) -> None:
    run(tmp_path, "fsdp", "die")
    assert vault.newest(W) is None
    saved = run(tmp_path, "fsdp", "save")
    assert_same(run(tmp_path, "fsdp", "load", vault.newest(W).id), saved)


def states() -> dict[str, Any]:
    base = torch.arange(300_000, dtype=torch.float32)
    return {
        "whole": base,
        "part": base[1000:250_000],
        "turned": torch.randn(300, 200).t(),
        "half": torch.randn(70_000).to(torch.bfloat16),
        "none": torch.empty(0, 4),
        "one": torch.tensor(3.5),
        "flags": torch.rand(9000) > 0.5,
        "nested": {"list": [1, "two", torch.ones(3)]},
    }


def zeros(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: zeros(value) for key, value in node.items()}
    if isinstance(node, list):
        return [zeros(value) for value in node]
    return torch.zeros_like(node) if isinstance(node, torch.Tensor) else node


def test_snapshot_is_an_ordinary_dcp_folder_and_back(tmp_path: Path, vault: Vault) -> None:
    import torch.distributed.checkpoint as dcp

    from bridgehead.training.torch_dcp import VaultReader, VaultWriter

    state = states()
    writer = VaultWriter(lambda: vault, workload="w", step=1)
    dcp.save(state, storage_writer=writer, no_dist=True)
    assert writer.result.id == vault.newest(W).id
    loaded = zeros(states())
    dcp.load(loaded, storage_reader=VaultReader(vault, writer.result.id), no_dist=True)
    assert_same(loaded, state)

    vault.restore(writer.result.id, to=tmp_path / "folder")
    loaded = zeros(states())
    dcp.load(loaded, checkpoint_id=tmp_path / "folder", no_dist=True)
    assert_same(loaded, state)

    dcp.save(state, checkpoint_id=tmp_path / "plain", no_dist=True)
    saved = vault.save(tmp_path / "plain", workload=W, step=2, epoch=Epoch(0), site=SiteId("a"))
    loaded = zeros(states())
    dcp.load(loaded, storage_reader=VaultReader(vault, saved.id), no_dist=True)
    assert_same(loaded, state)


def test_tensors_of_the_cpu_are_not_copied() -> None:
    from bridgehead.training.torch_source import Spliced

    tensor = torch.randn(1_000_000)
    file = Spliced("f")
    file.add_tensor(tensor)
    inside = [piece for piece in file._pieces if torch.frombuffer(piece, dtype=torch.uint8).data_ptr() == tensor.data_ptr()]
    assert [len(piece) for piece in inside] == [4_000_000]
    assert sum(len(piece) for piece in file._pieces) - 4_000_000 < 4096


def test_only_the_wanted_ranges_are_read(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    from bridgehead.app.metered_blobs import MeteredBlobs
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
    from bridgehead.training.torch_dcp import VaultReader, VaultWriter

    read: list[int] = []
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "v"))))
    state = {f"layer{number}": torch.randn(250_000) for number in range(10)}
    dcp.save(state, storage_writer=VaultWriter(vault, workload="w", step=1), no_dist=True)
    metered = Vault.open(MeteredBlobs(LocalBlobs(LocalBlobsOptions(str(tmp_path / "v"))), moved=read.append))
    wanted = {"layer4": torch.zeros(250_000)}
    dcp.load(wanted, storage_reader=VaultReader(metered, vault.newest(W).id), no_dist=True)
    assert torch.equal(wanted["layer4"], state["layer4"])
    assert 1_000_000 <= sum(read) < 1_600_000


def test_damage_other_dtype_and_hostile_tables_are_refused(tmp_path: Path, vault: Vault) -> None:
    import pickle

    import torch.distributed.checkpoint as dcp

    from bridgehead.training.dcp_metadata import read_metadata
    from bridgehead.training.torch_dcp import VaultReader, VaultWriter

    dcp.save({"w": torch.ones(50_000)}, storage_writer=VaultWriter(vault, workload="w", step=1), no_dist=True)
    with pytest.raises(BaseException, match="nothing is cast on the way"):
        dcp.load({"w": torch.ones(50_000, dtype=torch.bfloat16)}, storage_reader=VaultReader(vault, vault.newest(W).id), no_dist=True)
    for pack in (tmp_path / "vault" / "data").glob("*/*"):
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.chmod(0o644)
        pack.write_bytes(data)
    with pytest.raises(BaseException, match="does not match its hash"):
        dcp.load({"w": torch.ones(50_000)}, storage_reader=VaultReader(create_again(tmp_path), vault.newest(W).id), no_dist=True)
    for hostile in (pickle.dumps(os.system), pickle.dumps({"a": 1}), b"", b"\x80"):
        with pytest.raises(BridgeheadError) as raised:
            read_metadata(hostile, subject="x")
        assert raised.value.code is ErrorCode.BAD_INPUT


def create_again(tmp_path: Path) -> Vault:
    from bridgehead.training import open_vault

    return open_vault(tmp_path / "vault")


def test_checkpoint_id_and_uncoordinated_ranks_are_refused(vault: Vault) -> None:
    import torch.distributed.checkpoint as dcp

    from bridgehead.training.torch_dcp import VaultWriter

    with pytest.raises(BridgeheadError, match="checkpoint_id"):
        dcp.save({"w": torch.ones(3)}, storage_writer=VaultWriter(vault, workload="w", step=1), checkpoint_id="there", no_dist=True)
    with pytest.raises(BaseException, match="use_collectives"):
        dcp.save({"w": torch.ones(3)}, storage_writer=VaultWriter(vault, workload="w", step=1), use_collectives=False, no_dist=True)
    assert vault.newest(W) is None
