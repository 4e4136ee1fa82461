"""Folder: what is served to nodes, and what is known of each; the server and the driver meet in it.

rebuild.json            what the files were made from
secret                  from which the tokens of nodes are made; only its owner may read it
nodes/<node>/           boot.ipxe and the answers of its installer, for people: what is served is made when it is asked for
state/<node>/order      the newest order, replaced
state/<node>/installed-<order>, report-<order>: what came after it, created once
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bridgehead.host.durable import create_durably, write_durably
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.kernel.ids import Epoch, RunId
from bridgehead.model.equipment import NodeId
from bridgehead.model.rebuild import NodeBuild, Rebuild
from bridgehead.ports.machines import MachineState, NodeReport
from bridgehead.recovery.netboot import boot_script, build_of, node_files, token_of

T = TypeVar("T")
REBUILD_FILE: Final = "rebuild.json"


class Order(msgspec.Struct, frozen=True):
    """That a node is to be built.

    Attributes:
        key: of the stamp that asked.
        attempt: the how-manieth time.
        id: names what came after it.
        told: its controller has taken it.
    """

    key: str
    build: str
    attempt: int
    at_s: float
    id: str
    run: RunId
    epoch: Epoch
    told: bool = False


class _Dated(msgspec.Struct, frozen=True):
    at_s: float
    report: NodeReport | None = None


class NetbootFolder:
    """See the module. Raises NotFound for nodes that are not in it, Permanent when there is nothing or it is damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, rebuild: Rebuild) -> int:
        """Write every file; how many. States of nodes and the secret stay. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "secret").exists():
            create_durably(str(self.folder / "secret"), secrets.token_hex(32).encode(), mode=0o600)
        written = 0
        for node in rebuild.nodes:
            place = self.folder / "nodes" / node.id
            place.mkdir(parents=True, exist_ok=True)
            files = {"boot.ipxe": boot_script(rebuild, node), **node_files(rebuild, node, token="of-the-order")}
            for name, text in files.items():
                write_durably(str(place / name), text.encode())
            for name in set(os.listdir(place)) - set(files):
                (place / name).unlink()
            written += len(files)
        # Last: what was made half is not what is served.
        write_durably(str(self.folder / REBUILD_FILE), msgspec.json.encode(rebuild))
        return written

    def rebuild(self) -> Rebuild:
        """What the files were made from."""
        return self._read(self.folder / REBUILD_FILE, Rebuild)

    def node(self, name: str) -> NodeBuild:
        """A node by its name."""
        return self._node(lambda one: one.id == name, name)

    def by_mac(self, mac: str) -> NodeBuild:
        """A node by the address of its adapter, with colons or dashes."""
        plain = mac.lower().replace("-", ":")
        return self._node(lambda one: one.mac == plain, mac)

    def build(self, node: NodeBuild) -> str:
        """What it is built from."""
        return build_of(self.rebuild(), node)

    def served(self, name: str) -> Mapping[str, str]:
        """What a node is given now; nothing while it is not to be installed. Raises NotFound."""
        rebuild, node = self.rebuild(), self.node(name)
        order = self.order(node.id)
        if order is None or not self.to_be_installed(node.id):
            return {}
        return {"boot.ipxe": boot_script(rebuild, node), **node_files(rebuild, node, token=self.token(node, order))}

    def token(self, node: NodeBuild, order: Order) -> str:
        """With which it reports on this order."""
        return token_of(self.secret(), node, self.build(node), order=order.id)

    def secret(self) -> bytes:
        """From which tokens are made."""
        try:
            return (self.folder / "secret").read_bytes()
        except OSError as error:
            raise self._nothing(error) from error

    def order(self, node: NodeId) -> Order | None:
        """The newest order."""
        path = self._state(node) / "order"
        return self._read(path, Order) if path.exists() else None

    def give_order(self, node: NodeId, order: Order) -> None:
        """Put it in force. Raises Transient when the disk refuses."""
        try:
            self._state(node).mkdir(parents=True, exist_ok=True)
            write_durably(str(self._state(node) / "order"), msgspec.json.encode(order))
        except OSError as error:
            raise Transient(f"{error.strerror}", tried="order a rebuild", subject=str(self.folder), remedy="Make room there.") from error

    def note_installed(self, node: NodeId) -> None:
        """Its installer has ended. Raises OSError."""
        self._note(node, "installed", None)

    def note_report(self, node: NodeId, report: NodeReport) -> None:
        """It has said what it is. Raises OSError."""
        self._note(node, "report", report)

    def to_be_installed(self, node: NodeId) -> bool:
        """It is ordered, and its installer has not ended."""
        order = self.order(node)
        return order is not None and not self._later(node, "installed", order).exists()

    def observe(self, node: NodeId) -> MachineState:
        """What is known of it."""
        self.node(node)
        order = self.order(node)
        if order is None:
            return MachineState()
        installed, reported = self._dated(node, "installed", order), self._dated(node, "report", order)
        return MachineState(
            ordered=order.key,
            ordered_s=order.at_s,
            orders=order.attempt,
            told=order.told,
            installed_s=None if installed is None else installed.at_s,
            report=None if reported is None else reported.report,
            reported_s=None if reported is None else reported.at_s,
        )

    def _note(self, node: NodeId, what: str, report: NodeReport | None) -> None:
        order = self.order(node)
        if order is not None:
            write_durably(str(self._later(node, what, order)), msgspec.json.encode(_Dated(time.time(), report)))

    def _dated(self, node: NodeId, what: str, order: Order) -> _Dated | None:
        path = self._later(node, what, order)
        return self._read(path, _Dated) if path.exists() else None

    def _later(self, node: NodeId, what: str, order: Order) -> Path:
        return self._state(node) / f"{what}-{order.id}"

    def _state(self, node: NodeId) -> Path:
        return self.folder / "state" / node

    def _node(self, is_it: Callable[[NodeBuild], bool], name: str) -> NodeBuild:
        with contextlib.suppress(StopIteration):
            return next(one for one in self.rebuild().nodes if is_it(one))
        remedy = "Add it to the rebuild file; then `bridgehead netboot make`."
        raise NotFound("the rebuild file has no such node", tried="find a node", subject=name, remedy=remedy)

    def _read(self, path: Path, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError) as error:
            raise self._nothing(error) from error

    def _nothing(self, error: Exception) -> Permanent:
        happened = f"{getattr(error, 'filename', None) or 'a file'}: {getattr(error, 'strerror', None) or error}"
        return Permanent(
            happened, tried="read a netboot folder", subject=str(self.folder), remedy="`bridgehead netboot make FILE --to DIR` makes it."
        )
