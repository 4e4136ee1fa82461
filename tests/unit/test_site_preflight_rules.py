"""What a site preflight judges by: which driver runs which CUDA, and what a manifest of data is (issue 6; J14, M9.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.site_preflight.judge_gpus import least_driver, runs_cuda
from bridgehead.app.site_preflight.manifests import hash_of_manifest, read_manifest
from bridgehead.kernel.errors import BridgeheadError


@pytest.mark.parametrize(
    ("driver", "cuda", "runs"),
    [
        ("550.54.14", "12.4", True),
        ("550.54.14", "12.4.1", True),
        ("550.54.14", "12.6", None),
        ("535.54.03", "12.4", None),
        ("525.60.13", "12.0", True),
        ("525.60.12", "12.0", False),
        ("470.82.01", "12.4", False),
        ("570.26", "12.7", True),
        ("550.90.07", "13.0", False),
        ("580.65.06", "13.0", True),
        ("580.65.06", "11.8", True),
        ("550.90.07", "", None),
        ("unknown", "12.4", None),
        ("999.1", "14.0", None),
    ],
)
def test_J14_which_driver_runs_which_cuda(driver: str, cuda: str, runs: bool | None) -> None:
    assert runs_cuda(driver, cuda) is runs


def test_the_driver_to_ask_for() -> None:
    assert least_driver("12.4.1") == "550.54.14"
    assert least_driver("12.7") == "570.26"
    assert least_driver("14.0") == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "lists no file"), ("x  a\n", "line 1 is no line"), ("{}", "not what a snapshot keeps"), ("0" * 64 + "  ../a", "leads out")],
)
def test_a_manifest_that_is_none_is_said(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "m").write_text(text)
    with pytest.raises(BridgeheadError, match=says):
        read_manifest(tmp_path / "m")


def test_a_manifest_that_changed_since_or_is_missing_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("0" * 64 + "  a\n")
    taken = hash_of_manifest(tmp_path / "m")
    assert read_manifest(tmp_path / "m", expected=taken).files == {"a": "0" * 64}
    (tmp_path / "m").write_text("1" * 64 + "  a\n")
    with pytest.raises(BridgeheadError, match="changed since"):
        read_manifest(tmp_path / "m", expected=taken)
    with pytest.raises(BridgeheadError, match="No such file"):
        read_manifest(tmp_path / "n")
