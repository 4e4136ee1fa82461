"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

HomeOption = Annotated[
    Path | None, Parameter(name="--home", help="Folder of journal and keys; default BRIDGEHEAD_HOME or the user's state folder.")
]
JsonOption = Annotated[bool, Parameter(name="--json", negative="", help="One JSON document on stdout.")]
AsOption = Annotated[str | None, Parameter(name="--as", help="Who says so; default the user's login.")]
