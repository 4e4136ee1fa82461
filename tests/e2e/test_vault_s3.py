"""A vault in a bucket, through the command line: every verb, both ways of replication, what is missing, and what may not be deleted."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app.wiring import connect
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.testing.seaweed import Seaweed, environ
from bridgehead.testing.servers import free_port

pytestmark = pytest.mark.server("weed")
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "keep-checkpoints-in-s3.md").read_text(encoding="utf-8")
PROGRAM = [sys.executable, "-m", "bridgehead.cli.main", "vault"]
SIZE_BYTES = 9_000_000


class Shell:
    """``bridgehead vault`` as processes that know of the bucket from their environment alone."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "BRIDGEHEAD_"))}
        self.environment = kept | {"HOME": str(folder)} | variables

    def __call__(self, *words: str, code: int = 0) -> str:
        """Its output, or what it says of its failure."""
        done = subprocess.run(
            [*PROGRAM, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout if code == 0 else done.stderr

    def save(self, place: str, step: int) -> bytes:
        """Save new content; returns it."""
        content = os.urandom(SIZE_BYTES)
        (self.folder / "ckpt").mkdir(exist_ok=True)
        (self.folder / "ckpt" / "w.bin").write_bytes(content)
        self("save", place, "ckpt", "--workload", "train", "--step", str(step), "--site", "near")
        return content

    def restored(self, place: str, name: str, to: str) -> bytes:
        """What a restore brings back."""
        self("restore", place, name, "--to", to)
        return (self.folder / to / "w.bin").read_bytes()

    def steps(self, place: str) -> list[int]:
        """Steps of the snapshots that can be used, newest first."""
        return [one["step"] for one in json.loads(self("list", place, "--json"))["snapshots"]]


@pytest.fixture
def shell(tmp_path: Path, weed: Seaweed) -> Shell:
    return Shell(tmp_path, weed.environ())


def test_every_verb_in_a_bucket_and_both_ways_of_replication(weed: Seaweed, shell: Shell) -> None:
    place = f"{weed.make_bucket('every-verb')}/vaults/a"
    assert "no vault" in shell("list", place, code=6)
    for _ in range(2):
        shell("init", place)
    first = shell.save(place, 1)
    assert shell.steps(place) == [1]
    assert shell.restored(place, "train", "first") == first
    assert json.loads(shell("verify", place, "--read-data", "--json"))["read_bytes"] >= SIZE_BYTES
    shell("init", "near")
    assert len(json.loads(shell("replicate", place, "near", "--json"))["copied"]) == 1
    second = shell.save("near", 2)
    copied = json.loads(shell("replicate", "near", place, "--json"))
    assert (len(copied["copied"]), copied["present"]) == (1, 1)
    assert shell.steps(place) == [2, 1]
    assert shell.restored(place, "train@2", "second") == second
    shell("receipt", place, "train", "--site", "far")
    assert json.loads(shell("status", place, "--json"))["workloads"][0]["newest"]["step"] == 2
    shell("forget", place, "train@1")
    shell("collect", place)
    assert shell.steps(place) == [2]
    shell("repair", place)
    assert shell.restored(place, "train", "third") == second


def test_bucket_that_is_encrypted(weed: Seaweed, shell: Shell) -> None:
    place = weed.make_bucket("encrypted")
    shell.environment["BRIDGEHEAD_PASSPHRASE"] = "correct horse battery staple"
    shell("init", place, "--encrypt")
    content = shell.save(place, 1)
    assert shell.restored(place, "train", "back") == content
    assert not any("train" in key for key in weed.blobs(place).list(""))


def test_what_is_missing_is_named(weed: Seaweed, shell: Shell) -> None:
    place = f"{weed.make_bucket('missing-things')}/a"
    assert "no such bucket" in shell("init", "s3://never-was/a", code=7)
    shell.environment["AWS_SECRET_ACCESS_KEY"] = "wrong"
    assert "credentials are refused" in shell("init", place, code=7)
    del shell.environment["AWS_SECRET_ACCESS_KEY"]
    assert "lack the secret key" in shell("init", place, code=2)
    del shell.environment["AWS_ACCESS_KEY_ID"]
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in shell("init", place, code=2)
    shell.environment |= environ(f"http://127.0.0.1:{free_port()}")
    text = shell("list", place, code=7)
    assert "port-transient" in text
    assert "no connection" in text


def test_credentials_and_endpoint_from_a_profile(weed: Seaweed, shell: Shell) -> None:
    keys = weed.environ()
    for name in keys:
        del shell.environment[name]
    (shell.folder / ".aws").mkdir()
    (shell.folder / ".aws" / "credentials").write_text(
        f"[rack]\naws_access_key_id={keys['AWS_ACCESS_KEY_ID']}\naws_secret_access_key={keys['AWS_SECRET_ACCESS_KEY']}\n"
    )
    (shell.folder / ".aws" / "config").write_text(f"[profile rack]\nendpoint_url = {weed.url}\n")
    place = f"{weed.make_bucket('by-profile')}/a?profile=rack"
    shell("init", place)
    content = shell.save(place, 1)
    assert shell.restored(place, "train", "back") == content


def test_V26_backups_succeed_where_nothing_may_be_deleted_and_the_state_lies_elsewhere(weed: Seaweed, shell: Shell) -> None:
    weed.make_bucket("kept")
    weed.make_bucket("kept-state")
    weed.deny_deletes("kept")
    assert "state=s3://" in shell("init", "s3://kept/a", code=7)
    place = "s3://kept/b?state=s3://kept-state/b"
    shell("init", place)
    contents = {step: shell.save(place, step) for step in (1, 2)}
    assert shell.steps(place) == [2, 1]
    for step, content in contents.items():
        assert shell.restored(place, f"train@{step}", f"back-{step}") == content
    assert "retained" in shell("forget", place, "train@1", code=7)
    assert shell.steps(place) == [2, 1]
    assert not any(key.startswith("b/state/") for key in weed.blobs("s3://kept").list(""))
    assert "read_bytes" in shell("verify", place, "--read-data", "--json")


def test_V26_backups_succeed_where_deletes_are_denied_later_on(weed: Seaweed, shell: Shell) -> None:
    place = f"{weed.make_bucket('denied-later')}/a"
    shell("init", place)
    weed.deny_deletes("denied-later")
    contents = {step: shell.save(place, step) for step in (1, 2)}
    assert shell.steps(place) == [2, 1]
    for step, content in contents.items():
        assert shell.restored(place, f"train@{step}", f"back-{step}") == content
    text = shell("collect", place, code=7)
    assert "retained" in text
    assert "state=s3://" in text


def test_V26_backups_succeed_under_object_lock_and_what_was_forgotten_is_still_held(weed: Seaweed, shell: Shell) -> None:
    weed.make_bucket("lock", locked_days=1)
    weed.make_bucket("lock-state")
    place = "s3://lock/a?state=s3://lock-state/a"
    shell("init", place)
    for step in (1, 2):
        content = shell.save(place, step)
    before = weed.versions("lock").count("<Version>")
    shell("forget", place, "train@1")
    shell("collect", place)
    assert shell.steps(place) == [2]
    assert shell.restored(place, "train", "back") == content
    listing = weed.versions("lock")
    assert listing.count("<Version>") >= before
    assert "<DeleteMarker>" in listing
    assert "a/state/" not in listing
    shell("init", "s3://lock/b")  # also with the state in it, whose markers stay as hidden versions
    content = shell.save("s3://lock/b", 1)
    assert shell.restored("s3://lock/b", "train", "back-b") == content
    assert "b/state/" in weed.versions("lock")


def test_site_of_an_estate_may_keep_its_vault_in_a_bucket(weed: Seaweed, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{weed.make_bucket('of-a-site')}/a"
    shell("init", place)
    shell.save(place, 3)
    for name, value in weed.environ().items():
        monkeypatch.setenv(name, value)
    ports = connect({"sites": {"near": {"vault": {"driver": "s3", "url": place, "timeout_s": 5.0}}}, "services": {}})
    newest = ports.vaults.newest(WorkloadId("train"), site=SiteId("near"))
    assert newest is not None
    assert newest.step == 3


def test_page_about_s3_does_what_it_says(weed: Seaweed, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("checkpoints", "checkpoints-state"):
        weed.make_bucket(name)
    weed.make_bucket("checkpoints-kept", locked_days=1)
    (shell.folder / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"<!-- test: s3 -->\n```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in re.sub(r"\\\n\s*", " ", block).splitlines()]
    assert len(commands) == 9
    for dollar, *words in commands:
        assert [dollar, *words[:2]] == ["$", "bridgehead", "vault"]
        shell(*words[2:])
    assert sorted(path.name for path in (shell.folder / "restored").iterdir()) == sorted(
        path.name for path in (ROOT / "examples" / "checkpoints" / "step-100").iterdir()
    )
    for name, value in weed.environ().items():
        monkeypatch.setenv(name, value)
    library = re.search(r"<!-- test: s3 library -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert library is not None
    names: dict[str, Any] = {}
    exec(library[1], names)
    assert names["newest"].step == 100
    names["vault"].load(names["newest"].id)
