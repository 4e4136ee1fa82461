"""The journal survives the loss of its site: as a file, and in a vault, sealed where the vault is (J09)."""

from __future__ import annotations

import json
import shutil
import signal

import pytest

from bridgehead.runbook import state as st


@pytest.fixture
def vault(line):
    """The witness's, encrypted."""
    line.env["BRIDGEHEAD_PASSPHRASE"] = "correct horse"
    place = line.folder / "witness"
    made = line.run("vault", "init", place, "--encrypt")
    assert made.returncode == 0, made.stderr
    return place


def finished(line, steps, *names: str) -> None:
    for name in names:
        assert line.start([steps.hold("10 ms")], name=name).end().returncode == 0


def other_home(line):
    """A home on another machine, which knows the public keys of the first one."""
    home = line.folder / "elsewhere"
    (home / "keys").mkdir(parents=True)
    for key in (line.home / "keys").glob("*.pub"):
        shutil.copy(key, home / "keys")
    return home


def listed(line, home) -> list[str]:
    return [run["run"] for run in json.loads(line.run("run", "list", "--json", "--home", home).stdout)["runs"]]


def test_all_runs_go_into_a_file_and_come_back(line, steps) -> None:
    finished(line, steps, "zebra", "ant", "bee")
    file, home = line.folder / "copy.jsonl", other_home(line)
    assert line.run("journal", "export", file).returncode == 0
    assert file.stat().st_mode & 0o077 == 0
    taken = line.run("journal", "import", file, "--home", home)
    assert (taken.returncode, "entries of 3 runs" in taken.stdout) == (0, True), taken.stderr
    assert listed(line, home) == ["bee", "ant", "zebra"]
    assert line.run("ledger", "verify", "ant", "--home", home).returncode == 0
    assert "took 0 entries" in line.run("journal", "import", file, "--home", home).stdout


def test_what_was_changed_or_is_signed_by_strangers_is_not_taken(line, steps) -> None:
    finished(line, steps, "one", "two")
    file, home = line.folder / "copy.jsonl", other_home(line)
    line.run("journal", "export", file)
    lines = file.read_text().splitlines()
    row = json.loads(lines[1])
    row["seal"]["signature"] = "00" * 64
    file.write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]))
    taken = line.run("journal", "import", file, "--home", home)
    assert (taken.returncode, "refused one: entry 2 signature is wrong" in taken.stdout) == (1, True), taken.stdout + taken.stderr
    assert listed(line, home) == ["two"]
    file.write_text(file.read_text() + "\nnot a line\n")
    assert "it is not an entry of a journal" in line.run("journal", "import", file, "--home", home).stderr
    strangers = line.folder / "strangers"
    line.run("journal", "export", file)
    refused = line.run("journal", "import", file, "--home", strangers)
    assert (refused.returncode, "is signed with key" in refused.stdout) == (1, True)
    assert line.run("journal", "import", file, "--home", strangers, "--keys", line.home / "keys").returncode == 0


def test_only_what_is_new_travels_to_a_vault_and_nothing_lies_there_in_clear(line, steps, vault) -> None:
    driver = line.start([steps.approval()])
    line.until_step("move", "agree", st.Asking)
    assert "of 1 runs" in line.run("journal", "copy", vault).stdout
    assert "copied 0 entries" in line.run("journal", "copy", vault).stdout
    line.run("run", "approve", "move", "agree", "--as", "ann", "--comment", "clear words")
    assert driver.end().returncode == 0
    assert "of 1 runs" in line.run("journal", "copy", vault).stdout
    for path in vault.rglob("*"):
        assert path.is_dir() or b"clear words" not in path.read_bytes()
        assert "journals" not in path.name
    home = other_home(line)
    restored = line.run("journal", "restore", vault, "--home", home)
    assert restored.returncode == 0, restored.stderr
    assert line.run("run", "status", "move", "--home", home, "--json").stdout.count('"mode":"done"') == 1
    assert line.run("ledger", "verify", "move", "--home", home).returncode == 0
    assert line.run("vault", "verify", vault).returncode == 0


def test_a_journal_that_is_older_than_its_copy_is_not_copied_over_it(line, steps, vault) -> None:
    driver = line.start([steps.approval()])
    line.until_step("move", "agree", st.Asking)
    driver.send(signal.SIGKILL)
    driver.end()
    shutil.copytree(line.home, line.folder / "backup")
    resumed = line.drive("run", "resume", "move")
    line.until("move", lambda state: state.epoch == 2)
    line.run("run", "approve", "move", "agree", "--as", "ann")
    assert resumed.end().returncode == 0
    assert line.run("journal", "copy", vault).returncode == 0
    shutil.rmtree(line.home)
    shutil.copytree(line.folder / "backup", line.home)
    older = line.run("journal", "copy", vault)
    assert (older.returncode, "refused move" in older.stdout) == (1, True)
    # The copy has what the backup lacks.
    restored = line.run("journal", "restore", vault)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert '"mode":"done"' in line.run("run", "status", "move", "--json").stdout
    # Had it gone on for itself, nothing would join the two.
    shutil.rmtree(line.home)
    shutil.copytree(line.folder / "backup", line.home)
    line.run("run", "pause", "move", "--as", "bob")
    apart = line.run("journal", "restore", vault)
    assert (apart.returncode, "each for itself" in apart.stdout) == (1, True), apart.stdout + apart.stderr


def test_a_controller_copies_and_its_successor_elsewhere_goes_on(line, steps, vault) -> None:
    controller = line.drive("controller", "run", "--copy-to", vault)
    book = line.write("move.yaml", {"runbook": "move", "steps": [steps.start_job(), steps.approval(needs=("start-new",))]})
    assert line.run("run", "start", book, "--estate", line.estate, "--name", "move", "--detach").returncode == 0
    line.until_step("move", "agree", st.Asking)
    controller.send(signal.SIGTERM)
    assert controller.end().returncode == 0
    assert line.run("journal", "copy", vault).returncode == 0
    home = other_home(line)
    line.run("journal", "restore", vault, "--home", home)
    assert line.run("run", "approve", "move", "agree", "--as", "ann", "--home", home).returncode == 0
    resumed = line.run("run", "resume", "move", "--home", home)
    assert resumed.returncode == 0, resumed.stderr
    assert steps.starts("new") == 1
    taken = [
        event for event in line.run("ledger", "show", "move", "--home", home, "--json").stdout.split('"event":') if "driver-took" in event
    ]
    assert len(taken) == 2
