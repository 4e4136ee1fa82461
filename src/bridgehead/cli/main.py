"""The entry point: registers the verbs (imported only when called) and turns errors into messages and exit codes."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import sys
from collections.abc import Sequence

import cyclopts

from bridgehead import __version__
from bridgehead.cli.failures import tell, wants_json, watched
from bridgehead.cli.keyfile import key_file_taken
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode

app = cyclopts.App(
    name="bridgehead",
    help="Move GPU clusters between datacenters while they work, and bring them back after a disaster.",
    version=__version__,
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
)
app.command("bridgehead.cli.demo:demo", name="demo", help="Move a training job and an inference service between two sites on this machine.")
app.command("bridgehead.cli.lab:app", name="lab", help="Set up two Slurm sites with real servers on this machine, and break them.")
app.command("bridgehead.cli.run:app", name="run", help="Start, watch and steer runs of runbooks.")
app.command("bridgehead.cli.controller:app", name="controller", help="Stand by and drive every run that nobody drives.")
app.command("bridgehead.cli.people:app", name="people", help="Tell people what waits for them, and take their answers.")
app.command("bridgehead.cli.journal:app", name="journal", help="Copy the journal of all runs elsewhere, and take it back.")
app.command("bridgehead.cli.recover:app", name="recover", help="Move, fail over, fail back, protect again, drill.")
app.command("bridgehead.cli.netboot:app", name="netboot", help="Rebuild nodes on bare metal from their specification.")
app.command("bridgehead.cli.ledger:app", name="ledger", help="Show and verify what happened.")
app.command("bridgehead.cli.vault:app", name="vault", help="Keep checkpoints, verified and deduplicated, and bring them back.")
app.command("bridgehead.cli.discover:app", name="discover", help="Read captured output of tools: facts, conflicts, a draft of an estate.")
app.command("bridgehead.cli.collect:app", name="collect", help="Run the tools of a host, read-only, and keep what they print.")
app.command("bridgehead.cli.assess:assess", name="assess", help="Say whether the target of a move is ready: go, no-go, or cannot tell.")
app.command("bridgehead.cli.plan:app", name="plan", help="Make, check, explain and compile plans of moves.")
app.command("bridgehead.cli.cost:cost", name="cost", help="Say what a plan costs, what it saves, and what decides that.")
app.command("bridgehead.cli.simulate:simulate", name="simulate", help="Play a plan many times under hazards: what to expect.")
app.command("bridgehead.cli.watch:app", name="watch", help="Say whether everything could be recovered now, and warn before it cannot.")
app.command("bridgehead.cli.watch:status", name="status", help="Show whether everything could be recovered; --watch goes on.")
app.command("bridgehead.cli.objectives:app", name="objectives", help="Check and price what must hold after a disaster.")
app.command("bridgehead.cli.estate:app", name="estate", help="Check, show and compare estate files.")
app.command("bridgehead.cli.example:app", name="example", help="Write generated estates and policies to try things with.")
app.command("bridgehead.cli.lint:app", name="runbook", help="Check runbook files.")
app.command("bridgehead.cli.schema:app", name="schema", help="Print JSON Schemas for editors.")
app.command("bridgehead.cli.dst:app", name="dst", help="Simulate whole moves under seeded faults and check that nothing is lost.")

READER_LEFT = 128 + 13
"""As a program that dies of SIGPIPE."""


def main() -> None:
    """Run the command line; never returns."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a sign is no reason to fail
    else:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for as long as the process lives
    code = call(sys.argv[1:])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.exit(code)
    # Whatever could not be written would be tried again, and complained about, when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def call(arguments: Sequence[str]) -> int:
    """Carry one command out; errors become messages, see ``failures``. Returns the exit code."""
    if not wants_json(arguments):
        done = _carried_out(arguments)
        return tell(done, as_document=False) if isinstance(done, BridgeheadError) else done
    with watched() as stdout:
        done = _carried_out(arguments)
    return tell(done, as_document=not stdout.used) if isinstance(done, BridgeheadError) else done


def _carried_out(arguments: Sequence[str]) -> int | BridgeheadError:
    """The exit code, or why it failed."""
    try:
        with key_file_taken(arguments) as words:
            _require_verb(words)
            result = app(words)
        sys.stdout.flush()
    except BridgeheadError as error:
        return error
    except cyclopts.CycloptsError as error:
        argument = error.argument if isinstance(error, cyclopts.MissingArgumentError) else None
        happened = str(error) if argument is None else f"{argument.name} must be given"
        return _wrong_use(" ".join(error.command_chain or ()), happened)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + 2
    except BrokenPipeError:
        return READER_LEFT
    except OSError as error:
        return _refused(error)
    except Exception as error:
        import traceback

        traceback.print_exc()
        return _fault_of_ours(error)
    return result if isinstance(result, int) else ExitCode.DONE


def _require_verb(arguments: Sequence[str]) -> None:
    """Refuse a group of verbs without a verb: a script whose variable is empty must not succeed. Without any word, help is right."""
    chain, apps, rest = app.parse_commands(arguments)
    if apps[-1].default_command is not None or not (chain or rest):
        return
    verbs = [name for name in apps[-1] if not name.startswith("-")]
    happened = "a verb is missing"
    if rest:
        near = difflib.get_close_matches(rest[0], verbs, n=1)
        happened = f"there is no verb '{rest[0]}'" + (f" (did you mean '{near[0]}'?)" if near else "")
    raise _wrong_use(" ".join(chain), f"{happened}; there are {', '.join(verbs)}")


def _wrong_use(command: str, happened: str) -> BridgeheadError:
    words = f"bridgehead {command}".strip()
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="understand the command",
        subject=words,
        happened=happened.rstrip("."),
        remedy=f"`{words} --help` shows how it is used.",
    )


def _refused(error: OSError) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.PORT_PERMANENT,
        tried="carry out the command",
        subject=str(error.filename or "this machine"),
        happened=error.strerror or str(error),
        remedy="Remove the cause (space, rights, a path) and give the command again.",
    )


def _fault_of_ours(error: Exception) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.INTERNAL,
        tried="carry out the command",
        subject=f"bridgehead {__version__}",
        happened=f"{type(error).__name__}: {error}",
        remedy="Please report it with the lines above. Runs are safe: `bridgehead run resume` goes on from the journal.",
    )


if __name__ == "__main__":
    main()
