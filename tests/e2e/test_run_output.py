"""What is printed where: one JSON document on stdout, logs on stderr; pipes, terminals, and ledgers that were tampered with (R14, J02)."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import sqlite3
import struct
import subprocess
import termios

import pytest

from bridgehead.runbook import state as st


@pytest.fixture
def finished(line, steps) -> str:
    """A run that is done; returns its head."""
    end = line.start([steps.start_job(), steps.hold("10 ms", needs=("start-new",))]).end()
    assert end.returncode == 0
    return re.search(r"^ledger head ([0-9a-f]{64})$", end.stdout, re.MULTILINE)[1]


@pytest.mark.usefixtures("finished")
def test_every_reading_verb_prints_one_json_document(line) -> None:
    documents = {
        verb: line.run(*verb.split(), *([] if verb == "run list" else ["move"]), "--json")
        for verb in ("run list", "run status", "run watch", "run explain", "ledger show", "ledger verify")
    }
    for verb, done in documents.items():
        assert done.returncode == 0, (verb, done.stderr)
        assert done.stdout.count("\n") == 1, verb
        json.loads(done.stdout)
    read = {verb: json.loads(done.stdout) for verb, done in documents.items()}
    assert [run["run"] for run in read["run list"]["runs"]] == ["move"]
    assert read["run status"]["mode"] == read["run watch"]["mode"] == read["run explain"]["mode"] == "done"
    assert [step["state"] for step in read["run status"]["steps"]] == ["done", "done"]
    assert read["ledger verify"]["faults"] == []
    assert read["ledger verify"]["entries"] == len(read["ledger show"]["entries"])
    assert {"seq", "event", "at_s", "hash", "signature"} <= read["ledger show"]["entries"][0].keys()


def test_driving_with_json_prints_one_document_too(line, steps) -> None:
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.hold("10 ms")]})
    done = line.run("run", "start", book, "--estate", line.estate, "--name", "move", "--json")
    assert json.loads(done.stdout)["mode"] == "done"
    assert "soak: done" in done.stderr
    for words in (["run", "resume", "move"], ["run", "abort", "move"]):
        assert json.loads(line.run(*words, "--json").stdout)["mode"] == "done"
    failed = line.run("run", "status", "nothing", "--json")
    assert failed.returncode == 6
    assert json.loads(failed.stdout)["error"]["code"] == "run-not-found"


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize("verb", ["run list", "run status", "run explain", "ledger show", "ledger verify", "--help", "run --help"])
def test_a_reader_that_leaves_is_no_error(line, verb) -> None:
    words = [*verb.split(), *([] if verb == "run list" or "help" in verb else ["move"])]
    with subprocess.Popen(line.command(*words), env=line.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gone:
        gone.stdout.close()
        assert gone.stderr.read() == b""
        assert gone.wait(timeout=60) in ((1, 141) if "help" in verb else (141,))  # help pages are printed by another library


def test_output_that_cannot_be_written_is_told(line) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(line.command("run", "list"), env=line.env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 7
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("finished")
def test_a_terminal_without_the_signs_gets_others(line) -> None:
    shown = line.run("run", "status", "move", env={"PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0
    assert "start-new" in shown.stdout


def in_terminal(line, *words, rows, columns, cue, act, env=None) -> tuple[int, str]:
    """Exit code and all that a terminal of that size was sent; ``act`` is called once ``cue`` is to be seen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {name: value for name, value in line.env.items() if name not in ("COLUMNS", "NO_COLOR")}
    environment |= {"TERM": "xterm-256color"} | (env or {})
    with subprocess.Popen(
        line.command(*words), env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as program:
        os.close(theirs)
        sent, acted = b"", False
        try:
            while select.select([ours], [], [], 60)[0]:
                try:
                    sent += os.read(ours, 65536)
                except OSError:  # the other end was closed
                    break
                if not acted and cue in sent.decode(errors="replace"):
                    acted = True
                    act()
            return program.wait(timeout=60), sent.decode(errors="replace")
        finally:
            program.kill()
            os.close(ours)


TERMINALS = {
    "usual": (24, 80, {}),
    "narrow": (24, 40, {}),
    "tiny": (6, 20, {}),
    "without colour": (24, 80, {"NO_COLOR": "1"}),
    "dumb": (24, 80, {"TERM": "dumb"}),
}


@pytest.mark.parametrize("kind", TERMINALS)
def test_the_live_table_fits_every_terminal(line, steps, kind) -> None:
    rows, columns, env = TERMINALS[kind]
    more = [{"id": f"wait-{number}", "hold": "1 ms", "needs": ["start-new"]} for number in range(30)]
    ask = steps.approval(needs=tuple(step["id"] for step in more))
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.start_job(), *more, {**ask, "title": "is [/it] good?"}]})

    def approve() -> None:
        line.until_step("move", "agree", st.Asking)
        assert line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0

    words = ["run", "start", book, "--estate", line.estate, "--name", "move"]
    # Six rows have no room for the step that asks.
    cue = {"dumb": "agree: asking", "tiny": "going forward"}.get(kind, "✋")
    code, sent = in_terminal(line, *words, rows=rows, columns=columns, cue=cue, act=approve, env=env)
    assert code == 0, sent
    assert "Traceback" not in sent
    assert "ledger head" in sent
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent)
    if kind == "dumb":
        assert "\x1b[" not in sent
    else:
        assert max(map(len, re.split(r"[\r\n]+", plain.split("move: done")[0]))) <= columns
    assert ("\x1b[32m" in sent) is (kind in ("usual", "narrow", "tiny"))


