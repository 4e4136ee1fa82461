"""`bridgehead --help` and `run status` stay quick: the command line loads nothing heavy before it knows what is asked."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "rich", "cryptography", "aiohttp", "sqlite3", "safetensors", "jinja2", "asyncio")


def test_command_line_loads_nothing_heavy() -> None:
    program = f"import sys, bridgehead.cli.main; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
