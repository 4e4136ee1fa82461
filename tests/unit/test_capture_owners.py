"""Whose output a file is: records of the collector, folders, archives, and names that are no hosts (M5.1)."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from bridgehead.app.capture_files import capture_files, captures_of
from bridgehead.discovery.captures import Owner, looks_like_host, read_record, same_host
from bridgehead.discovery.parsing import Capture
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.fact import Skipped

TOOLS = frozenset({"nvidia-smi", "ib0"})
RECORD = b"# bridgehead collect 1\nhost gpu07.example\nat 1796025600\n"


def read(*paths: Path, host: str = "") -> list[Capture | Skipped]:
    files, skipped = capture_files(paths)
    return [*skipped, *(one for file in files for one in captures_of(file, tools=TOOLS, host=host))]


def owners(*paths: Path, host: str = "") -> dict[str, str]:
    """Host by the end of the capture's name."""
    return {one.file.rpartition("!")[2].rpartition("/")[2]: one.host for one in read(*paths, host=host) if isinstance(one, Capture)}


def put(path: Path, data: bytes = b"words\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def tar(path: Path, entries: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as stream:  # type: ignore[call-overload]  # the mode is a parameter
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1796000000
            stream.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("name", ["gpu01", "dgx-a100-7", "n1.rack2.example.org", "r04n12", "a06-p1-dgx-02-c01"])
def test_names_of_hosts(name: str) -> None:
    assert looks_like_host(name, tools=TOOLS)


@pytest.mark.parametrize(
    "name", ["site2", "rack-07", "captures-3", "2026-11-30", "20261130", "logs", "ib0", "nvidia-smi", "7", "x_1", "", "host"]
)
def test_names_that_are_none(name: str) -> None:
    assert not looks_like_host(name, tools=TOOLS)


def test_first_folder_that_looks_like_a_host_below_the_path(tmp_path: Path) -> None:
    put(tmp_path / "captures/site2/gpu01/smi/a.txt")
    put(tmp_path / "captures/site2/gpu02/b.txt")
    put(tmp_path / "captures/site2/c.txt")
    assert owners(tmp_path / "captures") == {"a.txt": "gpu01", "b.txt": "gpu02", "c.txt": ""}
    assert owners(tmp_path / "captures", host="gpu99")["c.txt"] == "gpu99"


def test_folder_of_a_host_given_itself(tmp_path: Path) -> None:
    put(tmp_path / "gpu01/a.txt")
    assert owners(tmp_path / "gpu01") == {"a.txt": "gpu01"}


def test_two_hosts_do_not_become_the_folder_in_which_they_lie(tmp_path: Path) -> None:
    put(tmp_path / "move7/alpha/a.txt")
    put(tmp_path / "move7/beta/b.txt")
    assert owners(tmp_path / "move7") == {"a.txt": "", "b.txt": ""}, "'alpha' may be a host, and 'move7' none"
    put(tmp_path / "gpu01/logs/a.txt")
    put(tmp_path / "gpu01/nvidia/b.txt")
    assert owners(tmp_path / "gpu01") == {"a.txt": "gpu01", "b.txt": "gpu01"}, "folders inside a host's, by topic"


def test_record_says_host_and_time_of_its_folder_and_below(tmp_path: Path) -> None:
    put(tmp_path / "x/gpu01/bridgehead-collect.txt", RECORD)
    put(tmp_path / "x/gpu01/inner3/a.txt")
    put(tmp_path / "x/gpu02/b.txt")
    found = {Path(one.file).name: one for one in read(tmp_path / "x") if isinstance(one, Capture)}
    assert (found["a.txt"].host, found["a.txt"].at_s) == ("gpu07.example", 1796025600)
    assert found["b.txt"].host == "gpu02"
    assert found["b.txt"].at_s == (tmp_path / "x/gpu02/b.txt").stat().st_mtime


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"host gpu01\n",
        b"# bridgehead collect 1\nhost \n",
        b"# bridgehead collect 1\nhost ../x\n",
        b"# bridgehead collect 1\nhost a b\n",
    ],
)
def test_what_is_no_record(data: bytes) -> None:
    assert read_record(data) is None


def test_record_with_odd_time_still_says_the_host() -> None:
    assert read_record(b"# bridgehead collect 1\nhost gpu01\nat \xd9\xa3\n") == Owner("gpu01", None)


def test_archive_of_the_collector_beside_others(tmp_path: Path) -> None:
    tar(tmp_path / "gpu01.tar", {"gpu07/bridgehead-collect.txt": RECORD, "gpu07/a.txt": b"words\n"})
    tar(tmp_path / "gpu02.tar.gz", {"b.txt": b"words\n"}, "w:gz")
    tar(tmp_path / "all.tar.xz", {"captures/gpu03/c.txt": b"words\n"}, "w:xz")
    found = owners(tmp_path)
    assert (found["a.txt"], found["b.txt"], found["c.txt"]) == ("gpu07.example", "gpu02", "gpu03")


def test_archive_that_is_given_names_the_host(tmp_path: Path) -> None:
    assert owners(tar(tmp_path / "gpu04.tar", {"a.txt": b"words\n"})) == {"a.txt": "gpu04"}
    assert owners(tar(tmp_path / "dump.tar", {"gpu05/a.txt": b"words\n"})) == {"a.txt": "gpu05"}


def test_a_single_file_belongs_to_nobody_but_whom_the_user_names(tmp_path: Path) -> None:
    file = put(tmp_path / "gpu01/unknown")
    assert owners(file) == {"unknown": ""}
    assert owners(file, host="gpu09") == {"unknown": "gpu09"}


def test_each_file_is_read_once_and_links_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "x/gpu01/a.txt")
    (tmp_path / "x/loop").symlink_to(tmp_path / "x")
    os.mkfifo(tmp_path / "x/pipe")
    found = read(tmp_path / "x", tmp_path / "x/gpu01", tmp_path / "x/gpu01/a.txt")
    assert len([one for one in found if isinstance(one, Capture)]) == 1
    reasons = {Path(one.file).name: one.reason for one in found if isinstance(one, Skipped)}
    assert "link" in reasons["loop"]
    assert "no ordinary file" in reasons["pipe"]


def test_link_that_is_given_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "x/gpu01/a.txt")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert owners(tmp_path / "link") == {"a.txt": "gpu01"}


def test_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BridgeheadError) as caught:
        capture_files([tmp_path / "nowhere"])
    assert caught.value.code is ErrorCode.BAD_INPUT
    assert "nowhere" in caught.value.subject


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folder_that_may_not_be_read_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "x/gpu01/a.txt")
    put(tmp_path / "x/gpu02/b.txt")
    (tmp_path / "x/gpu01").chmod(0)
    try:
        found = read(tmp_path / "x")
    finally:
        (tmp_path / "x/gpu01").chmod(0o700)
    assert any(isinstance(one, Skipped) and "cannot be read" in one.reason for one in found)
    assert any(isinstance(one, Capture) and one.host == "gpu02" for one in found)


def test_names_that_are_not_utf8_are_shown(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"words\n")
    [found] = read(tmp_path)
    assert found.file.endswith("caf\\xe9.txt")


def test_hosts_with_and_without_domain_are_one() -> None:
    assert same_host("gpu01", "GPU01.example.org")
    assert same_host("gpu01.example.org", "gpu01.example.org")
    assert not same_host("gpu01", "gpu011")
    assert not same_host("gpu01.a.org", "gpu01.b.org")
    assert not same_host("", "gpu01")
