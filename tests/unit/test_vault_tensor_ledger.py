"""The tensor ledger: saves that succeed and are wrong (V07, V14, V15; R6)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bridgehead.app.vault_alarms import AFTER_SAVE, alarms_after_save, alarms_of
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault import Vault
from bridgehead.vault.tensor_alarm import AlarmCode, Severity
from bridgehead.vault.tensor_health import _e4m3, _e5m2, health
from bridgehead.vault.tensor_ledger import Role, missing_of_series, role_of, stepless

W = WorkloadId("train")
LARGE = 20_000  # elements: more than a shared block holds


class Trainer:
    """Saves dicts of arrays as safetensors, one file for each name."""

    def __init__(self, folder: Path, *, codec: bool = False) -> None:
        self.folder = folder
        self.vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / "vault"))), codec=codec)

    def save(self, step: int, **files: dict[str, np.ndarray]) -> None:
        folder = self.folder / f"step-{step}"
        folder.mkdir()
        for name, tensors in files.items():
            save_file(tensors, folder / f"{name.replace('__', '-')}.safetensors")
        self.vault.save(folder, workload=W, step=step, epoch=Epoch(0), site=SiteId("lab"))

    def alarms(self, *, read_data: bool = False, every: bool = False):
        return alarms_of(self.vault, [W], read_data=read_data, every=every).alarms

    def codes(self, **how: bool) -> list[str]:
        return [alarm.code.value for alarm in self.alarms(**how)]


@pytest.fixture(params=[False, True], ids=["plain", "codec"])
def trainer(request: pytest.FixtureRequest, tmp_path: Path) -> Trainer:
    return Trainer(tmp_path, codec=request.param)


def state(seed: int, *, optimizer: int | None = None) -> dict[str, np.ndarray]:
    weights, moments = np.random.default_rng(seed), np.random.default_rng(1000 + (seed if optimizer is None else optimizer))
    return {
        "layer.weight": weights.standard_normal(LARGE).astype(np.float32),
        "norm.weight": weights.standard_normal(8).astype(np.float32),
        "state.0.exp_avg": moments.standard_normal(LARGE).astype(np.float32),
        "state.0.step": np.array(float(seed), dtype=np.float32),
    }


def test_training_that_goes_on_raises_no_alarm(trainer: Trainer) -> None:
    for step in (10, 20, 30):
        trainer.save(step, model=state(step))
    assert trainer.alarms(every=True, read_data=True) == ()


def test_V14_every_save_after_the_first_writes_the_tensors_of_step_10_again(trainer: Trainer) -> None:
    trainer.save(5, model=state(5))
    for step in (10, 20, 30, 40):
        trainer.save(step, model=state(10))
    (alarm,) = trainer.alarms()
    assert (alarm.code, alarm.severity, alarm.step, alarm.since_step) == (AlarmCode.NO_TENSOR_CHANGED, Severity.CRITICAL, 40, 10)
    assert set(alarm.subjects) == set(state(10))
    assert alarm.text == "no tensor changed since step 10"
    assert [one.step for one in trainer.alarms(every=True)] == [20, 30, 40]


def test_V14_since_when_is_exact_also_long_after(trainer: Trainer) -> None:
    for step in range(AFTER_SAVE + 5):
        trainer.save(step, model=state(max(1, 3 - step)))
    newest = trainer.vault.newest(W)
    assert newest is not None
    (alarm,) = alarms_after_save(trainer.vault, trainer.vault.snapshot(newest.id))
    assert (alarm.code, alarm.since_step) == (AlarmCode.NO_TENSOR_CHANGED, 2)


def test_V14_a_counter_that_goes_on_does_not_hide_frozen_weights(trainer: Trainer) -> None:
    for step in (10, 20, 30):
        trainer.save(step, model={**state(10), "state.0.step": np.array(float(step), dtype=np.float32)})
    assert "weights-frozen" in trainer.codes()


def test_V14_optimizer_frozen_and_weights_frozen(trainer: Trainer) -> None:
    trainer.save(10, model=state(1))
    trainer.save(20, model=state(2, optimizer=2))
    trainer.save(30, model=state(3, optimizer=2))
    trainer.save(40, model=state(4, optimizer=2))
    (alarm,) = trainer.alarms()
    assert (alarm.code, alarm.since_step, alarm.subjects) == (AlarmCode.OPTIMIZER_FROZEN, 20, ("state.0.exp_avg",))
    trainer.save(50, model=state(4, optimizer=5))
    (alarm,) = trainer.alarms()
    assert (alarm.code, alarm.since_step, set(alarm.subjects)) == (AlarmCode.WEIGHTS_FROZEN, 40, {"layer.weight", "norm.weight"})
    trainer.save(60, model=state(6))
    assert trainer.alarms() == ()


def test_V14_one_rank_writes_stale_data(trainer: Trainer) -> None:
    for step in (10, 20):
        trainer.save(step, rank0=state(step), rank1=state(100 + step))
    trainer.save(30, rank0=state(30), rank1=state(120))
    (alarm,) = trainer.alarms()
    assert (alarm.code, alarm.subjects, alarm.since_step) == (AlarmCode.SHARD_FROZEN, ("rank1.safetensors",), 20)


def test_V07_shard_of_a_series_is_missing(trainer: Trainer) -> None:
    a, b = state(1), {f"b.{name}": tensor for name, tensor in state(2).items()}
    trainer.save(10, model__00001__of__00002=a, model__00002__of__00002=b)
    trainer.save(20, model__00001__of__00002=state(3))
    found = {alarm.code: alarm for alarm in trainer.alarms()}
    assert found[AlarmCode.SHARD_MISSING].subjects == ("model-00002-of-00002.safetensors",)
    assert set(found[AlarmCode.TENSOR_MISSING].subjects) == set(b)


def test_V07_resharding_is_no_missing_shard(trainer: Trainer) -> None:
    a, b = state(1), {f"b.{name}": tensor for name, tensor in state(2).items()}
    trainer.save(10, model__00001__of__00002=a, model__00002__of__00002=b)
    merged = {**state(3), **{f"b.{name}": tensor for name, tensor in state(4).items()}}
    trainer.save(20, model=merged)
    assert trainer.codes() == []


def test_a_rank_that_is_gone_is_a_missing_shard(trainer: Trainer) -> None:
    for step in (10, 20):
        trainer.save(step, **{f"rank{rank}": state(step + rank) for rank in range(2 if step == 10 else 1)})
    found = {alarm.code: alarm.subjects for alarm in trainer.alarms()}
    assert found[AlarmCode.SHARD_MISSING] == ("rank1.safetensors",)
    assert set(found[AlarmCode.TENSOR_MISSING]) == {f"rank1.safetensors: {name}" for name in state(1)}


def test_missing_new_and_changed_tensors(trainer: Trainer) -> None:
    before, after = state(1), state(2)
    after["norm.weight"] = after["norm.weight"].astype(np.float16)
    after["layer.weight"] = after["layer.weight"].reshape(-1, 2)
    after["head.weight"] = after.pop("state.0.exp_avg")
    trainer.save(10, model=before)
    trainer.save(20, model=after)
    found = {alarm.code: alarm for alarm in trainer.alarms()}
    assert found[AlarmCode.TENSOR_MISSING].subjects == ("state.0.exp_avg",)
    assert found[AlarmCode.TENSOR_NEW].subjects == ("head.weight",)
    assert found[AlarmCode.DTYPE_CHANGED].subjects == ("norm.weight",)
    assert "F32 became F16" in found[AlarmCode.DTYPE_CHANGED].text
    assert found[AlarmCode.SHAPE_CHANGED].subjects == ("layer.weight",)
    assert found[AlarmCode.TENSOR_NEW].severity is Severity.WARNING


def test_a_small_tensor_that_shares_a_changed_block_is_not_called_frozen(trainer: Trainer) -> None:
    trainer.save(10, model={"a": np.zeros(4, dtype=np.float32), "b.exp_avg": np.ones(4, dtype=np.float32)})
    trainer.save(20, model={"a": np.zeros(4, dtype=np.float32), "b.exp_avg": np.zeros(4, dtype=np.float32)})
    assert trainer.codes() == []


def test_V15_nan_inf_zero_and_norm_with_the_step_since_when(trainer: Trainer) -> None:
    trainer.save(10, model=state(1))
    for step in (20, 30):
        hurt = state(step)
        hurt["layer.weight"][: LARGE // 4] = np.nan
        hurt["state.0.exp_avg"][7] = np.inf
        trainer.save(step, model=hurt)
    found = {alarm.code: alarm for alarm in trainer.alarms(read_data=True)}
    assert set(found) == {AlarmCode.NAN, AlarmCode.INF}
    assert (found[AlarmCode.NAN].subjects, found[AlarmCode.NAN].since_step) == (("layer.weight",), 20)
    assert "layer.weight (25.0%)" in found[AlarmCode.NAN].text
    assert (found[AlarmCode.INF].subjects, found[AlarmCode.INF].since_step) == (("state.0.exp_avg",), 20)
    broken = state(40)
    broken["norm.weight"] *= 0
    broken["layer.weight"] *= 100
    trainer.save(40, model=broken)
    found = {alarm.code: alarm for alarm in trainer.alarms(read_data=True)}
    assert {code: alarm.subjects for code, alarm in found.items()} == {
        AlarmCode.ALL_ZERO: ("norm.weight",), AlarmCode.NORM_JUMP: ("layer.weight",)
    }  # fmt: skip
    assert trainer.codes() == [], "without reading, none of this can be seen"


def test_V03_unknown_dtype_is_cannot_tell_and_never_fine(trainer: Trainer) -> None:
    header = json.dumps({"w": {"dtype": "F4_INVENTED", "shape": [64], "data_offsets": [0, 32]}}).encode()
    for step in (10, 20):
        content = len(header).to_bytes(8, "little") + header + bytes([step]) * 32
        trainer.vault.save({"m.safetensors": content}, workload=W, step=step, epoch=Epoch(0), site=SiteId("lab"))
    (alarm,) = trainer.alarms(read_data=True)
    assert (alarm.code, alarm.severity, alarm.subjects) == (AlarmCode.CANNOT_TELL, Severity.UNKNOWN, ("w",))
    assert "F4_INVENTED" in alarm.text


def test_opaque_files_are_cannot_tell_unless_nothing_changed(trainer: Trainer) -> None:
    for step, content in ((10, b"a" * 1000), (20, b"b" * 1000), (30, b"b" * 1000)):
        files = {"model.opaque": content, "trainer_state.json": str(step).encode()}
        trainer.vault.save(files, workload=W, step=step, epoch=Epoch(0), site=SiteId("lab"))
    assert [alarm.code for alarm in trainer.alarms(every=True)] == [AlarmCode.CANNOT_TELL, AlarmCode.NO_TENSOR_CHANGED]
    assert trainer.alarms()[0].since_step == 20


def test_step_in_the_name_of_a_file_is_left_out() -> None:
    assert stepless("global_step1200/mp_rank_00.pt", 1200, frozenset()) == stepless("global_step1300/mp_rank_00.pt", 1300, frozenset())
    assert stepless("iter_0001200/x", 1200, frozenset()) == stepless("iter_0001300/x", 1300, frozenset())
    assert stepless("model-12001.pt", 1200, frozenset()) == "model-12001.pt"


def test_series() -> None:
    assert missing_of_series(["m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors", "n.bin"]) == ["m-00002-of-00003.safetensors"]
    assert missing_of_series(["m-0-of-2.bin", "m-1-of-2.bin"]) == []
    assert missing_of_series(["m-00001-of-00001.bin"]) == []


@pytest.mark.parametrize(("path", "name", "shape", "role"), [
    ("model.safetensors", "layers.0.attn.v.weight", (4, 4), Role.WEIGHTS), ("optimizer.pt", "state.0.exp_avg", (4,), Role.OPTIMIZER),
    ("m.pt", "optimizer.state.3.exp_avg_sq", (4,), Role.OPTIMIZER), ("m.pt", "opt.v", (4,), Role.OPTIMIZER),
    ("m.pt", "state.3.step", (), Role.OTHER), ("rng_state_1.pth", "cuda", (816,), Role.OTHER),
    ("zero_pp_rank_0_mp_rank_00_optim_states.pt", "optimizer_state_dict.single_partition_of_fp32_groups.0", (9,), Role.WEIGHTS),
])  # fmt: skip
def test_roles(path: str, name: str, shape: tuple[int, ...], role: Role) -> None:
    assert role_of(path, TensorEntry(name, "F32", shape, 0, 4)) is role


def test_health_of_every_known_dtype_across_pieces_that_end_inside_an_element() -> None:
    values = np.array([1.0, -2.0, 0.0, np.nan, np.inf], dtype=np.float32)
    raw = {
        "F64": values.astype("<f8").tobytes(), "F32": values.tobytes(), "F16": values.astype("<f2").tobytes(),
        "BF16": (values.view(np.uint32) >> 16).astype("<u2").tobytes(), "F8_E5M2": bytes([0x3C, 0xC0, 0x00, 0x7E, 0x7C]),
    }  # fmt: skip
    for dtype, data in raw.items():
        found = health(dtype, iter([data[:1], data[1:4], b"", data[4:]]))
        assert (found.elements, found.nan, found.inf, found.zeros) == (5, 1, 1, 1), dtype
        assert found.norm == pytest.approx(5**0.5), dtype
    assert health("I64", iter([np.array([0, 3], dtype="<i8").tobytes()])).zeros == 1
    with pytest.raises(KeyError):
        health("F8_E8M0", iter([b"1"]))


def test_tables_of_8_bit_floats() -> None:
    assert (_e4m3()[0x7E], _e4m3()[0x01], _e4m3()[0x38], _e4m3()[0xB8]) == (448.0, 2.0**-9, 1.0, -1.0)
    assert np.isnan(_e4m3()[[0x7F, 0xFF]]).all()
    assert (_e5m2()[0x7B], _e5m2()[0x01]) == (57344.0, 2.0**-16)


def test_a_number_in_a_name_that_happens_to_be_the_step_is_no_step(trainer: Trainer) -> None:
    """Files that both steps have are the same file, whatever their names say: layer-1 of step 1 is layer-1 of step 2."""
    for step in (1, 2):
        trainer.save(step, **{f"layer__{number}": state(100 * step + number) for number in (1, 2, 3)})
        for folder in trainer.folder.glob("step-*"):
            assert len(list(folder.iterdir())) == 3
    assert trainer.codes() == []
