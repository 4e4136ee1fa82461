"""``bridgehead vault forget``, ``retain``, ``hold``, ``tier``, ``drill`` and ``courier`` (R6, R7, R12, R13, M9.3)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app.vaults import open_vault
from bridgehead.cli.main import call
from bridgehead.kernel.ids import WorkloadId
from bridgehead.vault.layout import pack_key


class Shell:
    """Commands carried out in this process, in a folder with a vault ``v`` of three steps."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys, self.err = folder, capsys, ""

    def __call__(self, *words: str, code: int = 0) -> str:
        found = call(["vault", *words])
        out, self.err = self._capsys.readouterr()
        assert found == code, (out, self.err)
        return out

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code))

    def save(self, step: int, *more: str) -> str:
        path = self.folder / f"step-{step}"
        path.mkdir(exist_ok=True)
        (path / "w.bin").write_bytes(bytes([step]) * 5000)
        return str(self.json("save", "v", str(path), "--workload", "train", "--step", str(step), "--site", "a", *more)["id"])

    def steps(self, vault: str = "v") -> list[int]:
        return [info.step for info in open_vault(vault).list(WorkloadId("train"))]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRIDGEHEAD_HOME", str(tmp_path / "home"))
    for name in ("BRIDGEHEAD_EPOCH", "BRIDGEHEAD_SITE", "BRIDGEHEAD_PASSPHRASE", "BRIDGEHEAD_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    shell = Shell(tmp_path, capsys)
    shell("init", "v")
    for step in (1, 2, 3):
        shell.save(step)
    return shell


def test_R6_retain_forgets_what_no_rule_keeps_and_collect_frees_it(shell: Shell) -> None:
    planned = shell.json("retain", "v", "--last", "1", "--dry-run")
    assert (planned["forgotten"], planned["stayed"], shell.steps()) == (0, 1, [3, 2, 1])
    done = shell.json("retain", "v", "--last", "1")
    assert [(one["step"], one["stays"], one["forgotten"]) for one in done["snapshots"]] == [
        (3, True, False),
        (2, False, True),
        (1, False, True),
    ]
    assert "newest usable" in done["snapshots"][0]["reasons"]
    assert shell.steps() == [3]
    shell("collect", "v")
    shell("verify", "v", "--read-data")
    assert shell.json("retain", "v", "--last", "1")["forgotten"] == 0


def test_retain_without_a_rule_deletes_nothing(shell: Shell) -> None:
    shell("retain", "v", code=2)
    shell("retain", "v", "--last", "-1", code=2)
    shell("retain", "v", "--last", "1", "--workload", "trian", code=6)
    assert shell.steps() == [3, 2, 1]


def test_R6_what_another_site_holds_last_and_what_is_pinned_stays(shell: Shell) -> None:
    shell("init", "far")
    shell("replicate", "v", "far", "--site", "b")
    shell.save(4, "--context", "pin=release")
    shell.save(5)
    done = shell.json("retain", "v", "--last", "1")
    why = {one["step"]: one["reasons"] for one in done["snapshots"] if one["stays"]}
    assert set(why) == {5, 4, 3}
    assert "pinned: release" in why[4]
    assert "b" in str(why[3])


def test_R6_a_hold_stops_retention_until_it_is_released(shell: Shell) -> None:
    shell("hold", "v", "train@1", "--reason", "case 7", "--until", "2199-12-31")
    listed = shell.json("hold", "v")["holds"][0]
    assert listed["in_force"]
    assert listed["hold"]["until_s"] == 7_258_118_400
    shell("retain", "v", "--last", "1")
    assert shell.steps() == [3, 1]
    shell("hold", "v", "train@1", "--release", code=2)  # no reason
    shell("hold", "v", "train@1", "--release", "--reason", "closed")
    shell("hold", "v", "train@1", "--release", "--reason", "again", code=2)
    shell("hold", "v", "train@1", "--until", "2001-01-01", code=2)
    shell("hold", "v", "train@1", "--until", "tomorrow", code=2)
    shell("hold", "v", "train@9", code=6)
    shell("retain", "v", "--last", "1")
    assert shell.steps() == [3]


def test_R7_tiers_move_down_by_age_and_up_by_access(shell: Shell) -> None:
    for name in ("w", "c"):
        shell("init", name)
    planned = shell.json("tier", "v", "--to", "w", "--hot", "0.001 s", "--dry-run")
    assert {one["kind"] for one in planned["moves"]} == {"down"}
    assert shell.steps("w") == []
    done = shell.json("tier", "v", "--to", "w", "--to", "c", "--hot", "0.001 s", "--warm", "0.002 s")
    assert [one["to"] for one in done["moves"]] == ["cold", "cold"]
    assert (shell.steps(), shell.steps("c")) == ([3], [2, 1])
    assert done["tiers"][2]["newest_restore_s"] > 0
    assert shell.json("status", "v")["tiers"] == done["tiers"]
    shell("restore", "v", "train@1", "--to", "none", code=6)
    assert "moved to the cold tier, c" in shell.err
    shell("restore", "c", "train@1", "--to", "back")
    back = shell.json("tier", "v", "--to", "w", "--to", "c", "--hot", "1 h", "--warm", "2 h")
    assert [(one["kind"], one["to"]) for one in back["moves"]] == [("up", "hot")] * 2  # all of this is younger than an hour
    assert (shell.steps(), shell.steps("c")) == ([3, 2, 1], [2, 1])
    for words in ((), ("--to", "w"), ("--to", "v", "--hot", "1 h"), ("--to", "w", "--to", "c", "--hot", "2 h", "--warm", "1 h")):
        shell("tier", "v", *words, code=2)


def test_R7_nothing_is_forgotten_when_the_copy_below_is_damaged(shell: Shell) -> None:
    shell("init", "w")
    shell("replicate", "v", "w")
    for path in (shell.folder / "w" / "data").rglob("*"):
        if path.is_file():
            path.write_bytes(b"\0" * path.stat().st_size)
    shell("tier", "v", "--to", "w", "--hot", "0.001 s")
    assert shell.steps() == [3]
    for step in (1, 2):  # healed, and only then forgotten above
        shell("restore", "w", f"train@{step}", "--to", f"back-{step}")


def test_R7_a_held_snapshot_stays_hot(shell: Shell) -> None:
    shell("init", "w")
    shell("hold", "v", "train@1")
    shell("tier", "v", "--to", "w", "--hot", "0.001 s")
    assert (shell.steps(), shell.steps("w")) == ([3, 1], [2])


def test_R13_drill_restores_measures_and_signs_off(shell: Shell) -> None:
    done = shell.json("drill", "v", "--count", "2", "--as", "ann")
    assert done["passed"]
    assert [one["restored_bytes"] for one in done["drills"]] == [5000, 5000]
    assert all(one["by"] == "ann" and one["took_s"] > 0 for one in done["drills"])
    assert done["drills"][0]["snapshot"].startswith("train@3")
    tested = {one["info"]["step"]: one["last"] for one in shell.json("drill", "v", "--list")["snapshots"]}
    assert sum(last is not None for last in tested.values()) == 2
    untested = next(step for step, last in tested.items() if last is None)
    assert shell.json("drill", "v")["drills"][0]["snapshot"].startswith(f"train@{untested}.")
    assert len(shell.json("drill", "v", "--count", "3", "--budget", "1 us")["left_out"]) == 2
    shell("drill", "v", "--weight", "trian=2", code=2)
    shell("drill", "v", "--weight", "train=0", code=2)
    shell("drill", "v", "--count", "0", code=2)
    shell("verify", "v", "--read-data")


def test_R13_a_drill_that_fails_names_what_is_hurt(shell: Shell, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    vault = open_vault("v")
    block = vault.snapshot(vault.list(WorkloadId("train"))[0].id).files[0].blocks[0]
    vault.place.objects.index.refresh()
    for place in vault.place.objects.index.places(block.stored or block.block):
        path = shell.folder / "v" / pack_key(place.pack)
        data = bytearray(path.read_bytes())
        data[place.offset_bytes] ^= 1
        path.write_bytes(data)
    done = shell.json("drill", "v", "--scratch", str(scratch), code=1)
    assert not done["passed"]
    assert "w.bin" in done["drills"][0]["happened"]
    assert list(scratch.iterdir()) == []
    assert "FAILED" in shell("drill", "v", "--list")


def drives(shell: Shell, count: int = 3) -> list[str]:
    for number in range(1, count + 1):
        (shell.folder / f"d{number}").mkdir(exist_ok=True)
    return [f"d{number}" for number in range(1, count + 1)]


def test_M9_3_courier_from_want_to_receipt(shell: Shell) -> None:
    shell("init", "far")
    shell("courier", "want", "far", "--to", "far.want")
    packed = shell.json("courier", "pack", "v", "--to", *drives(shell), "--lacking", "far.want", "--as", "ann")
    assert shell.json("courier", "pack", "v", "--to", *drives(shell), "--as", "ann")["resumed"]
    shell("courier", "custody", "d1", "d2", "--sign", "bob", "--note", "seal 17")
    shutil.rmtree("d3")
    shell("courier", "receive", "far", "--from", "d1", "d2", "--expect", "0" * 64, code=1)
    assert shell.steps("far") == []
    done = shell.json("courier", "receive", "far", "--from", "d1", "d2", "--expect", packed["root"], "--site", "cellar")
    assert (done["whole"], done["missing"], done["receipts"]) == (True, [3], 3)
    assert shell.steps("far") == [3, 2, 1]
    shell("verify", "far", "--read-data")
    chain = shell.json("courier", "custody", "d1")[0]["links"]
    assert [link["handover"]["step"] for link in chain] == ["packed", "handed-over", "received"]
    shell.save(4)
    assert shell.json("replicate", "v", "far")["present"] == 3
    assert shell.json("courier", "receive", "far", "--from", "d1", "d2")["written"] == 0


def test_M9_3_a_broken_custody_is_exit_code_1_and_the_data_is_received(shell: Shell) -> None:
    shell("init", "far")
    shell("courier", "pack", "v", "--to", *drives(shell))
    shell("courier", "custody", "d1", "--sign", "bob")
    (shell.folder / "d1" / "bridgehead-courier" / "custody" / "000001.json").unlink()
    out = shell("courier", "receive", "far", "--from", *drives(shell), code=1)
    assert "CUSTODY BROKEN drive d1, custody entry 2: entry 1 is missing" in out
    assert shell.steps("far") == [3, 2, 1]
    assert "BROKEN" in shell("courier", "custody", "d1", "--show", code=1)


def test_M9_3_an_encrypted_vault_arrives_where_nobody_has_its_key(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGEHEAD_PASSPHRASE", "correct horse battery staple")
    shell("init", "sealed", "--encrypt")
    shell("save", "sealed", "step-1", "--workload", "secretname", "--step", "1", "--site", "a")
    shell("init", "far", "--like", "sealed")
    monkeypatch.delenv("BRIDGEHEAD_PASSPHRASE")
    shell("courier", "pack", "sealed", "--to", *drives(shell))
    for path in (shell.folder / "d1").rglob("*"):
        assert not path.is_file() or b"secretname" not in path.read_bytes()
    done = shell.json("courier", "receive", "far", "--from", "d2", "d3")
    assert (done["whole"], done["keyless"], done["receipts"]) == (True, True, 0)
    shell("init", "plain")
    shell("courier", "receive", "plain", "--from", "d2", "d3", code=7)
    assert "another key" in shell.err
    monkeypatch.setenv("BRIDGEHEAD_PASSPHRASE", "correct horse battery staple")
    shell("verify", "far", "--read-data")
    shell("restore", "far", "secretname", "--to", "back")
    assert (shell.folder / "back" / "w.bin").read_bytes() == b"\1" * 5000


def test_M9_3_wrong_drives_are_told_in_words(shell: Shell) -> None:
    shell("init", "far")
    shell("courier", "pack", "v", "--to", "nowhere", code=6)
    shell("courier", "receive", "far", "--from", "v", code=6)
    shell("courier", "pack", "v", "--to", *drives(shell))
    shell("courier", "receive", "far", "--from", "d1", "d1", code=2)
    shell("courier", "receive", "far", "--from", "d1", code=7)
    assert "missing: drive 2, 3" in shell.err
    shell("courier", "pack", "v", "--to", "d1", "d2", code=2)
    assert "begun with 3 drives" in shell.err


def test_M9_3_plan_says_which_is_quicker(shell: Shell) -> None:
    words = ("courier", "plan", "--size", "50 TB", "--drives", "3", "--drive-size", "40 TB", "--write-speed", "400 MB/s")
    assert shell.json(*words, "--rate", "1 Gbps")["courier_wins"]
    assert not shell.json(*words, "--rate", "10 Gbps")["courier_wins"]
    shell(*words, "--rate", "0 Gbps", code=2)
    shell(*words, "--rate", "1 Gbps", "--parity", "3", code=2)


def test_forget_does_not_guess_which_and_says_that_a_replica_brings_it_back(shell: Shell) -> None:
    saved = [info.id for info in reversed(open_vault("v").list(WorkloadId("train")))]
    shell("init", "w")
    shell("replicate", "v", "w")
    for name in ("train", "train@latest"):
        shell("forget", "v", name, code=2)
        assert saved[-1] in shell.err
    assert "replication" in shell("forget", "v", "train@1")
    assert shell.json("forget", "v", "train", "--yes")["forgotten"] == saved[-1]
    shell("replicate", "w", "v")
    assert {one["id"] for one in shell.json("list", "v")["snapshots"]} == set(saved), "what the output said"


def test_save_of_a_path_that_is_not_there_says_so(shell: Shell) -> None:
    for paths in (["nope"], ["v/../nope", "v/vault.json"]):
        shell("save", "v", *paths, "--workload", "train", "--step", "1", code=2)
        assert "there is no such file or folder" in shell.err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nothing can be made")
def test_restore_to_a_place_that_cannot_be_made_says_so(shell: Shell) -> None:
    shell("restore", "v", "train", "--to", "/proc/out", code=7)
    assert "another process" not in shell.err
