"""The checks of `make check`, each as one test, so that one command runs all there is."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))

CHECKS = {
    "lint": [sys.executable, "-m", "ruff", "check"],
    "format": [sys.executable, "-m", "ruff", "format", "--check"],
    "types": [sys.executable, "-m", "mypy"],
    "layers": [str(SCRIPTS / "lint-imports")],
    "error reference": [sys.executable, "tools/write_errors.py", "--check"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_check_passes(name: str) -> None:
    done = subprocess.run(CHECKS[name], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{name}:\n{done.stdout}{done.stderr}", pytrace=False)
