"""Options that several verbs share."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

HomeOption = Annotated[
    Path | None, Parameter(name="--home", help="Folder of journal and keys; default BRIDGEHEAD_HOME or the user's state folder.")
]
JsonOption = Annotated[bool, Parameter(name="--json", negative="", help="One JSON document on stdout.")]
NameOption = Annotated[str | None, Parameter(name="--name", help="Name of the run.")]
AsOption = Annotated[str | None, Parameter(name="--as", help="Who says so; default the user's login.")]


def who(name: str | None) -> str:
    """Who says so. A container may run under a number that has no login name."""
    try:
        return name or getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
