"""SessionOptions: what a trainer is told by whoever starts it, as environment variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId

Value = TypeVar("Value")


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a session runs.

    Attributes:
        control: folder with ``order.json`` (in) and ``progress.json`` (out); None for a trainer that nobody orders about.
        epoch: the writer's epoch that snapshots carry; 0 before the first move.
        standby: wait, restored and warm, until a release order comes.
        save_every_steps: a checkpoint is due after each multiple of this step number; 0 for never.
        save_every_s: a checkpoint is due when the last one began this long ago; 0 for never.
        poll_s: time between looks at the order file while holding or in standby.
        follow_s: time between looks for a newer snapshot while in standby.
        fence_check_s: time between looks whether a fence closed this epoch.
        listen: False for a trainer that reports and saves but takes no orders.
        report_every_s: progress is not written more often than this, except when the state changes.
    """

    workload: WorkloadId
    site: SiteId
    control: Path | None = None
    epoch: Epoch = Epoch(0)
    standby: bool = False
    save_every_steps: int = 0
    save_every_s: float = 0.0
    poll_s: float = 0.005
    follow_s: float = 0.1
    fence_check_s: float = 0.5
    report_every_s: float = 0.05
    listen: bool = True

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> SessionOptions:
        """Read ``BRIDGEHEAD_WORKLOAD`` and ``_SITE`` (required), ``_CONTROL``, ``_EPOCH``, ``_STANDBY`` (0 or 1),
        ``_SAVE_EVERY_STEPS`` and ``_SAVE_EVERY_S``.

        Raises:
            BridgeheadError: ``bad-usage`` when a variable is missing or cannot be read; it is named.
        """
        control = env.get("BRIDGEHEAD_CONTROL", "")
        return cls(
            workload=WorkloadId(required(env, "BRIDGEHEAD_WORKLOAD")),
            site=SiteId(required(env, "BRIDGEHEAD_SITE")),
            control=Path(control) if control else None,
            epoch=Epoch(_read(env, "BRIDGEHEAD_EPOCH", int, 0)),
            standby=_read(env, "BRIDGEHEAD_STANDBY", _switch, False),
            save_every_steps=_read(env, "BRIDGEHEAD_SAVE_EVERY_STEPS", int, 0),
            save_every_s=_read(env, "BRIDGEHEAD_SAVE_EVERY_S", float, 0.0),
        )


def required(env: Mapping[str, str], name: str) -> str:
    """The variable's text. Raises BridgeheadError (``bad-usage``) when it is missing or empty."""
    text = env.get(name, "")
    if not text:
        raise _fault(name, "it is not set", "Set it where the job is submitted.")
    return text


def _read(env: Mapping[str, str], name: str, parse: Callable[[str], Value], default: Value) -> Value:
    text = env.get(name, "")
    if not text:
        return default
    try:
        value = parse(text)
    except ValueError:
        raise _fault(name, f"cannot read {text!r}", "Give a number (for _STANDBY: 0 or 1).") from None
    if isinstance(value, int | float) and not 0 <= value < float("inf"):
        raise _fault(name, f"{text} is out of range", "Give a number that is not negative.")
    return value


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(text)
    return text == "1"


def _fault(name: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE, tried="start a training session", subject=f"environment variable {name}", happened=happened, remedy=remedy
    )