@pytest.mark.usefixtures("finished")
def test_without_a_terminal_lines_are_not_folded(line) -> None:
    del line.env["COLUMNS"]
    wide = line.run("run", "status", "move").stdout
    assert max(map(len, wide.splitlines())) <= 200
    narrow = line.run("run", "status", "move", env={"COLUMNS": "40"}).stdout
    table = narrow.split("opened")[0]
    assert max(map(len, table.splitlines())) <= 40
    assert "\x1b" not in wide + narrow


TAMPERING = {
    "changed": ("UPDATE events SET payload = CAST(replace(payload, 'precheck', 'apply') AS BLOB) WHERE seq = 3", 3, "content was changed"),
    "unreadable": ("UPDATE events SET payload = 'nonsense' WHERE seq = 4", 4, "content was changed"),
    "dropped": ("DELETE FROM events WHERE seq = 5", 6, "entry 5 is missing before it"),
    "beginning dropped": ("DELETE FROM events WHERE seq < 3", 3, "entries 1 to 2 are missing before it"),
    "not hexadecimal": ("UPDATE events SET signature = 'ü' WHERE seq = 2", 2, "signature is wrong"),
    "cut off": ("DELETE FROM events WHERE seq > 8", 8, "is the last one, and none has the given head"),
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_J02_a_ledger_that_was_tampered_with_does_not_verify(line, finished, kind) -> None:
    statement, seq, problem = TAMPERING[kind]
    assert line.run("ledger", "verify", "move", "--head", finished).returncode == 0
    database = sqlite3.connect(line.home / "journal.db")
    for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {trigger}")
    assert database.execute(statement).rowcount > 0
    database.commit()
    database.close()
    words = ["--head", finished] if kind == "cut off" else []
    verified = line.run("ledger", "verify", "move", *words)
    assert verified.returncode == 1, verified.stderr
    assert f"move, entry {seq}: {problem}" in verified.stdout
    assert "the ledger does NOT hold" in verified.stdout
    faults = json.loads(line.run("ledger", "verify", "move", *words, "--json").stdout)["faults"]
    assert faults[0]["seq"] == seq
    for verb in ("status", "explain", "watch"):
        if kind in ("unreadable", "beginning dropped"):
            unread = line.run("run", verb, "move")
            assert (unread.returncode, "ledger verify" in unread.stderr, "Traceback" in unread.stderr) == (70, True, False), unread.stderr
            assert "unreadable" in line.run("run", "list").stdout
            break


def test_J02_the_ledger_of_one_run_does_not_pass_for_that_of_another(line, finished) -> None:
    database = sqlite3.connect(line.home / "journal.db")
    database.execute("DROP TRIGGER events_are_not_changed")
    database.execute("UPDATE events SET run = 'worse'")
    database.execute("UPDATE runs SET run = 'worse'")
    database.commit()
    database.close()
    verified = line.run("ledger", "verify", "worse", "--head", finished)
    assert (verified.returncode, "worse, entry 1: opens run move, not worse" in verified.stdout) == (1, True), verified.stdout


def test_verify_with_keys_of_an_auditor(line, finished, tmp_path) -> None:
    good, other, none = (tmp_path / name for name in ("good", "other", "none"))
    for folder in (good, other, none):
        folder.mkdir()
    [public] = (line.home / "keys").glob("*.pub")
    (good / public.name).write_text(public.read_text())
    (other / ("0" * 16 + ".pub")).write_text("0" * 64)
    assert line.run("ledger", "verify", "move", "--keys", good, "--head", finished).returncode == 0
    unknown = line.run("ledger", "verify", "move", "--keys", other)
    assert unknown.returncode == 1
    assert f"move, entry 1: is signed with key {public.stem}, which is unknown" in unknown.stdout
    empty = line.run("ledger", "verify", "move", "--keys", none)
    assert (empty.returncode, "no public key (*.pub)" in empty.stderr) == (2, True)


def test_commands_that_are_printed_find_a_home_that_is_not_the_default(line, steps, tmp_path) -> None:
    home = tmp_path / "an other home"
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.approval()]})
    driver = line.drive("run", "start", book, "--estate", line.estate, "--name", "move", "--home", home)
    line.home = home
    line.until_step("move", "agree", st.Asking)
    driver.process.terminate()
    option = f"--home '{home}'"
    assert f"`bridgehead run resume move {option}`" in driver.end().stderr
    explained = line.run("run", "explain", "move", "--home", home).stdout
    commands = [text for text in explained.splitlines() if "bridgehead " in text]
    assert len(commands) >= 4
    assert all(option in command for command in commands)
    for words in (["run", "status", "none"], ["run", "approve", "move", "agree"], ["run", "pause", "move"], ["run", "pause", "move"]):
        done = line.run(*words, "--home", home)
        assert "`bridgehead" not in done.stdout + done.stderr or option in done.stdout + done.stderr
