"""Machines: nodes that are told through their controllers, and heard through the netboot server."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import msgspec

from bridgehead.drivers.netboot.folder import NetbootFolder, Order
from bridgehead.drivers.netboot.redfish import Redfish
from bridgehead.host.web import WebAccess
from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.machines import MachineState


class NetbootOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the netboot driver.

    Attributes:
        directory: the netboot folder, which `bridgehead netboot serve` serves.
        controllers: who asks the nodes' controllers, and whom to trust; the same for all.
        timeout_s: for each wait on a controller.
    """

    directory: str
    controllers: WebAccess = WebAccess()
    timeout_s: float = 20.0


class NetbootMachines:
    """Implements ``ports.machines.Machines``.

    An order is put on record, then the controller is told; so a driver that dies in between leaves an order that is begun again after the
    node's time, and a node that starts by itself meanwhile is served what it is to become.
    """

    def __init__(self, site: SiteId, options: NetbootOptions) -> None:
        self._site, self._options = site, options
        self._folder = NetbootFolder(Path(options.directory))

    def rebuild(self, node: NodeId, *, build: str, attempt: int, stamp: Stamp) -> None:
        """See the port."""
        tried, subject = "rebuild a node", f"{node} at {self._site}"
        entry = self._folder.node(node)
        if self._folder.build(entry) != build:
            raise Conflict(
                "the netboot folder was made anew, and is of another build than this run",
                tried=tried,
                subject=subject,
                remedy="Begin a new run, which takes what is there now.",
            )
        before = self._folder.order(node)
        if before is not None and before.epoch > stamp.epoch and before.run == stamp.run:
            raise Conflict(
                f"epoch {stamp.epoch} is older than epoch {before.epoch}, which was already seen",
                tried=tried,
                subject=subject,
                remedy="Another process drives the run now: stop this one.",
            )
        if before is not None and before.key == stamp.key and before.attempt >= attempt and before.told:
            return
        order = Order(stamp.key, build, attempt, time.time(), secrets.token_hex(8), stamp.run, stamp.epoch)
        if before is not None and before.key == stamp.key and before.attempt == attempt:
            # The controller did not answer, or its answer was lost: what the node did since counts, and its time runs on.
            order = msgspec.structs.replace(order, id=before.id, at_s=before.at_s)
        self._folder.give_order(node, order)
        if entry.bmc is not None:
            Redfish(
                entry.bmc, system=entry.system, access=self._options.controllers, timeout_s=self._options.timeout_s
            ).start_from_network()
        self._folder.give_order(node, msgspec.structs.replace(order, told=True))

    def observe(self, node: NodeId) -> MachineState:
        """See the port."""
        return self._folder.observe(node)
