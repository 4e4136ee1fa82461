"""``bridgehead collect``: the script runs on this host with made-up tools, and over a made-up ssh (M5.1)."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tarfile
import time
from pathlib import Path

import pytest

from bridgehead.testing.capture_gpus import topology

PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
HOST = os.uname().nodename
RECORD = "bridgehead-collect.txt"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def make(tools: Path, name: str, body: str) -> None:
    path = tools / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def run(tools: Path, *arguments: str | Path, limit_s: float = 60) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "NO_COLOR": "1", "TERM": "dumb"}
    command = [PROGRAM, "collect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit_s, check=False)


def record(folder: Path) -> dict[str, str]:
    lines = (folder / RECORD).read_text(encoding="utf-8").splitlines()
    return {line.split(" ", 2)[1]: line.split(" ", 2)[2] for line in lines if line.startswith("tool ")}


def test_what_tools_print_is_kept_and_what_they_lack_is_noted(tools: Path, tmp_path: Path) -> None:
    make(tools, "nvidia-smi", 'case "$*" in "topo -m") printf "\\tGPU0\\tGPU1\\n" ;; *) echo "no device" >&2; exit 9 ;; esac')
    make(tools, "ibstat", "echo words; echo complaint >&2")
    done = run(tools, "-o", tmp_path / "captures")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "captures" / HOST
    assert (folder / "nvidia-smi-topo.txt").read_text() == "\tGPU0\tGPU1\n"
    assert (folder / "ibstat.txt").read_text() == "words\n"
    said = record(folder)
    assert said["nvidia-smi-topo"] == "ran"
    assert said["nvidia-smi-q"] == "failed with 9: no device"
    assert not (folder / "nvidia-smi-q.xml").exists()
    assert said["iblinkinfo"] in ("missing", "needs-root")
    assert said["mounts"] == "ran"
    assert (folder / RECORD).read_text().startswith(f"# bridgehead collect 1\nhost {HOST}\nat ")
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    assert folder.stat().st_mode & 0o077 == 0


def test_a_tool_that_hangs_is_ended_and_its_cut_output_is_not_kept(tools: Path, tmp_path: Path) -> None:
    make(tools, "ibstat", "echo 'Rate: 40'; echo $$ > \"$0.pid\"; trap '' TERM; while :; do sleep 0.2; done")
    began_s = time.monotonic()
    done = run(tools, "-o", tmp_path / "captures", "--timeout", "1")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began_s < 40
    folder = tmp_path / "captures" / HOST
    assert record(folder)["ibstat"] == "timed-out after 1 s"
    assert not (folder / "ibstat.txt").exists()
    process = int((tools / "ibstat.pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_tool_that_is_gone_leaves_no_output_of_an_earlier_collection(tools: Path, tmp_path: Path) -> None:
    make(tools, "ibstat", "echo words")
    assert run(tools, "-o", tmp_path / "captures").returncode == 0
    (tools / "ibstat").unlink()
    assert run(tools, "-o", tmp_path / "captures").returncode == 0
    folder = tmp_path / "captures" / HOST
    assert record(folder)["ibstat"] == "missing"
    assert not (folder / "ibstat.txt").exists()


def test_tools_read_no_input_and_speak_english(tools: Path, tmp_path: Path) -> None:
    make(tools, "ibstat", 'cat; echo "locale $LC_ALL"')
    assert run(tools, "-o", tmp_path / "captures").returncode == 0
    assert (tmp_path / "captures" / HOST / "ibstat.txt").read_text() == "locale C\n"


def test_a_folder_that_cannot_be_made_is_an_error(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tools, "-o", tmp_path / "file" / "captures")
    assert done.returncode == 7
    assert "run the tools of a host" in done.stderr


def test_wrong_use(tools: Path, tmp_path: Path) -> None:
    assert run(tools).returncode == 2
    assert run(tools, "-o", tmp_path / "x", "--timeout", "0").returncode == 2
    done = run(tools, "-o", tmp_path / "x", "--ssh", "-oProxyCommand=true")
    assert done.returncode == 2
    assert not (tmp_path / "x").exists()


def test_the_script_alone_makes_an_archive_that_discover_reads(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "topology").write_text(topology(8, 2))
    make(tools, "nvidia-smi", f'case "$*" in "topo -m") cat {tmp_path}/topology ;; *) exit 1 ;; esac')
    script = run(tools, "--script").stdout
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-s"], input=script.encode(), capture_output=True, env=environment, timeout=60, check=True)
    archive = tmp_path / "x.tar"
    archive.write_bytes(done.stdout)
    with tarfile.open(archive) as stream:
        assert stream.getnames()[0] == f"{HOST}/{RECORD}"
    facts = tmp_path / "facts.jsonl"
    found = subprocess.run([PROGRAM, "discover", archive, "--facts", facts], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    subjects = {json.loads(line).get("subject", "") for line in facts.read_text().splitlines()}
    assert f"node:{HOST}/gpu:0" in subjects


FAKE_SSH = """
for last; do host=$command; command=$last; done
echo "$*" >> "$0.calls"
case $host in
    gone*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
    odd*) cat > /dev/null; echo "Welcome to this machine" ;;
    cut*) cat > /dev/null; exit 0 ;;
    *) sh -c "$command" ;;
esac
"""


def test_over_ssh_each_host_gives_an_archive_or_a_reason(tools: Path, tmp_path: Path) -> None:
    make(tools, "ssh", FAKE_SSH)
    make(tools, "ibstat", "echo words")
    captures = tmp_path / "captures"
    hosts = ("gpu01", "gone1", "operator@gpu02", "odd1", "cut1", "gpu01")
    done = run(tools, "-o", captures, "--json", *(part for host in hosts for part in ("--ssh", host)))
    assert done.returncode == 1
    replies = {one["host"]: one for one in json.loads(done.stdout)["hosts"]}
    assert list(replies) == ["gpu01", "gone1", "operator@gpu02", "odd1", "cut1"]
    assert replies["gone1"]["reason"] == "ssh ended with 255: ssh: connect to host gone1 port 22: No route to host"
    assert "no archive" in replies["odd1"]["reason"]
    assert "no archive" in replies["cut1"]["reason"]
    assert sorted(path.name for path in captures.iterdir()) == ["gpu01.tar", "operator@gpu02.tar"]
    with tarfile.open(captures / "gpu01.tar") as stream:
        assert f"{HOST}/ibstat.txt" in stream.getnames()
    calls = (tools / "ssh.calls").read_text().splitlines()
    assert len(calls) == 5
    assert all("BatchMode=yes" in call for call in calls)


def test_over_ssh_all_well(tools: Path, tmp_path: Path) -> None:
    make(tools, "ssh", FAKE_SSH)
    done = run(tools, "-o", tmp_path / "captures", "--ssh", "gpu01")
    assert (done.returncode, done.stdout) == (0, f"collected from 1 of 1 hosts; now: bridgehead discover {tmp_path / 'captures'}\n")
    assert done.stderr == "gpu01: collected\n"


def test_over_ssh_nothing_came(tools: Path, tmp_path: Path) -> None:
    make(tools, "ssh", FAKE_SSH)
    done = run(tools, "-o", tmp_path / "captures", "--ssh", "gone1")
    assert (done.returncode, done.stdout) == (1, "collected from 0 of 1 hosts\n")
