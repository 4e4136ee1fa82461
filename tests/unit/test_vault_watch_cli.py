"""``bridgehead vault watch`` and ``vault alarms``: output, JSON and exit codes (R6; V03, V14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bridgehead.cli.main import call

Vault = Callable[..., str]


@pytest.fixture
def vault(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vault:
    """Carries a command out in a folder with a vault ``v``, and gives what it printed, both streams."""
    monkeypatch.chdir(tmp_path)
    for name in ("BRIDGEHEAD_EPOCH", "BRIDGEHEAD_SITE"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, code: int = 0) -> str:
        found = call(["vault", *words])
        out, err = capsys.readouterr()
        assert found == code, out + err
        return out if "--json" in words else out + err

    run("init", "v")
    return run


def write(step: int, *, seed: int, root: str = "out") -> None:
    folder = Path(root) / f"step-{step}"
    folder.mkdir(parents=True)
    save_file({"w": np.random.default_rng(seed).standard_normal(40_000).astype(np.float32)}, folder / "m.safetensors")


WATCH = ("watch", "v", "out", "--workload", "train", "--site", "lab", "--once", "--settle", "0.05 s")


def test_watch_says_what_it_saved_and_what_is_wrong_with_it(vault: Vault) -> None:
    write(10, seed=1)
    assert "step-10, 160 kB in 1 file" in vault(*WATCH)
    assert "nothing new" in vault(*WATCH)
    write(20, seed=1)
    assert "critical: train@20: [no-tensor-changed] no tensor changed since step 10" in vault(*WATCH, code=1)
    write(30, seed=3)
    lines = [json.loads(line) for line in vault(*WATCH, "--json").splitlines()]
    assert (lines[0]["checkpoint"], lines[0]["step"], lines[0]["alarms"]) == ("step-30", 30, [])
    assert (lines[-1]["state"], lines[-1]["saved"], lines[-1]["newest"]) == ("stopped", 1, lines[0]["id"])


def test_watch_refuses_what_it_cannot_do(vault: Vault) -> None:
    assert "not a folder" in vault(*WATCH, code=2)
    Path("out").mkdir()
    assert "holds nothing that looks like one" in vault(*WATCH, code=1)
    assert "bad-quantity" in vault(*WATCH, "--every", "soon", code=2)
    assert "no group" in vault(*WATCH, "--step-from", "x", code=2)


def test_watch_with_a_pattern_and_a_lag(vault: Vault) -> None:
    write(10, seed=1)
    Path("out/step-10").rename("out/model.10.final")
    assert "nothing is saved" in vault(*WATCH, code=1)
    vault(*WATCH, "--step-from", r"model\.([0-9]+)\.final")
    assert "ALARM" in vault(*WATCH, "--step-from", r"model\.([0-9]+)\.final", "--max-lag", "1 ms", code=1)


def test_alarms_exit_codes(vault: Vault) -> None:
    assert "no alarm; 0 judged" in vault("alarms", "v")
    for step, seed in ((10, 1), (20, 2), (30, 2)):
        write(step, seed=seed)
        vault("save", "v", f"out/step-{step}", "--workload", "train", "--step", str(step))
    assert "[no-tensor-changed] no tensor changed since step 20" in vault("alarms", "v", code=1)
    found = json.loads(vault("alarms", "v", "--all", "--read-data", "--json", code=1))
    assert found["judged"] == 3
    assert [(one["code"], one["severity"], one["step"], one["since_step"], one["subjects"]) for one in found["alarms"]] == [
        ("no-tensor-changed", "critical", 30, 20, ["w"])
    ]
    vault("alarms", "v", "--workload", "other", code=6)


def test_V03_alarms_that_cannot_be_told_end_with_3(vault: Vault) -> None:
    header = json.dumps({"w": {"dtype": "F4_INVENTED", "shape": [64], "data_offsets": [0, 32]}}).encode()
    Path("m").mkdir()
    Path("m/m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(32))
    vault("save", "v", "m", "--workload", "train", "--step", "1")
    assert "no alarm" in vault("alarms", "v")
    assert "cannot tell" in vault("alarms", "v", "--read-data", code=3)


def test_pattern_that_matches_nothing_does_not_look_healthy(vault: Vault, capsys: pytest.CaptureFixture[str]) -> None:
    write(10, seed=1)
    vault(*WATCH)
    assert call(["vault", *WATCH, "--step-from", "chk-([0-9]+)", "--status-file", "status.json"]) == 1
    assert "matches no name in" in capsys.readouterr().err
    assert json.loads(Path("status.json").read_bytes())["matching"] == 0


def test_V14_alarm_stands_for_who_looks_again_and_has_nothing_to_save(vault: Vault) -> None:
    write(10, seed=1)
    vault(*WATCH)
    write(20, seed=1)
    for number in (1, 0):
        lines = [json.loads(line) for line in vault(*WATCH, "--json", code=1).splitlines()]
        assert lines[-1]["saved"] == number
        assert [one["code"] for one in lines[-1]["tensor_alarms"]] == ["no-tensor-changed"]
