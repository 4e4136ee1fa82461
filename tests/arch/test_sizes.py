"""House rules about size and names: files of one story, functions that fit a screen, modules named by their main noun."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_MEDIAN_LINES = 200
NAMELESS = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "misc"}

FILES = sorted(path for folder in ("src", "tests", "bench", "tools") for path in (ROOT / folder).rglob("*.py"))
MODULES = [path for path in FILES if path.is_relative_to(ROOT / "src") and path.name != "__init__.py"]


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from ``def`` to the end, without the docstring: nobody shall pay for explaining."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_small_and_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= MAX_FILE_LINES, f"{lines} lines, {MAX_FILE_LINES} allowed: does it still tell one story?"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert function_lines(node) <= MAX_FUNCTION_LINES, f"{node.name}, line {node.lineno}: {function_lines(node)} lines"
    names = {path.stem, *path.relative_to(ROOT).parent.parts}
    assert not names & NAMELESS, f"{names & NAMELESS} says nothing: name it by its main noun"


def test_median_file_is_about_150_lines(record_property: Callable[[str, object], None]) -> None:
    median = statistics.median(path.read_text(encoding="utf-8").count("\n") for path in MODULES)
    record_property("median_module_lines", median)
    assert median <= MAX_MEDIAN_LINES, f"the median module has {median} lines; about 150 is the house's measure"


def test_docstrings_do_not_count() -> None:
    tree = ast.parse('def f():\n    """One\n\n    two."""\n    return 1\n')
    assert isinstance(tree.body[0], ast.FunctionDef)
    assert function_lines(tree.body[0]) == 2
