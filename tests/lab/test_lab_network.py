"""The lab itself: what it says of itself, lines with limits, partitions, the loss and return of a site."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.testing.lab.lab import Lab
from bridgehead.testing.lab.namespaces import inside
from bridgehead.testing.lab.network import cut_file
from bridgehead.testing.lab.record import SITE_A, SITE_B
from bridgehead.testing.lab.servers import VAULT_PORT
from bridgehead.testing.servers import listens

RATE_BPS, DELAY_S = 100e6, 0.005
ECHO = """
import socket
server = socket.create_server(("0.0.0.0", 7000))
while True:
    peer, _ = server.accept()
    taken = 0
    with peer:
        while data := peer.recv(1 << 20):
            taken += len(data)
            if data == b"?":
                peer.sendall(b"!")
        if taken > 1:
            peer.sendall(b".")
"""
ASK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9000), timeout=1.5).close()
except OSError:
    sys.exit(1)
"""


@pytest.fixture(scope="module")
def echo(lab: Lab) -> str:
    """Address of a program at site-a that answers and swallows."""
    lab.run(SITE_A, "echo", [sys.executable, "-c", ECHO])
    address = lab.record.lines[SITE_A].address
    deadline_s = time.monotonic() + 20
    while not listens(f"{address}:7000"):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    yield address
    lab.end_program("echo")


def reaches(lab: Lab, place: str, other: str) -> bool:
    """Whether a program at ``place`` gets an answer from the vault at ``other``."""
    command = inside(lab.record.namespace(place), [sys.executable, "-S", "-c", ASK, lab.record.lines[other].address])
    return subprocess.run(command, check=False, timeout=20).returncode == 0


def test_status_says_what_runs_where(whole: Lab, bridgehead) -> None:
    found = bridgehead.json("lab", "status", "--dir", whole.folder.root)
    assert found["healthy"]
    assert found["ready"]
    assert set(found["places"]) == {"hub", "site-a", "site-b", "witness"}
    for site in (SITE_A, SITE_B):
        place = found["places"][site]
        assert [one["name"] for one in place["servers"]] == ["munged", "slurmctld", "slurmd", "slurmd", "vault"]
        assert place["line"]["rate_bps"] == RATE_BPS
        assert place["line"]["delay_s"] == DELAY_S
        assert place["processes"] >= 5
    assert {one["name"] for one in found["places"]["hub"]["servers"]} >= {"haproxy", "prometheus", "postgres"}
    assert [Path(path).name for path in found["files"]] == ["estate.yaml", "recovery.yaml"]
    shown = bridgehead("estate", "check", found["files"][0], code=None)
    assert "site-a" in shown or "no fault" in shown or "valid" in shown, shown


def test_a_second_up_is_refused_and_names_the_first(lab: Lab, bridgehead) -> None:
    record = lab.record
    refused = bridgehead.json("lab", "up", "--dir", lab.folder.root, code=2)
    assert record.id in str(refused)
    assert str(record.up.pid) in str(refused)
    assert lab.record == record


def test_line_has_its_delay_and_its_rate(whole: Lab, echo: str) -> None:
    with socket.create_connection((echo, 7000), timeout=20) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(10):
            began_s = time.monotonic()
            peer.sendall(b"?")
            assert peer.recv(1) == b"!"
            trips.append(time.monotonic() - began_s)
        # The shortest says what the line does, the others what the machine does besides.
        assert 2 * DELAY_S <= min(trips) < 2 * DELAY_S + 0.05, trips
        size_bytes = 6_000_000
        began_s = time.monotonic()
        peer.sendall(b"x" * size_bytes)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b"."
        rate_bps = size_bytes * 8 / (time.monotonic() - began_s)
    assert 0.2 * RATE_BPS < rate_bps < 1.15 * RATE_BPS


def test_partitions_are_seen_from_where_they_are(whole: Lab) -> None:
    assert listens(f"{whole.record.lines[SITE_A].address}:{VAULT_PORT}")
    assert reaches(whole, SITE_B, SITE_A)
    whole.cut(SITE_A, SITE_B)
    assert not reaches(whole, SITE_B, SITE_A)
    assert not reaches(whole, SITE_A, SITE_B)
    assert reaches(whole, "witness", SITE_A), "others are not parted"
    assert listens(f"{whole.record.lines[SITE_A].address}:{VAULT_PORT}")
    whole.cut(SITE_A, "controller")
    assert not listens(f"{whole.record.lines[SITE_A].address}:{VAULT_PORT}")
    assert reaches(whole, "hub", SITE_A), "who looks is blind, but the service still works"
    whole.heal(SITE_A, SITE_B)
    assert reaches(whole, SITE_B, SITE_A)
    assert not listens(f"{whole.record.lines[SITE_A].address}:{VAULT_PORT}")
    whole.cut(SITE_A)
    assert not reaches(whole, "hub", SITE_A)
    whole.heal()
    assert reaches(whole, "hub", SITE_A)


def test_a_line_that_is_dug_up_loses_what_is_on_its_way(whole: Lab, echo: str) -> None:
    cut_file(whole.folder, SITE_A).touch()
    try:
        assert soon(lambda: not listens(f"{echo}:7000"))
    finally:
        cut_file(whole.folder, SITE_A).unlink()
    assert soon(lambda: listens(f"{echo}:7000"))


def soon(holds: Callable[[], bool]) -> bool:
    """The relay looks for its file now and then, later on a busy machine."""
    ends_s = time.monotonic() + 10
    while not (found := holds()) and time.monotonic() < ends_s:
        time.sleep(0.05)
    return found


def test_a_lost_site_is_seen_as_lost_and_comes_back_with_its_data(whole: Lab, bridgehead) -> None:
    mark = whole.folder.site("witness") / "vault" / "mark"
    mark.write_text("still here")
    bridgehead("lab", "kill", "witness", "--dir", whole.folder.root)
    found = bridgehead.json("lab", "status", "--dir", whole.folder.root, code=1)
    assert found["places"]["witness"]["killed"]
    assert found["places"]["witness"]["processes"] == 0
    assert not found["healthy"]
    bridgehead("lab", "revive", "witness", "--dir", whole.folder.root)
    assert bridgehead.json("lab", "status", "--dir", whole.folder.root)["healthy"]
    assert mark.read_text() == "still here"
    mark.unlink()


def test_places_that_there_are_not_are_named(lab: Lab, bridgehead) -> None:
    for words in (("cut", "site-c"), ("kill", "hub"), ("heal", "site-a", "nowhere"), ("cut", "site-a", "site-a")):
        assert "bad-usage" in bridgehead("lab", *words, "--dir", lab.folder.root, code=2)
