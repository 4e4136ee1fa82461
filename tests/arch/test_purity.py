"""Rooms without I/O stay without: they import nothing that reaches outside, and read no clock (design rule 3)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "bridgehead"
PURE = ("kernel", "model", "ports", "discovery", "assess", "planning", "simulate", "runbook")

# Files in pure rooms that are shells on purpose, and why.
SHELLS = {
    "runbook/engine.py": "performs what decide asks for, on a pool of threads",
    "runbook/comparing.py": "asks the world in many places at once, for the engine",
    "runbook/ledger.py": "reads and writes keys and exported ledgers",
}
OUTSIDE = frozenset(
    {"asyncio", "concurrent", "fcntl", "http", "io", "mmap", "multiprocessing", "os", "pathlib", "select", "selectors", "shutil", "signal"}
    | {"socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "aiohttp"}
)
CALLS = frozenset({"open", "print", "input", "breakpoint"})
CLOCKS = frozenset({("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")})


def reaches_outside(source: str) -> list[str]:
    """Each place where the code leaves the pure world, as "line N: what"."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [f"line {node.lineno}: imports {a.name}" for a in names if a.name.split(".")[0] in OUTSIDE]
            case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] in OUTSIDE:
                found.append(f"line {node.lineno}: imports {module}")
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                found.append(f"line {node.lineno}: calls {name}")
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attr)) if (owner, attr) in CLOCKS:
                found.append(f"line {node.lineno}: reads the clock")
            case _:
                pass
    return found


FILES = sorted(path for room in PURE for path in (PACKAGE / room).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_pure_room_does_no_io(path: Path) -> None:
    if path.relative_to(PACKAGE).as_posix() not in SHELLS:
        assert reaches_outside(path.read_text(encoding="utf-8")) == []


def test_shells_exist_and_need_their_exemption() -> None:
    for name in SHELLS:
        assert reaches_outside((PACKAGE / name).read_text(encoding="utf-8")), f"{name} is pure by now: take it out of SHELLS"


@pytest.mark.parametrize(
    "planted",
    [
        "import os.path",
        "from time import sleep",
        "def f():\n    import socket",
        "print(1)",
        "def f(p):\n    return open(p)",
        "from datetime import datetime\nx = datetime.now()",
    ],
)
def test_planted_io_is_found(planted: str) -> None:
    assert len(reaches_outside(planted)) == 1
