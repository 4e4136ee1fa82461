"""``bridgehead estate``, ``runbook lint`` and ``schema`` as processes: output, JSON, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
EXAMPLES = ROOT / "examples"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment, timeout=60, check=False)


def run_json(*arguments: str | Path) -> tuple[int, Any]:
    done = run(*arguments, "--json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    path = tmp_path / "changed.yaml"
    text = (EXAMPLES / "estate.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("power: 400 kW", "power: 450 kW").replace("  south:", "  west:"), encoding="utf-8")
    return path


def test_check_passes_good_files() -> None:
    done = run("estate", "check", EXAMPLES / "estate.yaml", EXAMPLES / "policy.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "estate 'two-halls' has no faults" in done.stdout
    assert run_json("estate", "check", EXAMPLES / "estate.yaml")[1] == {
        "ok": True,
        "files": [{"file": str(EXAMPLES / "estate.yaml"), "kind": "estate", "faults": []}],
    }


def test_check_reports_all_faults_of_all_files() -> None:
    bad = ROOT / "tests" / "golden" / "bad"
    files = (bad / "estate" / "many_faults.yaml", bad / "policy" / "canary.yaml", EXAMPLES / "estate.yaml")
    done = run("estate", "check", *files)
    assert done.returncode == 2
    assert "two-halls" in done.stdout
    for word in ("many_faults.yaml:4:5: sites.a.powr", "many_faults.yaml:8:27", "canary.yaml:4:29"):
        assert word in done.stderr
    code, document = run_json("estate", "check", *files)
    assert (code, document["ok"]) == (2, False)
    assert [len(one["faults"]) for one in document["files"]] == [5, 5, 0], "two more in the policy: its sites are in no estate"
    assert document["files"][0]["faults"][0] == {
        "file": str(files[0]), "line": 4, "column": 5, "path": "sites.a.powr", "found": "unknown key 'powr'",
        "expected": "did you mean 'power'?",
    }  # fmt: skip


def test_show_prints_everything_that_is_in_the_file() -> None:
    done = run("estate", "show", EXAMPLES / "estate.yaml")
    assert done.returncode == 0
    for word in ("0.24 EUR/kWh", "43.47 kVA", "34.5 kVA", "mlx5_1: 400 Gbps rails", "310 TB", "Nordlys", "840 GB", "1360 kg", "row C, 14",
                 "https://chat.example.org", "http://127.0.0.1:9302", "/srv/site-a/control", "internal"):  # fmt: skip
        assert word in done.stdout, word
    code, document = run_json("estate", "show", EXAMPLES / "estate.yaml")
    assert code == 0
    assert document["sites"][0]["power_w"] == 400_000


def test_diff_says_what_differs_by_exit_code_too(changed: Path) -> None:
    done = run("estate", "diff", EXAMPLES / "estate.yaml", changed)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "~ sites.site-a.power: 400 kW -> 450 kW",
        "- links.south: {between: [site-a, site-b], rate: 100 Gbps, delay: 12 ms, carrier: Arcnet}",
        "+ links.west: {between: [site-a, site-b], rate: 100 Gbps, delay: 12 ms, carrier: Arcnet}",
        "3 differences",
    ]
    code, document = run_json("estate", "diff", EXAMPLES / "estate.yaml", changed)
    assert (code, document["same"], [one["change"] for one in document["differences"]]) == (1, False, ["changed", "removed", "added"])
    assert run_json("estate", "diff", changed, changed) == (0, {"same": True, "differences": []})


def test_lint_tells_errors_warnings_and_unreadable_files_apart() -> None:
    bad = ROOT / "tests" / "golden" / "bad" / "runbooks"
    assert run("runbook", "lint", EXAMPLES / "runbook.yaml").returncode == 0
    assert run("runbook", "lint", bad / "ungated.yaml").returncode == 0
    assert run("runbook", "lint", bad / "read_gate.yaml").returncode == 2
    code, document = run_json("runbook", "lint", bad / "weights.yaml")
    assert (code, document["errors"]) == (1, 1)
    (finding,) = document["findings"]
    assert (finding["code"], finding["severity"], finding["step"], finding["field"]) == ("weights", "error", "shift", "with.weights")
    assert finding["location"].endswith("weights.yaml:5:36")


@pytest.mark.parametrize("kind", ["estate", "policy", "runbook"])
def test_schema_is_one_json_document(kind: str) -> None:
    done = run("schema", kind)
    assert done.returncode == 0
    assert json.loads(done.stdout)["$schema"].startswith("https://json-schema.org/")


def test_a_missing_file_is_bad_input() -> None:
    for verb in (("estate", "show"), ("runbook", "lint")):
        done = run(*verb, "none.yaml")
        assert done.returncode == 2
        assert "none.yaml" in done.stderr


def test_files_that_cannot_be_read_say_why_in_words(tmp_path: Path) -> None:
    done = run("estate", "show", tmp_path / "missing.yaml")
    assert (done.returncode, "Errno" in done.stderr, "what: No such file or directory" in done.stderr) == (2, False, True)
    (tmp_path / "odd.yaml").write_bytes(b"estate: e\nsites: {caf\xe9: {}}\n")
    done = run("estate", "show", tmp_path / "odd.yaml")
    assert (done.returncode, "codec" in done.stderr) == (2, False)
    assert "this is no text in UTF-8: line 2 has the byte 0xe9" in done.stderr
