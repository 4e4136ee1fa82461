"""What `make` says on a machine that lacks something: one clear sentence and the line that mends it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that an installation needs, in a folder whose name holds a space."""
    folder = tmp_path / "a project"
    shutil.copytree(ROOT / "tools", folder / "tools")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def fake_python(folder: Path, body: str) -> str:
    """A program that stands for a Python interpreter."""
    program = folder / "fake python"
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def install(project: Path, python: str) -> subprocess.CompletedProcess[str]:
    """`make installed-demo` with another interpreter."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # this may run below make itself
    environment |= {"PYTHON": python, "PINS": "pinned"}
    return subprocess.run(["make", "installed-demo"], cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_missing_python_is_named(project: Path) -> None:
    done = install(project, "python9")
    assert done.returncode != 0
    assert "there is no program python9" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_old_python_is_refused(project: Path) -> None:
    done = install(project, fake_python(project, 'case "$1" in -V) echo Python 3.10.12;; *) exit 1;; esac'))
    assert done.returncode != 0
    assert "needs Python 3.11 or later" in done.stderr
    assert "Python 3.10.12" in done.stderr
    assert not (project / ".venv").exists()


def test_missing_venv_package_is_named(project: Path) -> None:
    real = f'case "$2" in *ensurepip*) exit 1;; *) exec "{sys.executable}" "$@";; esac'
    done = install(project, fake_python(project, real))
    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stderr
    assert not (project / ".venv").exists()


def test_environment_of_others_is_left_alone(project: Path) -> None:
    (project / ".venv").mkdir()
    (project / ".venv" / "mine").touch()
    done = install(project, sys.executable)
    assert done.returncode != 0
    assert "this script did not make" in done.stderr
    assert (project / ".venv" / "mine").exists()


@pytest.mark.slow
def test_pins_that_cannot_be_had_are_explained(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    done = install(project, sys.executable)
    assert done.returncode != 0
    assert "make PINS=none demo" in done.stderr
    assert not (project / ".venv" / "installed-demo").exists()
