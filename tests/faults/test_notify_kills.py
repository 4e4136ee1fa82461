"""Nothing that was decided on is lost, and nobody hears it twice: kill -9, receivers that fail, disks that are full (issue 6, `notify`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.app.home import Home
from bridgehead.app.notifying import Bell, open_bell
from bridgehead.host.webhook_signature import ID
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.testing.hook_receiver import HookReceiver
from bridgehead.testing.notify_suite import SECRET, notice

TELLER = """
import os, signal, sys, time
from pathlib import Path
from bridgehead.app.home import Home
from bridgehead.app.notifying import required_bell
from bridgehead.testing.notify_suite import notice
bell = required_bell(Home(Path(sys.argv[1])), say=print)
if sys.argv[2] == "deliver":
    bell.start()
for number in range(1, int(sys.argv[3]) + 1):
    bell.post(notice(number))
print("posted", flush=True)
if sys.argv[2] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(1000)
"""


def configure(home: Home, url: str, **more: Any) -> None:
    home.folder.mkdir(mode=0o700, exist_ok=True)
    (home.folder / "secret").write_text(SECRET)
    channels = {"chat": {"driver": "webhook", "url": url, "secrets": [f"file:{home.folder}/secret"]}}
    (home.folder / "notify.yaml").write_text(json.dumps({"notify": "ops", "channels": channels} | more))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def hook() -> Iterator[HookReceiver]:
    with HookReceiver(secret=SECRET) as receiver:
        yield receiver


def bell_of(home: Home, said: list[str]) -> Bell:
    bell = open_bell(home, say=said.append)
    assert bell is not None
    return bell


def teller(home: Home, how: str, count: int) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", TELLER, str(home.folder), how, str(count)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "posted\n"
    return process


def test_what_was_posted_is_told_by_the_next_process(home: Home, hook: HookReceiver) -> None:
    configure(home, hook.url)
    dead = teller(home, "die", 20)
    assert dead.wait() == -signal.SIGKILL
    assert hook.requests == []
    bell = bell_of(home, [])
    bell.start()
    hook.until(lambda: len(hook.taken) == 20)
    bell.close()
    assert [one["data"]["key"] for one in hook.taken.values()] == [notice(number).key for number in range(1, 21)]


def test_what_was_on_its_way_at_a_kill_is_told_again_with_the_same_id(home: Home, hook: HookReceiver) -> None:
    configure(home, hook.url)
    hook.gate.clear()
    dying = teller(home, "deliver", 3)
    hook.until(lambda: hook.requests)
    dying.kill()
    dying.wait()
    hook.gate.set()
    bell = bell_of(home, [])
    bell.start()
    hook.until(lambda: len(hook.taken) == 3)
    hook.until(lambda: bell.outbox.pending() == 0)
    bell.close()
    ids = [headers[ID] for headers, _ in hook.requests]
    assert len(ids) == 4
    assert ids[0] == ids[1], "taken by the receiver, and not known to be"


def test_two_processes_tell_it_once(home: Home, hook: HookReceiver) -> None:
    configure(home, hook.url)
    said: list[str] = []
    first, second = bell_of(home, said), bell_of(home, said)
    for bell in (first, second):
        bell.start()
    assert [bell.post(notice()) for bell in (first, second)] == [True, False]
    assert bell_of(home, said).post(notice()) is False, "nor does a process that comes later"
    second.post(notice(2))
    hook.until(lambda: len(hook.requests) == 2)
    first.close()
    second.post(notice(3))
    hook.until(lambda: len(hook.taken) == 3)
    second.close()
    assert len(hook.requests) == 3
    assert said == []


def test_nobody_else_reads_the_outbox_and_no_secret_is_in_it(home: Home, hook: HookReceiver) -> None:
    responders = {"bot": {"secrets": ["file:/x"], "people": ["ann"]}}
    answers = {"url": "https://b.example", "secret": f"file:{home.folder}/own", "responders": responders}
    configure(home, hook.url, answers=answers)
    own = "the secret of the desk, long enough"
    (home.folder / "own").write_text(own)
    bell = bell_of(home, [])
    bell.start()
    bell.post(notice())
    hook.until(lambda: hook.taken)
    bell.close()
    word = next(iter(hook.taken.values()))["data"]["answer"]["nonces"]["ann"]
    files = [path for path in (home.folder / "notify").iterdir() if path.is_file()]
    assert files
    for path in files:
        assert os.stat(path).st_mode & 0o077 == 0, path
        content = path.read_bytes()
        assert not any(secret.encode() in content for secret in (SECRET, own, word)), path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"secrets": [SECRET]}, "no reference to a secret"),
        ({"url": "http://example.org/x"}, "https:// is needed"),
        ({"driver": "pigeon"}, "no notify driver 'pigeon'"),
        ({"tells": ["gossip"]}, "gossip"),
        ({"sekrets": []}, "sekrets"),
    ],
)
def test_a_notify_file_with_a_fault_is_refused_with_its_place_and_without_what_may_be_secret(
    home: Home, hook: HookReceiver, change: dict[str, Any], words: str
) -> None:
    configure(home, hook.url)
    file = json.loads((home.folder / "notify.yaml").read_text())
    file["channels"]["chat"] |= change
    (home.folder / "notify.yaml").write_text(json.dumps(file))
    with pytest.raises(BridgeheadError, match=words.replace("(", ".")) as refused:
        open_bell(home, say=print)
    assert SECRET not in str(refused.value)
    assert "channels.chat" in str(refused.value)


def test_no_file_tells_nobody(home: Home) -> None:
    assert open_bell(home, say=print) is None
    assert not (home.folder / "notify").exists()


def test_people_whom_no_channel_reaches_are_named(home: Home) -> None:
    configure(home, "https://example.org")
    mail = {
        "driver": "email",
        "server": "127.0.0.1:9",
        "security": "none",
        "sender": "b@example.org",
        "addresses": {"ann": "a@example.org"},
    }
    (home.folder / "notify.yaml").write_text(json.dumps({"notify": "ops", "channels": {"post": mail}}))
    said: list[str] = []
    bell = bell_of(home, said)
    bell.post(notice())
    bell.post(msgspec.structs.replace(notice(2), people=()))
    assert said == [f"no channel reaches bob: {notice().title}", f"no channel reaches anybody: {notice().title}"]
    bell.close(patience_s=0)
