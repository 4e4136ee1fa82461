"""Draft: merged facts become the part of an estate that they prove, and the list of what planning still lacks (M5.1, M5.2). Pure.

Only KNOWN values are taken. What is unknown or in conflict is left out and listed with what would settle it. Attributes that are read, of
parsers whatever their tool (a bare name where no unit stands):

- ``node:*``: ``gpu-count`` (as the driver counts), ``memory-installed`` and ``memory`` (B, main memory), ``model`` (of the chassis),
  ``driver-version``, ``cuda-version``, ``bios-version``, ``bmc-version``, ``ofed-version``, ``power-draw`` (W, of the whole chassis)
- ``node:*/psu:*``: ``capacity`` (W)
- ``node:*/gpu:*``: ``model``, ``pci-bus-id``, ``vbios-version``, ``nvlinks-active`` (how many)
- ``node:*/nic:*``: ``rate`` (bit/s), ``link-layer`` (``infiniband`` or ``ethernet``), ``model``, ``firmware-version``, ``state``
  (``active`` or ``up`` when the link is there)
- switches and adapters, as ``draft_fabric`` says; jobs and workloads, as ``draft_workloads`` says
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
from bridgehead.discovery.draft_hosts import Host, Place, node_of, place_of
from bridgehead.discovery.draft_notes import Lack, Notes, Part, word
from bridgehead.discovery.draft_rooms import Waiting, room_of
from bridgehead.discovery.draft_workloads import workloads_of
from bridgehead.discovery.knowledge import NAMELESS, Knowledge
from bridgehead.discovery.merge import natural
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Estate, Site, Workload
from bridgehead.model.fabric import Fabric, FabricId, FabricKind, FabricPurpose, Switch

INFINIBAND: Final = FabricId(FabricKind.INFINIBAND.value)
"""What the fabric of InfiniBand scans is called until somebody names it."""


class Draft(msgspec.Struct, frozen=True):
    """An estate of what is proved, and what it lacks. ``waiting``: circuits of each site that wait for their wiring."""

    estate: Estate
    lacks: tuple[Lack, ...]
    waiting: dict[SiteId, tuple[Waiting, ...]] = {}


def draft(known: Mapping[SiteId, Knowledge], *, name: str) -> Draft:
    """The estate of what was found at each site. The order of facts changes nothing.

    Where the captures of one site name several sites, as an export of NetBox may, each is a site of its own.
    """
    notes = Notes()
    sites: list[Site] = []
    lacks: list[Lack] = []
    waiting: dict[SiteId, tuple[Waiting, ...]] = {}
    workloads: list[Workload] = []
    for site, told in sorted(known.items()):
        drawn = _Ground(site, told).sites(notes)
        if len(drawn) == 1:
            workloads += workloads_of(told, drawn[0][0].id, notes)
        for found, unwired in drawn:
            sites.append(found)
            waiting |= {found.id: unwired} if unwired else {}
            lacks += _site_lacks(found, nameless=NAMELESS in told)
    general = [Lack("services, their endpoints and what they depend on", "their owners, and the proxies in front of them")]
    if not workloads:
        general.append(Lack("workloads", "squeue, sacct, or kubectl get pods; and their owners"))
    if len(sites) != 1:
        general.append(Lack("links between sites: rate, delay, carrier", "the carrier's contract, and iperf3 between the sites"))
    ordered = tuple(sorted(sites, key=lambda one: (natural(one.id), one.id)))
    return Draft(Estate(name=name, sites=ordered, workloads=_named_apart(workloads)), (*notes.lacks(), *lacks, *general), waiting)


def _named_apart(workloads: Sequence[Workload]) -> tuple[Workload, ...]:
    """Two sites may each have a job 12: then each has the name of its site before its own."""
    uses = Counter(workload.id for workload in workloads)
    return tuple(
        one if uses[one.id] == 1 else msgspec.structs.replace(one, id=WorkloadId(f"{one.site}.{one.id}"[:63])) for one in workloads
    )


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
                case "node" if f"node:{outer}" != NAMELESS:
                    self.hosts[outer].take(inner, part)
                case "site":
                    self.inside[outer][inner] = part
                case "device-type":
                    self.types[rest] = part
                case _:
                    pass
        self.cabling = cabling(told, INFINIBAND)
        named = {outer for outer, paths in self.inside.items() if outer != "?" and any(paths)}
        self.names = sorted(named) if len(named) > 1 else []

    def sites(self, notes: Notes) -> list[tuple[Site, tuple[Waiting, ...]]]:
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

    def _one(
        self, site: SiteId, hosts: list[tuple[str, Place]], switches: tuple[Switch, ...], notes: Notes
    ) -> tuple[Site, tuple[Waiting, ...]]:
        fabrics: dict[FabricId, Fabric] = {}
        if switches:
            fabrics[INFINIBAND] = Fabric(id=INFINIBAND, kind=FabricKind.INFINIBAND, purpose=FabricPurpose.UNKNOWN)
        leaves = self.cabling.leaf_of if switches else {}
        paths = self.inside.get(site, {}) if self.names else {path: part for some in self.inside.values() for path, part in some.items()}
        room = room_of(paths, notes)
        racks = {rack.id for rack in room.racks}
        nodes: list[Node] = []
        for host, place in hosts:
            known_place = place if place.rack in racks else msgspec.structs.replace(place, rack=None, position=None)
            node = node_of(host, self.hosts[host], known_place, fabrics, notes, leaves=leaves)
            nodes += [node] if node is not None else []
        found = Site(
            id=site,
            sources=room.sources,
            circuits=room.circuits,
            racks=room.racks,
            fabrics=tuple(fabrics[key] for key in sorted(fabrics)),
            switches=switches,
            nodes=tuple(nodes),
        )
        return found, room.waiting

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


def _site_lacks(site: Site, *, nameless: bool) -> list[Lack]:
    lacks = [
        Lack(f"stores of {site.id}", "df and the mounts of a host, and the storage system's own figures"),
        Lack(f"cooling of {site.id}: loops, what they carry, what backs them up", "the site's operator"),
    ]
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
        lacks.append(Lack(f"the host of some captures of {site.id}", "a folder per host, with a digit in its name, or --host"))
    return lacks
