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
    ssh: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    script: Annotated[bool, Parameter(negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Run the tools that this host has, each bounded in time, and keep what they print in OUTPUT/HOST, as `discover` reads it.

    Nothing is changed on the host, and root is not needed; tools that need it are noted. With --ssh the script runs on other hosts, where
    Bridgehead need not be installed, and OUTPUT/HOST.tar is what each sends back; exit code 1 when one of them did not.

    Args:
        output: the folder; one for all hosts is right.
        timeout: the longest that one tool may take, in seconds.
        ssh: another host instead of this one, as ssh takes it. May be given several times.
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
    if ssh:
        return _over_ssh(ssh, output, timeout_s=timeout, json=json)
    collecting.collect(output, timeout_s=timeout)
    if json:
        import msgspec

        print(msgspec.json.encode({"folder": str(output)}).decode())
    else:
        print(f"collected; now: bridgehead discover {output}")
    return ExitCode.DONE


def _over_ssh(hosts: tuple[str, ...], output: Path, *, timeout_s: int, json: bool) -> int:
    from bridgehead.app.collect import Reply, collect_over_ssh
    from bridgehead.cli.vault_display import clean

    def say(reply: Reply) -> None:
        print(f"{clean(reply.host)}: {clean(reply.reason) or 'collected'}", file=sys.stderr, flush=True)

    replies = collect_over_ssh(hosts, output, timeout_s=timeout_s, watch=say)
    missing = [reply.host for reply in replies if reply.archive is None]
    if json:
        import msgspec

        listed = [{"host": one.host, "archive": str(one.archive) if one.archive else None, "reason": one.reason} for one in replies]
        print(msgspec.json.encode({"folder": str(output), "hosts": listed}).decode())
    else:
        then = f"; now: bridgehead discover {output}" if len(missing) < len(replies) else ""
        print(f"collected from {len(replies) - len(missing)} of {len(replies)} hosts{then}")
    return ExitCode.NEGATIVE if missing else ExitCode.DONE
