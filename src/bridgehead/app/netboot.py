"""Netboot: what `bridgehead netboot` does: read a rebuild file, write what nodes are served, and open the run that rebuilds them (R15)."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.app.runbook_files import read_text
from bridgehead.drivers.netboot import NetbootFolder, NetbootServer
from bridgehead.drivers.netboot.folder import REBUILD_FILE
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Person, RunId
from bridgehead.kernel.phrase import nearest
from bridgehead.model.rebuild import NodeBuild, Rebuild
from bridgehead.model.rebuildfile import read_rebuild
from bridgehead.model.runbook import Runbook
from bridgehead.ports.machines import MachineState
from bridgehead.recovery.actions.rebuilding import wrong_with
from bridgehead.recovery.bare_metal import expected_of, rebuild_runbook

WHAT = "rebuild file"


class NodeLine(msgspec.Struct, frozen=True):
    """What is known of a node: ``state`` is one of not-ordered, ordered, installed, wrong, back; ``why`` says more."""

    node: str
    state: str
    why: str
    took_s: float | None


def load_rebuild(path: Path) -> Rebuild:
    """Read a rebuild file. Raises BAD_INPUT with every fault, each with file, line and field."""
    return read_rebuild(read_text(path, what=WHAT), file=str(path))


def make(file: Path, to: Path) -> int:
    """Write what is served to nodes; how many files. Raises BAD_INPUT, BAD_USAGE for a folder that holds something else."""
    rebuild = load_rebuild(file)
    if to.exists() and (not to.is_dir() or (any(to.iterdir()) and not (to / REBUILD_FILE).exists())):
        raise _unusable(to, "it holds something else")
    try:
        return NetbootFolder(to).make(rebuild)
    except OSError as error:
        raise _unusable(to, error.strerror or str(error)) from error


def chosen(rebuild: Rebuild, names: Sequence[str]) -> tuple[NodeBuild, ...]:
    """The nodes of these names; none: all. Raises BAD_USAGE for a name that the file does not have."""
    by_name = {str(node.id): node for node in rebuild.nodes}
    for name in names:
        if name not in by_name:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="choose nodes",
                subject=name,
                happened="the rebuild file has no such node",
                remedy=nearest(name, list(by_name)),
            )
    return tuple(by_name[name] for name in dict.fromkeys(names)) or rebuild.nodes


def propose(folder: Path, names: Sequence[str], approvers: Sequence[str]) -> tuple[Runbook, dict[str, Any]]:
    """The runbook of what the folder was made from, and its connections. Raises BAD_USAGE when nothing was made there."""
    rebuild = _made(folder).rebuild()
    runbook = rebuild_runbook(rebuild, nodes=chosen(rebuild, names), approvers=[Person(one) for one in approvers])
    login = rebuild.controllers
    access = {"user": login.user, "password_file": login.password_file, "ca_file": login.ca_file}
    options = {"driver": "netboot", "directory": str(folder.absolute()), "controllers": access, "timeout_s": login.timeout_s}
    return runbook, {"sites": {}, "services": {}, "machines": {rebuild.site: options}}


def open_run(home: Home, runbook: Runbook, connections: dict[str, Any], *, name: str | None, by: str) -> RunId:
    """Open the run. Raises as ``runs.start``."""
    return runs.start(home, runbook, connections, name=name or runs.name_for(runbook, now_s=time.time()), by=by)


def serving(folder: Path, images: Path, *, host: str, port: int, say: Callable[[str], None]) -> NetbootServer:
    """The server of a netboot folder. Raises as ``NetbootServer``; BAD_USAGE when nothing was made there."""
    return NetbootServer(_made(folder), images, host=host, port=port, say=say)


def lines(folder: Path) -> list[NodeLine]:
    """What is known of every node. Raises BAD_USAGE when nothing was made there."""
    kept = _made(folder)
    rebuild = kept.rebuild()
    return [_line(rebuild, node, kept.observe(node.id)) for node in rebuild.nodes]


def _line(rebuild: Rebuild, node: NodeBuild, state: MachineState) -> NodeLine:
    if not state.ordered:
        return NodeLine(node.id, "not-ordered", "", None)
    if state.report is None:
        why = "" if state.told else "its controller has not taken the order"
        return NodeLine(node.id, "ordered" if state.installed_s is None else "installed", why, None)
    wrong = wrong_with(expected_of(rebuild, node), state)
    took_s = None if state.reported_s is None else state.reported_s - state.ordered_s
    return NodeLine(node.id, "wrong" if wrong else "back", wrong, took_s)


def _made(folder: Path) -> NetbootFolder:
    if not (folder / REBUILD_FILE).exists():
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="read a netboot folder",
            subject=str(folder),
            happened="nothing was made in it" if folder.is_dir() else "there is no such folder",
            remedy=f"`bridgehead netboot make FILE --to {shlex.quote(str(folder))}` makes it; or name another one by --dir.",
        )
    return NetbootFolder(folder)


def _unusable(folder: Path, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="make a netboot folder",
        subject=str(folder),
        happened=happened,
        remedy="Choose an empty or new folder with --to.",
    )
