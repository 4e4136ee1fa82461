"""The entry point: registers the verbs (imported only when called) and turns errors into messages and exit codes."""

from __future__ import annotations

import sys

import cyclopts

from bridgehead import __version__
from bridgehead.kernel.errors import BridgeheadError, ExitCode

app = cyclopts.App(
    name="bridgehead",
    help="Move GPU clusters between datacenters while they work, and bring them back after a disaster.",
    version=__version__,
    result_action="return_value",
)
app.command("bridgehead.cli.demo:demo", name="demo", help="Move a training job and an inference service between two sites on this machine.")
app.command("bridgehead.cli.run:app", name="run", help="Start, watch and steer runs of runbooks.")
app.command("bridgehead.cli.ledger:app", name="ledger", help="Show and verify what happened.")
app.command("bridgehead.cli.estate:app", name="estate", help="Check, show and compare estate files.")
app.command("bridgehead.cli.lint:app", name="runbook", help="Check runbook files.")
app.command("bridgehead.cli.schema:app", name="schema", help="Print JSON Schemas for editors.")
app.command("bridgehead.cli.dst:app", name="dst", help="Simulate whole moves under seeded faults and check that nothing is lost.")


def main() -> None:
    """Run the command line; never returns."""
    try:
        result = app()
    except BridgeheadError as error:
        sys.exit(show(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    sys.exit(result if isinstance(result, int) else ExitCode.DONE)


def show(error: BridgeheadError) -> ExitCode:
    """Print an error for people, and return its exit code."""
    print(f"error [{error.code.value}]: could not {error.tried}", file=sys.stderr)
    print(f"  on:   {error.subject}", file=sys.stderr)
    print("  what: " + error.happened.replace("\n", "\n        "), file=sys.stderr)
    if error.remedy:
        print(f"  do:   {error.remedy}", file=sys.stderr)
    print(f"  more: {error.anchor}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    main()
