"""``bridgehead netboot``: nodes are rebuilt on bare metal from their specification."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from bridgehead.cli.options import AsOption, HomeOption, JsonOption, NameOption, who
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode

if TYPE_CHECKING:
    from bridgehead.app.home import Home
    from bridgehead.kernel.ids import RunId
    from bridgehead.runbook.engine import Engine
    from bridgehead.runbook.state import RunState

app = App(name="netboot", help="Rebuild nodes on bare metal from their specification: netboot files, the server, the run.")
FolderOption = Annotated[Path, Parameter(name="--dir", help="The netboot folder.")]


@app.command
def make(file: Path, /, *, to: Path = Path("netboot"), json: JsonOption = False) -> int:
    """Write iPXE scripts and the answers of installers for every node of a rebuild file. What is known of nodes stays.

    Args:
        file: the rebuild file.
        to: the folder that is written.
    """
    from bridgehead.app import netboot

    files = netboot.make(file, to)
    if json:
        print(msgspec.json.encode({"folder": str(to), "files": files}).decode())
    else:
        print(f"{to}: {files} files. `bridgehead netboot serve --dir {to} --images FOLDER` serves them.")
    return ExitCode.DONE


@app.command
def serve(*, images: Path, directory: FolderOption = Path("netboot"), host: str = "0.0.0.0", port: int = 8080) -> int:
    """Serve nodes what they boot, and hear them, until SIGTERM or SIGINT. DHCP must lead iPXE to http://HOST:PORT/boot/MAC.

    Args:
        images: the folder with kernels and file systems; their hashes are checked first.
        host: address to listen at; everything is plain HTTP, so let it be one of the provisioning network.
        port: 0 takes a free one.
    """
    from bridgehead.app import netboot

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with netboot.serving(directory, images, host=host, port=port, say=lambda text: print(text, flush=True)) as server:
        print(f"serves {directory} at {host}:{server.port}", flush=True)
        stop.wait()
    return ExitCode.DONE


@app.command
def status(*, directory: FolderOption = Path("netboot"), json: JsonOption = False) -> int:
    """Show what is known of every node. Exit code 1 while one is not back."""
    from bridgehead.app import netboot

    found = netboot.lines(directory)
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        width = max((len(one.node) for one in found), default=0)
        for one in found:
            took = "" if one.took_s is None else f"{one.took_s:.0f} s"
            print(f"{one.node:<{width}}  {one.state:<11}  {took:>7}  {one.why}".rstrip())
        print(f"{sum(one.state == 'back' for one in found)} of {len(found)} nodes are back")
    return ExitCode.DONE if all(one.state == "back" for one in found) else ExitCode.NEGATIVE


@app.command
def rebuild(
    *nodes: str,
    directory: FolderOption = Path("netboot"),
    approvers: Annotated[list[str] | None, Parameter(name="--approver", negative="")] = None,
    overwrite: Annotated[bool, Parameter(name="--overwrite-disks", negative="")] = False,
    plan_only: Annotated[bool, Parameter(negative="")] = False,
    name: NameOption = None,
    by: AsOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Rebuild NODES, or all: they are started from the network through their controllers, and count when they report what they must be.

    Args:
        approvers: one of them must agree first: `bridgehead run approve`. May be given several times.
        overwrite: needed where nobody is asked: EVERYTHING on the disks is lost.
        plan_only: show the runbook; do nothing.
    """
    from bridgehead.app import netboot, runs, wiring
    from bridgehead.app.home import Home
    from bridgehead.runbook import state as st
    from bridgehead.runbook.language import write_runbook

    runbook, connections = netboot.propose(directory, nodes, approvers or [])
    if plan_only:
        print(write_runbook(runbook, actions=wiring.action_params()), end="")
        return ExitCode.DONE
    print(runbook.description, file=sys.stderr)
    if not approvers and not overwrite:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="rebuild nodes",
            subject=str(directory),
            happened="nobody is asked, and --overwrite-disks was not given",
            remedy="Give --overwrite-disks, or --approver PERSON. --plan-only shows what would be done. Nothing was done.",
        )
    place = Home(home)
    run = netboot.open_run(place, runbook, connections, name=name, by=who(by))
    state = _driven(place, run)
    if json:
        print(msgspec.json.encode({"run": run, "mode": runs.mode_word(state), "nodes": netboot.lines(directory)}).decode())
    else:
        for one in netboot.lines(directory):
            if one.state != "back":
                print(f"{one.node}: {one.state} {one.why}".rstrip())
        print(f"{run}: {runs.mode_word(state)}; `bridgehead netboot status --dir {directory}` shows every node")
    return ExitCode.DONE if isinstance(state.mode, st.Ended) and runs.mode_word(state) == "done" else ExitCode.NEGATIVE


def _driven(place: Home, run: RunId) -> RunState:
    """Until it has ended, is frozen, or is told to stop."""
    from bridgehead.app import runs
    from bridgehead.cli import display
    from bridgehead.cli.stopping import stop_on_signals
    from bridgehead.runbook import state as st

    engines: list[Engine] = []

    def begin(engine: Engine) -> None:
        engines.append(engine)
        stop_on_signals(engine)

    def watch(state: RunState, _events: object) -> None:
        live.show(state, driver="this process")
        if isinstance(state.mode, st.OnHold) and state.mode.frozen and engines:
            engines[0].stop()

    with display.Live(runs.state_of(place, run)) as live:
        return runs.drive(place, run, watcher=watch, on_engine=begin)
