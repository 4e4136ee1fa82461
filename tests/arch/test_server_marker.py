"""Tests that need a server program skip loudly without it, and fail where servers are required; `make test` installs what it can."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDS = 'import pytest\n\n\n@pytest.mark.server("{name}")\ndef test_needs() -> None:\n    pass\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one test that needs a program which nobody has."""
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests" / "servers.txt").write_text("# a comment\nno-such-server   no-such-package\n", encoding="utf-8")
    (tmp_path / "tests" / "test_needs.py").write_text(NEEDS.format(name="no-such-server"), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    server(name): needs it\n", encoding="utf-8")
    return tmp_path


def run_pytest(project: Path, *, required: bool) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BRIDGEHEAD_REQUIRE_SERVERS": "1" if required else "0"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(project), "-n", "1", "tests"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_missing_server_skips_loudly(project: Path) -> None:
    done = run_pytest(project, required=False)
    assert done.returncode == 0, done.stdout
    assert "MISSING SERVERS" in done.stdout
    assert "1 tests did NOT run for want of no-such-server: apt-get install no-such-package" in done.stdout
    assert "1 skipped" in done.stdout


def test_missing_optional_package_skips_loudly(project: Path) -> None:
    text = 'import pytest\n\npytest.importorskip("no_such_package", reason="no_such_package is not installed: do this")\n'
    (project / "tests" / "test_needs.py").write_text(text, encoding="utf-8")
    done = run_pytest(project, required=True)
    assert "MISSING OPTIONAL PACKAGES" in done.stdout
    assert "tests of tests/test_needs.py did NOT run: no_such_package is not installed: do this" in done.stdout


def test_missing_server_fails_where_required(project: Path) -> None:
    done = run_pytest(project, required=True)
    assert done.returncode == 1
    assert "missing server program no-such-server" in done.stdout


def test_unknown_server_is_a_fault_of_the_test(project: Path) -> None:
    (project / "tests" / "test_needs.py").write_text(NEEDS.format(name="typo"), encoding="utf-8")
    done = run_pytest(project, required=False)
    assert done.returncode == 1
    assert "not in tests/servers.txt" in done.stdout


def install_servers(project: Path, *, user_id: int) -> tuple[str, list[str]]:
    """Run tools/servers.sh as that user with an apt-get that only takes notes; what it said, and how apt-get was called."""
    notes = project / "notes"
    notes.touch()
    for name, body in {"id": f"echo {user_id}", "apt-get": f'echo "$@" >>"{notes}"'}.items():
        program = project / name
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PATH": f"{project}{os.pathsep}{os.environ['PATH']}"}
    script = ROOT / "tools" / "servers.sh"
    done = subprocess.run([script], cwd=project, env=environment, capture_output=True, text=True, check=True)
    return done.stderr, notes.read_text(encoding="utf-8").splitlines()


def test_root_installs_what_tests_name(project: Path) -> None:
    _, calls = install_servers(project, user_id=0)
    assert [call.split()[0] for call in calls] == ["update", "install"]
    assert calls[1].split()[-1] == "no-such-package"


def test_names_with_an_underscore_are_installed_too(project: Path) -> None:
    (project / "tests" / "test_needs.py").write_text(NEEDS.format(name="no_such_server2"), encoding="utf-8")
    (project / "tests" / "servers.txt").write_text("no_such_server2 its-package\n", encoding="utf-8")
    _, calls = install_servers(project, user_id=0)
    assert calls[1].split()[-1] == "its-package"


def test_others_are_told_the_line(project: Path) -> None:
    said, calls = install_servers(project, user_id=1000)
    assert calls == []
    assert "sudo apt-get install no-such-package" in said


def test_nothing_missing_says_nothing(project: Path) -> None:
    (project / "tests" / "servers.txt").write_text("no-such-server wheel\n", encoding="utf-8")
    assert install_servers(project, user_id=0) == ("", [])
