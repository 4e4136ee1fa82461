"""Where plans and runbooks are written: refused before the work begins where it cannot be, and no file of another kind is overwritten."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"


def bridgehead(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("places")
    assert bridgehead(made, "example", "estate", "--gpus", "150", "--seed", "1", "-o", ".").returncode == 0
    done = bridgehead(made, "plan", "make", "estate.yaml", "policy.yaml", "-o", "plan.yaml", "--time-limit", "20")
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("verb", [("plan", "make", "estate.yaml", "policy.yaml"), ("plan", "compile", "plan.yaml")], ids=lambda one: one[1])
@pytest.mark.parametrize(
    ("place", "why"), [("estate.yaml", "another file is there"), ("no/such/place.yaml", "there is no folder"), (".", "it is a folder")]
)
def test_a_place_that_cannot_be_is_refused(folder: Path, verb: tuple[str, ...], place: str, why: str) -> None:
    before = (folder / "estate.yaml").read_bytes()
    done = bridgehead(folder, *verb, "-o", place)
    assert done.returncode == 2
    assert why in done.stderr
    assert "0.0 s" not in done.stderr, "the search had begun"
    assert (folder / "estate.yaml").read_bytes() == before


@pytest.mark.parametrize("limit", ["-3", "0", "nan", "inf"])
def test_a_time_limit_that_is_none_is_refused(folder: Path, limit: str) -> None:
    done = bridgehead(folder, "plan", "make", "estate.yaml", "policy.yaml", "-o", "other.yaml", f"--time-limit={limit}")
    assert done.returncode == 2
    assert "no time to search in" in done.stderr


def test_written_twice(folder: Path) -> None:
    for _ in range(2):
        assert bridgehead(folder, "plan", "compile", "plan.yaml", "-o", "runbook.yaml").returncode == 0
    assert (folder / "runbook.yaml").read_text().startswith("runbook:")
