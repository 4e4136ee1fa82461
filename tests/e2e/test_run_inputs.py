"""What is wrong with a file or a command is told before anything begins, with exit code 2 (R14)."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from bridgehead.testing.command_line import CommandLine


def estate(line, **scheduler):
    """The estate, with another connection for the scheduler at fra."""
    document = yaml.safe_load(line.estate.read_text())
    document["sites"]["fra"]["connections"] = {"scheduler": scheduler} if scheduler else {}
    return line.write("other.yaml", document)


BAD_ESTATES = {
    "unknown driver": ({"driver": "slurp", "directory": "x"}, "there is no scheduler driver 'slurp'", ":14:"),
    "unknown option": ({"driver": "process", "directry": "x"}, "unknown key 'directry'", ":15:"),
    "missing option": ({"driver": "process"}, "the key 'directory' is missing", ":14:"),
}


@pytest.mark.parametrize("kind", BAD_ESTATES)
def test_a_bad_connection_is_refused_with_its_place(line, steps, kind) -> None:
    options, happened, _ = BAD_ESTATES[kind]
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.start_job()]})
    refused = line.run("run", "start", book, "--estate", estate(line, **options), "--name", "move")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert happened in refused.stderr
    assert "other.yaml:" in refused.stderr
    assert "sites.fra.connections.scheduler" in refused.stderr
    assert line.run("run", "status", "move").returncode == 6  # nothing was opened


def test_a_site_without_a_scheduler_fails_the_step_and_names_what_is_connected(line, steps) -> None:
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.start_job()]})
    failed = line.run("run", "start", book, "--estate", estate(line), "--name", "move")
    assert failed.returncode == 1
    assert "move: rolled-back (step start-new failed: could not find the scheduler: fra: no scheduler is connected there" in failed.stdout


def test_a_directory_of_another_site_is_refused_before_the_run_is_opened(line, steps) -> None:
    assert line.start([steps.start_job("old", site="ams")], name="before").end().returncode == 0
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.start_job()]})
    refused = line.run(
        "run", "start", book, "--estate", estate(line, driver="process", directory=str(line.folder / "ams")), "--name", "move"
    )
    assert refused.returncode == 7
    assert "ams" in refused.stderr
    assert line.run("run", "status", "move").returncode == 6


def test_a_runbook_with_a_fault_is_refused_with_its_place(line, steps) -> None:
    broken = steps.approval(quorum=3)
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.start_job(), broken, {**broken, "id": "again", "needs": ["nothing"]}]})
    refused = line.run("run", "start", book, "--estate", line.estate)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "[runbook-refused]" in refused.stderr
    assert "b.yaml:" in refused.stderr
    assert "3 approvals are needed, but only 2 people may approve" in refused.stderr
    assert "'nothing'" in refused.stderr


def test_a_file_that_is_not_there_is_named(line, steps) -> None:
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.hold()]})
    for words in (["missing.yaml", "--estate", line.estate], [book, "--estate", "missing.yaml"]):
        refused = line.run("run", "start", *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "missing.yaml" in refused.stderr
        assert "No such file" in refused.stderr


WRONG_USE = {
    "group without a verb": (["run"], "a verb is missing; there are start, "),
    "group that is another file": (["ledger"], "a verb is missing; there are show, verify"),
    "unknown command": (["nonsense"], "there is no verb 'nonsense'"),
    "unknown verb": (["run", "stauts"], "did you mean 'status'?"),
    "missing argument": (["run", "status"], "RUN must be given"),
    "missing option": (["run", "start", "b.yaml"], "--estate must be given"),
    "unknown option": (["run", "status", "move", "--colour"], "--colour"),
    "too many words": (["run", "status", "move", "moves"], "moves"),
    "wrong value": (["dst", "--seeds", "many"], "many"),
}


@pytest.mark.parametrize("kind", WRONG_USE)
def test_wrong_use_ends_with_2_and_a_message_on_stderr(line, kind) -> None:
    words, happened = WRONG_USE[kind]
    refused = line.run(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error [bad-usage]: could not understand the command")
    assert happened in refused.stderr
    assert " --help` shows how it is used" in refused.stderr


def test_help_is_no_error(line) -> None:
    for words in ([], ["--help"], ["run", "--help"], ["run", "start", "--help"], ["--version"]):
        shown = line.run(*words)
        assert (shown.returncode, shown.stderr) == (0, ""), words
        assert shown.stdout.strip()


def test_a_home_that_cannot_be_one_is_told(line) -> None:
    line.write("file", "")
    refused = line.run("run", "list", "--home", line.folder / "file")
    assert refused.returncode == 2
    assert "Name a folder that you may write to" in refused.stderr


def test_a_user_without_a_name_can_run_things(line, steps) -> None:
    """A container may run under a number that no password file knows."""
    if shutil.which("setpriv") is None:
        pytest.skip("NOT TESTED: a user without a name (setpriv is missing)")
    line.folder.chmod(0o777)
    for folder in list(line.folder.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o755)
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.hold("10 ms")]})
    command = line.command("run", "start", book, "--estate", line.estate, "--name", "move", "--json")
    nameless = CommandLine.carry_out(["setpriv", "--reuid", "54321", "--clear-groups", *command], env={**line.env, "LOGNAME": ""})
    if "setresuid" in nameless.stderr:
        pytest.skip("NOT TESTED: a user without a name (needs root)")
    assert nameless.returncode == 0, nameless.stderr
    assert json.loads(nameless.stdout)["mode"] == "done"
