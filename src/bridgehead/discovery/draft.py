"""Draft: merged facts become the part of an estate that they prove, and the list of what planning still lacks (M5.1, M5.2). Pure.

Only KNOWN values are taken. What is unknown or in conflict is left out and listed with what would settle it. Attributes that are read, of
parsers whatever their tool (a bare name where no unit stands):

- ``node:*``: ``gpu-count`` (as the driver counts), ``memory-installed`` and ``memory`` (B, main memory), ``model`` (of the chassis),
  ``driver-version``, ``cuda-version``, ``bios-version``, ``bmc-version``, ``ofed-version``, ``power-draw`` (W, of the whole chassis)
- ``node:*/psu:*``: ``capacity`` (W)
- ``node:*/gpu:*``: ``model``, ``pci-bus-id``, ``vbios-version``, ``nvlinks-active`` (how many)
- ``node:*/nic:*``: ``rate`` (bit/s), ``link-layer`` (``infiniband`` or ``ethernet``), ``model``, ``firmware-version``, ``state``
  (``active`` or ``up`` when the link is there)
- ``node:*/gpu:*`` ``uuid``: two hosts that have one GPU are one host under two names, and neither is taken
- switches and adapters, as ``draft_fabric`` says; jobs and workloads, as ``draft_workloads`` says; services, as ``draft_services`` says
- mounts, as ``draft_stores`` says; results of tests, as ``draft_tests`` says; addresses, as ``draft_names`` says
- ``site:*/rack:*``: ``units``, ``weight`` (kg), ``max-weight`` (kg), ``location``
- ``site:*/panel:*/feed:*``: ``voltage`` (V), ``amperage`` (A), ``wiring`` (as in estates), ``status``, ``rack``
- ``site:*/device:*`` (taken for the node of that name): ``rack``, ``position``, ``device-type``, ``weight`` (kg); and of
  ``device-type:MAKER/MODEL``: ``units``, ``weight`` (kg), ``nameplate-power`` (W)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.discovery.captures import same_host
from bridgehead.discovery.draft_fabric import cabling
from bridgehead.discovery.draft_hosts import Host, Place, node_of, place_of, same_hosts
from bridgehead.discovery.draft_names import Names, is_address
from bridgehead.discovery.draft_names import Place as Home
from bridgehead.discovery.draft_notes import Lack, Notes, Part, word
from bridgehead.discovery.draft_rooms import Waiting, room_of
from bridgehead.discovery.draft_services import Offer, services_of
from bridgehead.discovery.draft_stores import Unsized, stores_of
from bridgehead.discovery.draft_tests import Crossing, results_of
from bridgehead.discovery.draft_workloads import drawn_of
from bridgehead.discovery.knowledge import NAMELESS, Knowledge
from bridgehead.discovery.merge import natural
from bridgehead.kernel.ids import ServiceId, SiteId, WorkloadId
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.estate import Estate, Service, Site, Workload
from bridgehead.model.fabric import Fabric, FabricId, FabricKind, FabricPurpose, Switch

INFINIBAND: Final = FabricId(FabricKind.INFINIBAND.value)
"""What the fabric of InfiniBand scans is called until somebody names it."""


class Pending(msgspec.Struct, frozen=True):
    """What captures prove but for one value, without which an estate cannot hold it: it waits for somebody to declare that.

    Attributes:
        circuits: of each site, that wait for their wiring.
        stores: of each site, that wait for their size.
        crossings: what was received between sites, which belongs to the one link between them as soon as that is declared.
    """

    circuits: dict[SiteId, tuple[Waiting, ...]] = {}
    stores: dict[SiteId, tuple[Unsized, ...]] = {}
    crossings: tuple[Crossing, ...] = ()


class Draft(msgspec.Struct, frozen=True):
    """An estate of what is proved, what it lacks, and what waits to be declared."""

    estate: Estate
    lacks: tuple[Lack, ...]
    waiting: Pending = Pending()


def draft(known: Mapping[SiteId, Knowledge], *, name: str) -> Draft:
    """The estate of what was found at each site. The order of facts changes nothing.

    Where the captures of one site name several sites, as an export of NetBox may, each is a site of its own.
    """
    notes = Notes()
    sites: list[Site] = []
    lacks: list[Lack] = []
    circuits: dict[SiteId, tuple[Waiting, ...]] = {}
    stores: dict[SiteId, tuple[Unsized, ...]] = {}
    offers: list[Offer] = []
    all_drawn: list[_Drawn] = []
    for site, told in sorted(known.items()):
        drawn = _Ground(site, told).sites(notes)
        if len(drawn) == 1:
            workloads = drawn_of(told, drawn[0].site.id, notes)
            ids = {subject: workload.id for subject, workload in workloads.items()}
            offers.append(services_of(told, drawn[0].site.id, ids, tuple(workloads.values()), notes))
        all_drawn += drawn
        for one in drawn:
            sites.append(one.site)
            circuits |= {one.site.id: one.circuits} if one.circuits else {}
            stores |= {one.site.id: one.stores} if one.stores else {}
            lacks += _site_lacks(one.site, nameless=NAMELESS in told, stores=bool(one.site.stores or one.stores))
    names = Names((Home(one.site.id, NodeId(host)) for one in all_drawn for host in one.hosts), known)
    results = results_of(known, sites, names, notes)
    tested = (msgspec.structs.replace(site, acceptance=results.acceptance.get(site.id, ())) for site in sites)
    ordered = tuple(sorted(tested, key=lambda one: (natural(one.id), one.id)))
    running, services = _named_apart(offers)
    general = _general_lacks(services=bool(services), workloads=bool(running), sites=len(sites))
    general += crossing_lacks(results.crossings)
    return Draft(
        Estate(name=name, sites=ordered, workloads=running, services=services),
        (*notes.lacks(), *lacks, *general),
        Pending(circuits, stores, results.crossings),
    )


def crossing_lacks(crossings: Sequence[Crossing]) -> list[Lack]:
    """What was received between sites, as something that lacks a link that it belongs to."""
    what = "the one link between {0} and {1} over which {2:.3g} Gbit/s were received (iperf3): rate, carrier, path"
    return [Lack(what.format(*one.between, one.received_bps / 1e9), "the carrier's contract; declare the link") for one in crossings]


def _general_lacks(*, services: bool, workloads: bool, sites: int) -> list[Lack]:
    lacks = []
    if services:
        lacks.append(Lack("what services and workloads depend on that their settings do not name", "their owners"))
    else:
        lacks.append(Lack("services, their endpoints and what they depend on", "their owners, and the proxies in front of them"))
    if not workloads:
        lacks.append(Lack("workloads", "squeue, sacct, or kubectl get pods; and their owners"))
    if sites != 1:
        lacks.append(Lack("links between sites: rate, delay, carrier", "the carrier's contract, and iperf3 between the sites"))
    return lacks


def _named_apart(offers: Sequence[Offer]) -> tuple[tuple[Workload, ...], tuple[Service, ...]]:
    """Two sites may each have a job 12, or a service of one name: then each has the name of its site before its own."""
    uses = Counter[str](workload.id for offer in offers for workload in offer.workloads)
    uses.update(service.id for offer in offers for service in offer.services)
    workloads: list[Workload] = []
    services: list[Service] = []
    for offer in offers:
        sites: dict[str, SiteId] = {one.id: one.site for one in offer.workloads}
        sites |= {one.id: one.sites[0] for one in offer.services}
        name = {old: old if uses[old] == 1 else f"{site}.{old}"[:63] for old, site in sites.items()}
        workloads += (
            msgspec.structs.replace(one, id=WorkloadId(name[one.id]), needs=tuple(name[need] for need in one.needs))
            for one in offer.workloads
        )
        services += (
            msgspec.structs.replace(
                one, id=ServiceId(name[one.id]), workload=None if one.workload is None else WorkloadId(name[one.workload])
            )
            for one in offer.services
        )
    return tuple(workloads), tuple(services)


class _Drawn(msgspec.Struct, frozen=True):
    """A site, all its hosts, and what of it waits for a value. ``hosts``: those too of which too little is known for a node."""

    site: Site
    hosts: tuple[str, ...]
    circuits: tuple[Waiting, ...]
    stores: tuple[Unsized, ...]


class _Ground:
    """What is told of one place that the user named."""

    def __init__(self, site: SiteId, told: Knowledge) -> None:
        self.site = site
        self.hosts: defaultdict[str, Host] = defaultdict(Host)
        self.inside: defaultdict[str, dict[str, Part]] = defaultdict(dict)
        self.types: dict[str, Part] = {}
        for subject, part in told.items():
            kind, _, rest = subject.partition(":")
            outer, _, inner = rest.partition("/")
            match kind:
                case "node" if f"node:{outer}" != NAMELESS and not is_address(outer):
                    self.hosts[outer].take(inner, part)
                case "site":
                    self.inside[outer][inner] = part
                case "device-type":
                    self.types[rest] = part
                case _:
                    pass
        self.hosts = defaultdict(Host, same_hosts(self.hosts))
        self.cabling = cabling(told, INFINIBAND)
        named = {outer for outer, paths in self.inside.items() if outer != "?" and any(paths)}
        self.names = sorted(named) if len(named) > 1 else []

    def sites(self, notes: Notes) -> list[_Drawn]:
        """One, or one for each that the facts name."""
        placed: defaultdict[SiteId, list[tuple[str, Place]]] = defaultdict(list)
        index = self._devices()
        for host in sorted(self.hosts, key=lambda host: (natural(host), host)):
            where, device = self._device(host, index)
            kind = self.types.get(word(device, "device-type"), {})
            placed[where].append((host, place_of(device, kind)))
        ids = {*(SiteId(name) for name in self.names), *placed} or {self.site}
        switches = self.cabling.switches if len(ids) == 1 else ()
        if switches != self.cabling.switches:
            notes.lack(self.site, "site of each switch, and so the switches themselves,", "the captures of each site by itself (--site)")
        return [self._one(site, placed[site], switches, notes) for site in sorted(ids)]

    def _one(self, site: SiteId, hosts: list[tuple[str, Place]], switches: tuple[Switch, ...], notes: Notes) -> _Drawn:
        fabrics: dict[FabricId, Fabric] = {}
        if switches:
            fabrics[INFINIBAND] = Fabric(id=INFINIBAND, kind=FabricKind.INFINIBAND, purpose=FabricPurpose.UNKNOWN)
        leaves = self.cabling.leaf_of if switches else {}
        paths = self.inside.get(site, {}) if self.names else {path: part for some in self.inside.values() for path, part in some.items()}
        room = room_of(paths, notes)
        racks = {rack.id for rack in room.racks}
        nodes: list[Node] = []
        twins = self._twins()
        for host, place in hosts:
            if host in twins:
                what = f"name that is its own ({twins[host]} has the same GPU, as one host under two names has), and so the node itself,"
                notes.lack(host, what, "the folders' names, and --host")
                continue
            known_place = place if place.rack in racks else msgspec.structs.replace(place, rack=None, position=None)
            node = node_of(host, self.hosts[host], known_place, fabrics, notes, leaves=leaves)
            nodes += [node] if node is not None else []
        held = stores_of([self.hosts[host].itself for host, _ in hosts], site, notes)
        found = Site(
            id=site,
            sources=room.sources,
            circuits=room.circuits,
            racks=room.racks,
            fabrics=tuple(fabrics[key] for key in sorted(fabrics)),
            switches=switches,
            nodes=tuple(nodes),
            stores=held.stores,
        )
        return _Drawn(found, tuple(host for host, _ in hosts), room.waiting, held.unsized)

    def _twins(self) -> dict[str, str]:
        """Hosts that share a GPU with another host, and that one's name."""
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for host in sorted(self.hosts):
            for uuid in {word(part, "uuid") for part in self.hosts[host].parts["gpu"].values()} - {""}:
                holders[uuid].append(host)
        return {host: next(one for one in hosts if one != host) for hosts in holders.values() if len(hosts) > 1 for host in hosts}

    def _devices(self) -> dict[str, list[tuple[str, str, Part]]]:
        """Name, site and facts of devices by their first label in lower case."""
        index: defaultdict[str, list[tuple[str, str, Part]]] = defaultdict(list)
        for site, paths in self.inside.items():
            for path, part in paths.items():
                kind, _, name = path.partition(":")
                if kind == "device" and "/" not in path:
                    index[name.lower().partition(".")[0]].append((name, site, part))
        return index

    def _device(self, host: str, index: Mapping[str, Sequence[tuple[str, str, Part]]]) -> tuple[SiteId, Part]:
        """Site and facts of the device that a host is; two of that name are none."""
        found = [(site, part) for name, site, part in index.get(host.lower().partition(".")[0], ()) if same_host(name, host)]
        if len(found) != 1:
            return self.site, {}
        site, part = found[0]
        return SiteId(site) if site in self.names else self.site, part


def _site_lacks(site: Site, *, nameless: bool, stores: bool) -> list[Lack]:
    lacks = [
        Lack(f"cooling of {site.id}: loops, what they carry, what backs them up", "the site's operator"),
    ]
    if not stores:
        lacks.append(Lack(f"stores of {site.id}", "df and the mounts of a host, and the storage system's own figures"))
    if not site.circuits:
        settled_by = "the panel schedule, Redfish of the PDUs, or NetBox power feeds"
        lacks.append(Lack(f"circuits of {site.id}: voltage, current, wiring, feed", settled_by))
    if not site.racks:
        lacks.append(Lack(f"racks of {site.id}: position, height, weight they carry", "NetBox, or the site's floor plan"))
    if site.fabrics:
        names = ", ".join(fabric.id for fabric in site.fabrics)
        what = f"purpose of the fabrics of {site.id} ({names}), and whether one name is one fabric"
        lacks.append(Lack(what, "ibnetdiscover, and who built them"))
    if not site.nodes:
        lacks.append(Lack(f"nodes of {site.id}", "captured output in a folder per host; bridgehead collect makes it"))
    if nameless:
        lacks.append(Lack(f"the host of some captures of {site.id}", "a folder per host, `hostname` in it, or --host"))
    return lacks
