from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.kernel.errors import BridgeheadError
from bridgehead.training import Session, SessionOptions, create_vault


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"BRIDGEHEAD_SITE": "a"}, "BRIDGEHEAD_WORKLOAD"),
        ({"BRIDGEHEAD_WORKLOAD": "w"}, "BRIDGEHEAD_SITE"),
        ({"BRIDGEHEAD_WORKLOAD": "w", "BRIDGEHEAD_SITE": "a", "BRIDGEHEAD_EPOCH": "x"}, "BRIDGEHEAD_EPOCH"),
        ({"BRIDGEHEAD_WORKLOAD": "w", "BRIDGEHEAD_SITE": "a", "BRIDGEHEAD_EPOCH": "-1"}, "BRIDGEHEAD_EPOCH"),
        ({"BRIDGEHEAD_WORKLOAD": "w", "BRIDGEHEAD_SITE": "a", "BRIDGEHEAD_STANDBY": "yes"}, "BRIDGEHEAD_STANDBY"),
        ({"BRIDGEHEAD_WORKLOAD": "w", "BRIDGEHEAD_SITE": "a", "BRIDGEHEAD_SAVE_EVERY_S": "nan"}, "BRIDGEHEAD_SAVE_EVERY_S"),
    ],
)
def test_wrong_environment_names_the_variable(env, named: str) -> None:
    with pytest.raises(BridgeheadError, match=named):
        SessionOptions.from_env(env)


def test_environment_is_read(tmp_path: Path) -> None:
    create_vault(tmp_path / "vault")
    env = {"BRIDGEHEAD_VAULT": str(tmp_path / "vault"), "BRIDGEHEAD_WORKLOAD": "w", "BRIDGEHEAD_SITE": "a", "BRIDGEHEAD_EPOCH": "3"}
    with Session.from_env(env | {"BRIDGEHEAD_SAVE_EVERY_STEPS": "2"}) as session:
        assert session.restore() is None
        for step in session.steps(2):
            assert session.should_checkpoint(step) == (step == 2)
    assert session.epoch == 3
