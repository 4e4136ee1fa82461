"""The Trainer of transformers and Lightning, the real ones, saving into a vault and resuming from it. Skipped where they are missing."""

from pathlib import Path
from typing import Any

import pytest

from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.training import create_vault

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'bridgehead[torch]'")
W = WorkloadId("w")


def huggingface() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed: pip install 'bridgehead[huggingface]'")


def lightning() -> Any:
    return pytest.importorskip("lightning.pytorch", reason="lightning is not installed: pip install 'bridgehead[lightning]'")


def hf_trainer(output: Path, callback: Any, *, steps: int) -> Any:
    transformers = huggingface()
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2)
    rows = [{"input_ids": torch.full((8,), number % 32), "labels": torch.full((8,), number % 32)} for number in range(64)]
    arguments = transformers.TrainingArguments(
        output_dir=str(output),
        max_steps=steps,
        save_steps=2,
        logging_steps=1,
        lr_scheduler_type="constant",  # else it depends on the number of steps
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=0,
    )
    return transformers.Trainer(
        model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=rows, callbacks=[callback] if callback else []
    )


@pytest.mark.slow
def test_huggingface_trainer_saves_and_resumes_from_the_vault(tmp_path: Path) -> None:
    huggingface()
    from bridgehead.training.huggingface import VaultCallback, resume

    vault = create_vault(tmp_path / "vault")
    assert resume(vault, workload=W, output_dir=tmp_path / "moved") is None
    callback = VaultCallback(vault, workload=W)
    hf_trainer(tmp_path / "here", callback, steps=4).train()
    assert [info.step for info in vault.list(W)] == [4, 2]
    assert callback.result.counts
    found = vault.snapshot(vault.newest(W).id)
    assert {"model.safetensors", "optimizer.pt", "trainer_state.json"} <= {file.path for file in found.files}
    assert float(found.context["loss"]) > 0

    folder = resume(vault, workload=W, output_dir=tmp_path / "moved")
    assert Path(folder).name == "checkpoint-4"
    moved = hf_trainer(tmp_path / "moved", VaultCallback(vault, workload=W), steps=6)
    moved.train(resume_from_checkpoint=folder)
    unmoved = hf_trainer(tmp_path / "unmoved", None, steps=6)
    unmoved.train()
    assert vault.newest(W).step == 6
    ours, theirs = moved.model.state_dict(), unmoved.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.slow
def test_J05_fenced_huggingface_trainer_stops(tmp_path: Path) -> None:
    huggingface()
    from bridgehead.training.huggingface import VaultCallback

    vault = create_vault(tmp_path / "vault")
    vault.fence(Fence(workload=W, epoch=Epoch(1), holder=SiteId("b"), counts=(), opened_by="test", opened_s=0.0))
    trainer = hf_trainer(tmp_path / "here", VaultCallback(vault, workload=W), steps=6)
    trainer.train()
    assert trainer.state.global_step == 2
    assert vault.newest(W) is None


def fit(folder: Path, plugin: Any, *, steps: int, ckpt: str | None = None) -> Any:
    pl = lightning()

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            return (self.layer(batch[0]) - batch[0].sum(1, keepdim=True)).pow(2).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(1, 4).repeat(64, 1))  # Lightning begins the data again
    trainer = pl.Trainer(
        max_steps=steps,
        default_root_dir=folder,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        plugins=[plugin] if plugin else [],
        callbacks=[pl.callbacks.ModelCheckpoint(dirpath=folder, every_n_train_steps=2, save_top_k=-1, save_last=True)],
    )
    model = Model()
    # Lightning's checkpoint holds more than weights; it is our own file, verified by the vault.
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8), ckpt_path=ckpt, weights_only=False)
    return model


@pytest.mark.slow
def test_lightning_saves_and_resumes_from_the_vault(tmp_path: Path) -> None:
    lightning()
    from bridgehead.training.lightning import VaultCheckpointIO, resume

    vault = create_vault(tmp_path / "vault")
    assert resume(vault, workload=W, to=tmp_path / "back") is None
    fit(tmp_path / "here", VaultCheckpointIO(vault, workload=W), steps=4)
    assert sorted({info.step for info in vault.list(W)}) == [2, 4]
    moved = fit(tmp_path / "moved", VaultCheckpointIO(vault, workload=W), steps=6, ckpt=resume(vault, workload=W, to=tmp_path / "back"))
    unmoved = fit(tmp_path / "unmoved", None, steps=6)
    assert vault.newest(W).step == 6
    ours, theirs = moved.state_dict(), unmoved.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
