"""A run is refused before its first step when the estate does not connect what it names, and leads to the same places from anywhere."""

from __future__ import annotations

import pytest

from bridgehead.app.preflight import refuse_unconnected, rooted
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.runbook import ActionStep, Criterion, GateStep, Runbook

ESTATE = {"sites": {"site-a": {"scheduler": {"driver": "process", "directory": "first/a"}}, "site-b": {}}, "services": {"chat": {}}}


def shift(weights: dict[str, int], service: str = "chat") -> ActionStep:
    return ActionStep("shift", "traffic.shift", {"service": service, "weights": weights}, 60.0)


def test_what_is_connected_is_accepted() -> None:
    gate = GateStep("g", "chat", "site-b", "site-a", (Criterion("bad", "bad", "all", limit=0.0),), "all", 1, 2, 1.0, 30.0)
    fence = ActionStep("fence", "training.fence", {"workload": "lm", "holder": "site-b", "sites": ["site-a", "site-b"], "of": "h"}, 60.0)
    refuse_unconnected(Runbook("x", (shift({"site-a": 0, "site-b": 100}), gate, fence)), ESTATE)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (shift({"site-a": 0, "site-c": 100}), "step 'shift' names the site 'site-c'"),
        (shift({"site-a": 100}, service="chatt"), "step 'shift' names the service 'chatt'"),
        (ActionStep("s", "job.stop", {"site": "site-x", "job": "j", "restart": {}}, 60.0), "step 's' names the site 'site-x'"),
        (
            ActionStep("f", "training.fence", {"workload": "lm", "holder": "site-b", "sites": ["site-a", "site-z"], "of": "h"}, 60.0),
            "step 'f' names the site 'site-z'",
        ),
    ],
)
def test_what_is_not_connected_is_named(step: ActionStep, text: str) -> None:
    with pytest.raises(BridgeheadError) as caught:
        refuse_unconnected(Runbook("x", (step,)), ESTATE)
    assert caught.value.code is ErrorCode.RUNBOOK_REFUSED
    assert text in caught.value.happened


def test_relative_folders_are_those_of_the_moment_of_the_start(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert rooted(ESTATE)["sites"]["site-a"]["scheduler"] == {"driver": "process", "directory": str(tmp_path / "first" / "a")}
    assert ESTATE["sites"]["site-a"]["scheduler"]["directory"] == "first/a"
