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


@pytest.mark.parametrize("hosts", [("alpha", "bravo"), ("kirk", "spock", "uhura"), ("login", "gpu07")])
def test_folders_beside_each_other_with_the_same_files_are_hosts(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    for name in hosts:
        put(tmp_path / "in" / name / "smi.xml", name.encode())
        put(tmp_path / "in" / name / "network" / "ibstat.txt", name.encode())
    found = read(tmp_path / "in")
    assert {(one.host, one.data.decode()) for one in found if isinstance(one, Capture)} == {(name, name) for name in hosts}


@pytest.mark.parametrize(
    "paths",
    [
        ("before/smi.xml", "after/smi.xml"),
        ("monday/smi.xml", "Tuesday/smi.xml"),
        ("text/smi", "xml/smi"),
        ("2026-01-01/smi", "2026-02-01/smi"),
        ("alpha/smi.xml", "bravo/ibstat.txt"),
        ("alpha/smi.xml",),
        ("my results/smi", "my_other results/smi"),
    ],
)
def test_folders_that_nothing_shows_to_be_hosts_are_none(tmp_path: Path, paths: tuple[str, ...]) -> None:
    for path in paths:
        put(tmp_path / "in" / path)
    assert {one.host for one in read(tmp_path / "in") if isinstance(one, Capture)} == {""}


def test_folders_around_hosts_are_none(tmp_path: Path) -> None:
    """Two clusters whose hosts have the same names, with a digit and without."""
    for cluster in ("north", "south"):
        for name in ("ann", "bob", "gpu01"):
            put(tmp_path / "in" / cluster / name / "smi.xml")
    assert {one.host for one in read(tmp_path / "in") if isinstance(one, Capture)} == {"ann", "bob", "gpu01"}


@pytest.mark.parametrize(
    ("name", "text", "host"),
    [
        ("hostname.txt", "alpha\n", "alpha"),
        ("hostname", "$ hostname\nalpha.example.org\n", "alpha.example.org"),
        ("uname-a.txt", "Linux alpha 5.15.0-107-generic #117-Ubuntu SMP Fri Apr 26 12:26:49 UTC 2024 x86_64 GNU/Linux\n", "alpha"),
        ("hostnamectl.txt", " Static hostname: alpha\n       Icon name: computer-server\n         Chassis: server\n", "alpha"),
        ("hostname.txt", "localhost\n", ""),
        ("hostname.txt", "alpha\nbravo\n", ""),
        ("hostname.txt", "", ""),
        ("hostname.txt", "-bash: hostname: command not found\n", ""),
        ("hostname.txt", "\x00\xff\n", ""),
        ("names.txt", "alpha\n", ""),
    ],
)
def test_host_that_prints_its_own_name(tmp_path: Path, name: str, text: str, host: str) -> None:
    put(tmp_path / "in" / name, text.encode("latin-1"))
    put(tmp_path / "in" / "raw" / "smi.xml")
    assert owners(tmp_path / "in")["smi.xml"] == host


def test_what_a_host_says_itself_is_surer_than_the_name_of_its_folder_and_a_record_surer_than_that(tmp_path: Path) -> None:
    put(tmp_path / "in/gpu01/hostname.txt", b"spock\n")
    put(tmp_path / "in/gpu01/a.xml")
    put(tmp_path / "in/gpu02/hostname.txt", b"kirk\n")
    put(tmp_path / "in/gpu02/bridgehead-collect.txt", RECORD)
    put(tmp_path / "in/gpu02/b.xml")
    put(tmp_path / "in/gpu03/hostname.txt", b"one\n")
    put(tmp_path / "in/gpu03/uname.txt", b"Linux two 6.1.0 #1 SMP\n")
    put(tmp_path / "in/gpu03/c.xml")
    put(tmp_path / "in/hostname.txt", b"laptop\n")
    found = owners(tmp_path / "in")
    assert (found["a.xml"], found["b.xml"], found["c.xml"]) == ("spock", "gpu07.example", ""), "of two names none is believed"
    archive = tar(tmp_path / "dump.tar", {"x/hostname": b"uhura\n", "x/d.xml": b"words\n"})
    assert owners(archive)["d.xml"] == "uhura"


def test_name_of_the_machine_that_gathered_is_not_that_of_the_hosts(tmp_path: Path) -> None:
    put(tmp_path / "in/hostname.txt", b"laptop\n")
    put(tmp_path / "in/alpha/smi.xml")
    assert owners(tmp_path / "in")["smi.xml"] == ""
    [told] = [one.reason for one in read(tmp_path / "in") if isinstance(one, Skipped)]
    assert told == "it says that its folder is of the host laptop"
