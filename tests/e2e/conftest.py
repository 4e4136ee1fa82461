"""A command line with a home and an estate of its own, and the steps that runbooks of these tests are made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.testing.command_line import CommandLine


@pytest.fixture
def line(tmp_path: Path) -> Iterator[CommandLine]:
    with CommandLine(tmp_path) as line:
        yield line


class Steps:
    """Steps of runbooks, as YAML has them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def starts(self, name: str) -> int:
        """How often a job really began: each execution writes a line."""
        marks = self._folder / f"{name}.starts"
        return len(marks.read_text().splitlines()) if marks.exists() else 0

    def start_job(self, name: str = "new", *, site: str = "fra", needs: tuple[str, ...] = ()) -> dict[str, object]:
        """Start a job that runs until it is stopped."""
        job = {"name": name, "command": self._command(name), "grace": "5 s"}
        return {"id": f"start-{name}", "action": "job.start", "with": {"site": site, "job": job}, "deadline": "60 s", "needs": [*needs]}

    def stop_job(self, name: str = "old", *, site: str = "ams", needs: tuple[str, ...] = (), program: str = "") -> dict[str, object]:
        """Stop a job; the undo starts it again, by another program if one is named."""
        restart = {"name": name, "command": [program] if program else self._command(name)}
        given = {"site": site, "job": name, "restart": restart, "grace": "5 s"}
        step = {"id": f"stop-{name}", "action": "job.stop", "with": given, "deadline": "60 s", "needs": [*needs]}
        return step | {"retry": {"attempts": 2, "backoff": "50 ms"}, "undo_deadline": "60 s"}

    def approval(self, *, needs: tuple[str, ...] = (), quorum: int = 1, deadline: str = "10 min") -> dict[str, object]:
        """Ann or bob agree."""
        body = {"approvers": ["ann", "bob"], "quorum": quorum, "text": "Is the new one good?"}
        return {"id": "agree", "approval": body, "deadline": deadline, "needs": [*needs]}

    def task(self, *, needs: tuple[str, ...] = (), undo: bool = False) -> dict[str, object]:
        """Eve moves a cable."""
        body = {"owner": "eve", "checklist": ["unplug it", "label it"]} | ({"undo_checklist": ["plug it in"]} if undo else {})
        return {"id": "cable", "task": body, "deadline": "10 min", "needs": [*needs]}

    def hold(self, time: str = "200 ms", *, needs: tuple[str, ...] = ()) -> dict[str, object]:
        """Let time pass."""
        return {"id": "soak", "hold": time, "needs": [*needs]}

    def _command(self, name: str) -> list[str]:
        return ["sh", "-c", f"echo began >> {self._folder / name}.starts; exec sleep 1000"]


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    return Steps(tmp_path)
