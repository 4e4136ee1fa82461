"""One lab for all tests of this folder. They are marked ``demo``, so that they run one at a time: they measure time."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bridgehead.testing.lab.lab import Lab
from bridgehead.testing.lab.leftovers import leftovers

RATE, DELAY = "100 Mbps", "5 ms"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.demo)
            item.add_marker(pytest.mark.server("ip", "nft", "munged", "slurmctld", "haproxy", "prometheus", "pg_ctlcluster"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Of this folder's tests alone."""
    if os.geteuid() != 0:
        reason = "missing server program lab: run as root, network namespaces need it"
        if os.environ.get("BRIDGEHEAD_REQUIRE_SERVERS") == "1":
            pytest.fail(f"{reason} (BRIDGEHEAD_REQUIRE_SERVERS=1 makes this a failure)", pytrace=False)
        pytest.skip(reason)


class Commands:
    """``bridgehead`` with a home of its own, from which nothing comes back but what scripts see."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *words: object, code: int | None = 0, timeout_s: float = 120.0, env: Mapping[str, str] | None = None) -> str:
        """What the command printed. ``code``: how it must end, None for any way."""
        done = subprocess.run(self.line(*words), capture_output=True, text=True, timeout=timeout_s, env=self.env | (env or {}), check=False)
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if done.returncode == 0 or done.stdout else done.stderr

    def json(self, *words: object, code: int | None = 0, timeout_s: float = 120.0) -> Any:
        """What the command printed with --json."""
        return json.loads(self(*words, "--json", code=code, timeout_s=timeout_s))

    def line(self, *words: object) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "bridgehead.cli.main", *map(str, words)]

    @property
    def env(self) -> dict[str, str]:
        """Its environment."""
        return os.environ | {"BRIDGEHEAD_HOME": str(self.home), "COLUMNS": "120"}


class Page:
    """The commands of a page that are marked ``<!-- lab -->``, each with what it must print (``...`` for anything)."""

    _BLOCK = re.compile(r"^<!-- lab -->\n```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
    _EXIT = re.compile(r"^\[exit code (\d+)\]\n?\Z", re.MULTILINE)

    def __init__(self, name: str, bridgehead: Commands, *, cwd: Path) -> None:
        text = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / name).read_text()
        blocks = self._BLOCK.finditer(text)
        self.commands = [command for block in blocks for command in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]]
        self._bridgehead, self._cwd = bridgehead, cwd

    def run(self, command: str) -> None:
        """Give one of ``commands``; it ends and prints as the page says."""
        line, _, wanted = command.partition("\n")
        code = self._EXIT.search(wanted)
        wanted = self._EXIT.sub("", wanted)
        program, env = self._bridgehead.line(*shlex.split(line)[1:]), self._bridgehead.env
        done = subprocess.run(program, cwd=self._cwd, env=env, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == (int(code[1]) if code else 0), f"{line}\n{done.stdout}\n{done.stderr}"
        checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if wanted.strip() and not checker.check_output(wanted, done.stdout, flags):
            raise AssertionError(checker.output_difference(doctest.Example("", wanted), done.stdout, flags))


@pytest.fixture(scope="session")
def short() -> Iterator[Path]:
    """A folder with a short path, since sockets lie in it; it must be empty in the end."""
    folder = Path(tempfile.mkdtemp(prefix="bh-lab-", dir="/tmp"))
    yield folder
    try:
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def bridgehead(tmp_path: Path) -> Commands:
    """Commands of this test alone."""
    return Commands(tmp_path / "home")


@pytest.fixture
def page(short: Path, bridgehead: Commands) -> Iterator[Callable[[str], Page]]:
    """Pages, whose commands are given in a folder of this test; a lab ``lab`` in it is ended with the test."""
    folder = short / "page"
    folder.mkdir()
    yield lambda name: Page(name, bridgehead, cwd=folder)
    bridgehead("lab", "down", "--dir", folder / "lab")
    folder.rmdir()


@pytest.fixture(scope="session")
def lab(short: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab, made and ended by its commands; nothing of it is left."""
    commands = Commands(tmp_path_factory.mktemp("lab-home"))
    lab = Lab(short / "lab")
    commands("lab", "up", "--dir", lab.folder.root, "--rate", RATE, "--delay", DELAY)
    record = lab.record
    try:
        yield lab
    finally:
        commands("lab", "down", "--dir", lab.folder.root)
    assert leftovers(record.id) == []


@pytest.fixture
def fresh(short: Path, bridgehead: Commands) -> Iterator[Lab]:
    """A lab of this test alone, with lines that are fast enough for much traffic."""
    lab = Lab(short / "fresh")
    bridgehead("lab", "up", "--dir", lab.folder.root)
    record = lab.record
    try:
        yield lab
    finally:
        bridgehead("lab", "down", "--dir", lab.folder.root)
    assert leftovers(record.id) == []


@pytest.fixture
def whole(lab: Lab) -> Iterator[Lab]:
    """The lab with all partitions healed before and after."""
    lab.heal()
    yield lab
    lab.heal()
