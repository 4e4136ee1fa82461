"""``recover map`` and ``recover preflight`` at the command line: what is written, what is said, and how they end (issue 6)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bridgehead.cli.recover_map import map_job, preflight
from bridgehead.kernel.errors import BridgeheadError

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mapping"


def run_map(script: str, **options: object) -> int:
    return map_job(EXAMPLE / script, source="site-a", target="site-b", policy=EXAMPLE / "policy.yaml", **options)


def test_a_covered_script_goes_to_stdout_and_what_changed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_map("train.sbatch") == 0
    out, err = capsys.readouterr()
    assert out.startswith("#!/bin/bash\n")
    assert "/gpfs/home/logs" in out
    assert "site-a" not in out
    assert "lustre" not in out
    assert err.count("\n") == 15


def test_a_script_that_is_not_covered_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "evaluate.sbatch"
    assert run_map("evaluate.sbatch", output=out) == 1
    assert not out.exists()
    assert "Nothing was written" in capsys.readouterr().err
    assert run_map("evaluate.sbatch") == 1
    assert capsys.readouterr().out == ""
    assert run_map("evaluate.sbatch", output=out, partial=True) == 1
    assert "-p short" in out.read_text()


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine\n")
    with pytest.raises(BridgeheadError, match="another file is there"):
        run_map("train.sbatch", output=other)
    assert other.read_text() == "mine\n"


def test_json_has_changes_and_what_is_not_covered(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_map("evaluate.sbatch", json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["script"] is None
    assert [one["rule"] for one in document["changes"]] == ["gres.gpus", "datasets.corpus"]
    first = document["uncovered"][0]
    assert (first["line"], first["kind"], first["word"]) == (2, "partitions", "short")


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "b.sbatch"
    assert run_map("train.sbatch", output=script) == 0
    assert map_job(script, source="site-b", target="site-a", policy=EXAMPLE / "policy.yaml") == 0
    back, home = capsys.readouterr().out.splitlines(), (EXAMPLE / "train.sbatch").read_text().splitlines()
    assert [pair for pair in zip(back, home, strict=True) if pair[0] != pair[1]] == [
        ("#SBATCH -p gpu -A ai-research", "#SBATCH -p gpu -A ai-research --qos=high")
    ]


def test_a_site_that_the_mapping_does_not_name_and_a_policy_without_mapping_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BridgeheadError, match="says nothing of site 'site-c'"):
        map_job(EXAMPLE / "train.sbatch", source="site-a", target="site-c", policy=EXAMPLE / "policy.yaml")
    with pytest.raises(BridgeheadError) as told:
        map_job(EXAMPLE / "train.sbatch", source="site-a", target="site-bb", policy=EXAMPLE / "policy.yaml")
    assert told.value.remedy == "Name one of its sites: did you mean 'site-b'?"
    bare = tmp_path / "policy.yaml"
    bare.write_text("policy: p\nsource: site-a\ntarget: site-b\n")
    with pytest.raises(BridgeheadError, match="no 'mapping'"):
        map_job(EXAMPLE / "train.sbatch", source="site-a", target="site-b", policy=bare)


def test_preflight_says_what_is_missing_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"estate": EXAMPLE / "estate.yaml", "captured": EXAMPLE / "site-b"}
    assert preflight(EXAMPLE / "recovery.yaml", workload=["lm-70b"], json=True, **given) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "no-go"
    states = {(one["code"], one["status"]) for one in document["findings"]}
    assert {("SITE-GPUS", "fail"), ("SITE-DRIVER", "fail"), ("SITE-PARTITION", "pass"), ("SITE-SLURM", "unknown")} <= states
    with pytest.raises(BridgeheadError, match="does not protect it"):
        preflight(EXAMPLE / "recovery.yaml", workload=["other"], **given)


def test_preflight_ends_with_3_when_something_cannot_be_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mapping"
    shutil.copytree(EXAMPLE, folder)
    (folder / "train.sbatch").write_text("#!/bin/bash\n#SBATCH -p gpu\nhostname\n")
    assert preflight(folder / "recovery.yaml", workload=["lm-70b"], estate=folder / "estate.yaml", all=True) == 1
    text = capsys.readouterr().out  # the driver of one node is older whatever the script asks for
    assert text.startswith("NOT READY\nmissing  site-b/driver")
    estate = (folder / "estate.yaml").read_text().replace("535.183.06", "550.90.07")
    (folder / "estate.yaml").write_text(estate)
    assert preflight(folder / "recovery.yaml", workload=["lm-70b"], estate=folder / "estate.yaml") == 3
    assert capsys.readouterr().out.startswith("CANNOT TELL\nnot known  site-b/")


def test_captured_output_that_is_not_there_is_refused_and_not_taken_for_unknown(tmp_path: Path) -> None:
    given = {"estate": EXAMPLE / "estate.yaml", "captured": tmp_path / "nope"}
    with pytest.raises(BridgeheadError, match=f"there is no folder {tmp_path}/nope") as told:
        preflight(EXAMPLE / "recovery.yaml", workload=["lm-70b"], **given)
    assert told.value.exit_code == 2
