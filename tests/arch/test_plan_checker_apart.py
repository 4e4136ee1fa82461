"""The checker of plans shares no code with the planner, so that a fault of one is not a fault of both (design rule 2)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PLANNING = Path(__file__).resolve().parents[2] / "src" / "bridgehead" / "planning"
PACKAGE = "bridgehead.planning"
MODULES = sorted(path for path in PLANNING.glob("*.py") if path.name != "__init__.py")
BELOW = ("bridgehead.kernel", "bridgehead.model", "bridgehead.ports")


def of_checker(module: str) -> bool:
    """Whether a module of planning belongs to the checker."""
    return module == "checker" or module.startswith("check_")


def imports(source: str) -> set[str]:
    """Modules of ours that a source imports, wherever in it; of planning only the last word."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {one.name for one in names}
            case ast.ImportFrom(module=str(module), level=0, names=names):
                found |= {f"{module}.{one.name}" for one in names} if module == PACKAGE else {module}
            case ast.ImportFrom(level=level) if level:
                found.add(f"{PACKAGE}.relative")
            case _:
                pass
    return {one for one in found if one.startswith("bridgehead")}


def strays(name: str, source: str) -> list[str]:
    """What a module of planning imports and may not."""
    mine = of_checker(name)
    allowed = [one for one in imports(source) if not one.startswith(PACKAGE) and one.startswith(BELOW)]
    inside = [one for one in imports(source) if one.startswith(f"{PACKAGE}.") and of_checker(one.rpartition(".")[2]) == mine]
    return sorted(imports(source) - set(allowed) - set(inside))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_checker_and_planner_import_nothing_of_each_other(path: Path) -> None:
    assert strays(path.stem, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("check_power", "from bridgehead.planning.power_places import Draw"),
        ("checker", "def f() -> None:\n    import bridgehead.planning.places"),
        ("check_time", "from bridgehead.planning import demand"),
        ("check_time", "from . import demand"),
        ("check_time", "from bridgehead.assess.power import CIRCUIT"),
        ("planner", "from bridgehead.planning.checker import check"),
        ("search", "from bridgehead.planning import check_course"),
    ],
)
def test_planted_import_is_found(name: str, planted: str) -> None:
    assert len(strays(name, planted)) == 1


def test_the_checker_is_there() -> None:
    assert sum(of_checker(path.stem) for path in MODULES) > 15
