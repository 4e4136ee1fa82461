"""``bridgehead collect``: run the tools of a host, and keep what they print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter, validators

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode

app = cyclopts.App(name="collect", help="Run the tools of a host, read-only, and keep what they print.")


@app.default
def collect(
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    timeout: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 30,
    script: Annotated[bool, Parameter(negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Run the tools that this host has, each bounded in time, and keep what they print in OUTPUT/HOST, as `discover` reads it.

    Nothing is changed on the host, and root is not needed; tools that need it are noted. On another host, where Bridgehead is not
    installed: `bridgehead collect --script | ssh gpu01 sh -s > gpu01.tar`.

    Args:
        output: the folder; one for all hosts is right.
        timeout: the longest that one tool may take, in seconds.
        script: print the script instead, for any POSIX shell.
    """
    from bridgehead.app import collect as collecting

    if script:
        sys.stdout.write(collecting.collector_script())
        return ExitCode.DONE
    if output is None:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="run the tools of this host",
            subject="bridgehead collect",
            happened="neither -o DIR nor --script is given",
            remedy="Write `bridgehead collect -o captures`.",
        )
    collecting.collect(output, timeout_s=timeout)
    if json:
        import msgspec

        print(msgspec.json.encode({"folder": str(output)}).decode())
    else:
        print(f"collected; now: bridgehead discover {output}")
    return ExitCode.DONE
