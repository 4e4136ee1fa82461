"""Reference pages that are made from the code say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("tool", ["write_cli.py", "write_registry.py", "write_watch.py"])
def test_page_is_up_to_date(tool: str) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
