"""docs/how-to/take-a-consistent-point.md: its file and its commands, on a real trainer, PostgreSQL and SQLite (R10, R16)."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sysconfig
from pathlib import Path

import pytest

from bridgehead.drivers.postgres_backup.programs import program
from bridgehead.testing.point_bed import PointBed, postgres, sqlite

pytestmark = pytest.mark.server("pg_ctlcluster")
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "take-a-consistent-point.md").read_text(encoding="utf-8")
ADDRESS = "postgresql://app@db.site-a/ledger"


def commands(name: str) -> list[list[str]]:
    """The commands of one example."""
    found = re.search(rf"<!-- test: {name} -->\n```console\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return [shlex.split(line.removeprefix("$ ")) for line in found[1].splitlines()]


def shown(name: str) -> str:
    """A file of the page."""
    found = re.search(rf"<!-- file: {name} -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_R16_the_page_is_true(tmp_path: Path, postgres_server) -> None:
    url, back = postgres_server.new_database(), postgres_server.new_database()
    postgres_server.sql("CREATE TABLE steps (step bigint PRIMARY KEY)", database=url.rpartition("/")[2])
    bed_folder = tmp_path / "bed"
    bed_folder.mkdir()
    with sqlite3.connect(bed_folder / "registry.db") as db:
        db.execute("CREATE TABLE steps (step INTEGER PRIMARY KEY)")
    (bed_folder / "code").mkdir()
    (bed_folder / "code" / "requirements.txt").write_text("numpy==2.0\n")
    scripts, home = sysconfig.get_path("scripts"), bed_folder / "home"
    path = os.pathsep.join([scripts, str(Path(program("pg_restore")).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "BRIDGEHEAD_HOME": str(home)}

    def run(words: list[str]) -> None:
        done = subprocess.run(words, cwd=bed_folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    with PointBed(bed_folder, databases=[postgres("ledger", url), sqlite("registry", bed_folder / "registry.db")]):
        (bed_folder / "recovery.yaml").write_text(shown("recovery.yaml").replace(ADDRESS, url))
        (bed_folder / "estate.yaml").write_text(shown("estate.yaml").replace("/srv", str(bed_folder)))
        for words in commands("take"):
            run(words)
        assert not (bed_folder / "frozen").exists()
        point = ""
        for words in commands("restore"):
            known = {"MODEL": point, f"--dbname={ADDRESS}_restored": f"--dbname={back}"}
            run([known.get(word, word).replace("/srv", str(bed_folder)) for word in words])
            if not point:
                point = json.loads((bed_folder / "restored" / "point.json").read_bytes())["model"]
    step = int(re.match(r"lm@(\d+)\.", point)[1])
    assert postgres_server.sql("SELECT max(step) FROM steps", database=back.rpartition("/")[2]) == str(step)
    with sqlite3.connect(bed_folder / "registry-restored.db") as db:
        assert db.execute("SELECT max(step) FROM steps").fetchone() == (step,)
    assert (bed_folder / "restored-code" / "locks" / "requirements.txt").read_text() == "numpy==2.0\n"
    assert list((bed_folder / "restored-model").iterdir())
