"""What docs/tutorial.md does with a plan: made, simulated, compiled, executed in the simulated world, and checked."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"


def test_the_planning_of_the_tutorial(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    part = text[text.index("## 8.") : text.index("## Where now")]
    commands = [line.removeprefix("$ bridgehead ").split() for line in part.splitlines() if line.startswith("$ bridgehead ")]
    assert len(commands) == 6
    for words in commands:
        done = subprocess.run([PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert done.stdout.startswith("KEPT  to-the-new-hall")
