"""Options and output of the context: ``vault save --capture``, ``vault watch --capture``, ``vault restore --context`` (R10)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.kernel.errors import ExitCode

if TYPE_CHECKING:
    from bridgehead.app.vault_context import Capturer
    from bridgehead.model.snapshot import Snapshot
    from bridgehead.vault import Vault


@dataclass(frozen=True)
class CaptureOptions:
    """What is kept with a snapshot beside its files.

    Attributes:
        capture: keep with it what belongs to it: git commit and diff of this folder, lock files, container, job.
        diff: keep the diff, not only its hash; untracked files above 1 MiB and what may hold secrets are left out.
        data: keep a manifest of this folder, the hash of each file.
        config: keep this JSON or YAML file of seeds and hyperparameters.
        python: keep the list of packages of this interpreter.
    """

    capture: Path | None = None
    diff: bool = True
    data: Path | None = None
    config: Path | None = None
    python: str | None = None

    def capturer(self, *outside: Path | None) -> Capturer | None:
        """None when nothing is to be captured. ``outside``: folders that are no code. Raises BAD_USAGE for an option without --capture."""
        from bridgehead.app.vault_context import CaptureOrder, Capturer
        from bridgehead.app.vaults import usage

        if self.capture is None:
            if self.data or self.config or self.python:
                happened = "--data, --config and --python belong to --capture, which is not given"
                raise usage(
                    "capture the context", subject="--capture", happened=happened, remedy="Add --capture with the folder of the code."
                )
            return None
        away = tuple(path for path in (*outside, self.data) if path is not None)
        order = CaptureOrder(directory=self.capture, diff=self.diff, data=self.data, config=self.config, python=self.python, outside=away)
        return Capturer(order, env=os.environ)


CaptureGroup = Annotated[CaptureOptions | None, Parameter(name="*", group="Context")]


def restore_context(vault: Vault, snapshot: Snapshot, *, to: Path, data: Path | None, json: bool) -> int:
    """``vault restore --context``: 0 when nothing failed, 1 when a part could not be made again or is not what it was."""
    from bridgehead.app.vault_checkout import Standing, check_out
    from bridgehead.cli.vault_display import clean

    found = check_out(vault, snapshot, to=to, data=data)
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        print(f"{found.snapshot}: context, in {found.to}")
        for part in found.parts:
            mark = "FAILED" if part.standing is Standing.FAILED else part.standing.value
            print(f"  {clean(part.what)}: {mark}: {clean(part.happened)}")
            if part.remedy:
                print(f"    do: {clean(part.remedy)}")
    return ExitCode.DONE if found.whole else ExitCode.NEGATIVE
