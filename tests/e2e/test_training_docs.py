"""The examples of docs/how-to/train.md run as they are printed: interrupted in the middle, and gone on with."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bridgehead.kernel.ids import WorkloadId
from bridgehead.training import create_vault
from bridgehead.training.state import decode

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "train.md").read_text(encoding="utf-8")
W = WorkloadId("w")


def example(name: str) -> str:
    found = re.search(rf"<!-- test: {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, f"the page has no example {name}"
    return found[1]


def run(folder: Path, script: str, *, last: int) -> None:
    """Run the example with fewer steps, as a run that is ended by its scheduler would have them."""
    (folder / "train.py").write_text(script.replace("steps(200)", f"steps({last})"))
    env = {
        **os.environ,
        "BRIDGEHEAD_VAULT": str(folder / "vault"),
        "BRIDGEHEAD_WORKLOAD": W,
        "BRIDGEHEAD_SITE": "here",
        "BRIDGEHEAD_CONTROL": str(folder / "control"),
        "BRIDGEHEAD_SAVE_EVERY_STEPS": "50",
    }
    subprocess.run([sys.executable, str(folder / "train.py")], env=env, check=True, timeout=120)


def moved_and_unmoved(tmp_path: Path, script: str) -> tuple[dict, dict, list[int], float]:
    states = []
    for name, ends in (("moved", (77, 200)), ("unmoved", (200,))):
        folder = tmp_path / name
        folder.mkdir()
        vault = create_vault(folder / "vault")
        for end in ends:
            run(folder, script, last=end)
        states.append(decode(vault.load(vault.newest(W).id)))
    loss = float(vault.snapshot(vault.newest(W).id).context["loss"])
    return states[0], states[1], [info.step for info in vault.list(W)], loss


def test_numpy_example_learns_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    moved, unmoved, steps, loss = moved_and_unmoved(tmp_path, example("numpy"))
    assert steps == [200, 150, 100, 50]
    assert moved["weights"].tobytes() == unmoved["weights"].tobytes()
    np.testing.assert_allclose(moved["weights"], np.ones(8), atol=1e-2)
    assert loss < 1e-3


def test_torch_example_learns_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: the PyTorch example of docs/how-to/train.md was NOT run")
    moved, unmoved, steps, loss = moved_and_unmoved(tmp_path, example("torch"))
    assert steps == [200, 150, 100, 50]
    assert moved["model"]["weight"].numpy().tobytes() == unmoved["model"]["weight"].numpy().tobytes()
    assert (
        moved["optimizer"]["state"][0]["exp_avg_sq"].numpy().tobytes() == unmoved["optimizer"]["state"][0]["exp_avg_sq"].numpy().tobytes()
    )
    assert loss < 5


@pytest.mark.slow
def test_dcp_example_resumes_bit_for_bit_on_another_number_of_ranks(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: the DCP example of docs/how-to/train.md was NOT run")
    import torch
    import torch.distributed.checkpoint as dcp

    from bridgehead.training.torch_dcp import VaultReader

    weights = []
    for name, ends in (("moved", ((21, 2), (41, 1))), ("unmoved", ((41, 2),))):
        folder = tmp_path / name
        folder.mkdir()
        vault = create_vault(folder / "vault")
        for end, ranks in ends:
            (folder / "train.py").write_text(example("dcp").replace("range(first, 41)", f"range(first, {end})"))
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "train.py"]
            env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
            subprocess.run(command, cwd=folder, env=env, check=True, timeout=120)
        assert [info.step for info in vault.list(WorkloadId("ddp"))] == [40, 20]
        state = {"model": {"weight": torch.zeros(1, 8)}}
        dcp.load(state, storage_reader=VaultReader(vault, vault.newest(WorkloadId("ddp")).id), no_dist=True)
        weights.append(state["model"]["weight"])
    assert torch.equal(weights[0], weights[1])


def test_torch_tensors_of_every_kind_come_back(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: saving of torch tensors was NOT tested")
    import torch

    from bridgehead.training.state import Capture

    base = torch.arange(12.0)
    state = {
        "bf16": torch.randn(3, 5).to(torch.bfloat16),
        "f8": torch.randn(4).to(torch.float8_e4m3fn),
        "scalar": torch.tensor(3.5),
        "parameter": torch.nn.Parameter(torch.randn(2, 2)),
        "transposed": torch.randn(3, 4).t(),
        "two": {"views": base[:6], "of one": base[3:]},
        "numpy": np.arange(3),
        "flags": torch.tensor([True, False]),
    }
    capture = Capture()
    for _ in range(2):  # the second time into used buffers
        capture.take(state)
        back = decode(capture.files())
        for name in ("bf16", "f8", "scalar", "parameter", "transposed", "flags"):
            assert back[name].dtype == state[name].dtype
            assert back[name].shape == state[name].shape
            assert torch.equal(back[name].float(), state[name].detach().float()), name
        assert torch.equal(back["two"]["views"], base[:6])
        assert torch.equal(back["two"]["of one"], base[3:])
        assert back["numpy"].tolist() == [0, 1, 2]
        base.add_(1)


def test_importing_the_library_imports_neither_torch_nor_numpy() -> None:
    program = "import sys, bridgehead.training; print(*[name for name in ('torch', 'numpy', 'aiohttp', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
