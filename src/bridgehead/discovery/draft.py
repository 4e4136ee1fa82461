"""Draft: views of facts become the part of an estate that they prove, and the list of what planning still lacks (M5.1). Pure.

Only KNOWN values are taken. What is unknown or in conflict is left out and listed with what would settle it.

Attributes that are read, of parsers whatever their tool (a bare name where no unit stands):

- ``node:*``: ``gpu-count`` (as the driver counts), ``memory`` (B, main memory), ``model`` (of the chassis), ``driver-version``,
  ``cuda-version``, ``bios-version``, ``bmc-version``, ``ofed-version``, ``power-draw`` (W, of the whole chassis)
- ``node:*/psu:*``: ``capacity`` (W)
- ``node:*/gpu:*``: ``model``, ``pci-bus-id``, ``vbios-version``, ``nvlinks-active`` (how many)
- ``node:*/nic:*``: ``rate`` (bit/s), ``link-layer`` (``infiniband`` or ``ethernet``), ``model``, ``firmware-version``, ``state``
  (``active`` or ``up`` when the link is there), ``neighbor`` (name of the switch, from LLDP)
- ``device:*`` (NetBox; taken for the node of that name): ``site``, ``rack``, ``rack-position`` (lowest unit), ``height`` (U), ``weight``
  (kg), ``model``, ``role``
- ``rack:*`` or ``site:*/rack:*``: ``site``, ``height`` (U), ``weight`` (kg), ``weight-max`` (kg), ``row``, ``position``
- ``feed:*`` or ``site:*/feed:*``: ``site``, ``rack``, ``panel``, ``voltage`` (V), ``current`` (A), ``phase`` (``single-phase`` or
  ``three-phase``), ``supply`` (``ac`` or ``dc``), ``feed-type`` (``primary`` or ``redundant``), ``utilization-max`` (%)
- ``cluster:*/job:*`` (Slurm): ``state``, ``name``, ``gpu-count``, ``partition``, ``grace`` (s), ``depends-on``
- ``cluster:*/node:*``: ``gpu-count`` (as configured), ``memory`` (B, as configured), ``features``
- ``cluster:*/pod:*`` (Kubernetes; name is NAMESPACE.POD): ``phase``, ``gpu-count``, ``owner`` (KIND.NAME), ``grace`` (s)
- ``cluster:*/service:*``: ``kind``, ``endpoint``
- ``node:*/mount:*``: ``filesystem-type``, ``server``, ``size`` (B), ``used`` (B)
- ``node:*/path-to:*`` (iperf3): ``measured-rate-received`` (bit/s)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bridgehead.discovery.merge import View, natural
from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.estate import Estate, Site
from bridgehead.model.fabric import Fabric, FabricId, FabricKind, FabricPurpose, Nic, NicId
from bridgehead.model.fact import Status, Value

_SUBJECT = re.compile(r"node:(?P<host>[^/]+)(?:/(?P<kind>gpu|nic):(?P<name>[^/]+))?")
_MOST_NAMED = 5


class Lack(msgspec.Struct, frozen=True):
    """Something that planning needs and nobody said: of what, and what would settle it."""

    what: str
    settled_by: str


class Draft(msgspec.Struct, frozen=True):
    """An estate of what is proved, and what it lacks."""

    estate: Estate
    lacks: tuple[Lack, ...]


class _Host:
    """The views of one host, by part."""

    def __init__(self) -> None:
        self.own: dict[str, View] = {}
        self.gpus: defaultdict[str, dict[str, View]] = defaultdict(dict)
        self.nics: defaultdict[str, dict[str, View]] = defaultdict(dict)


def draft(views: Iterable[View], *, site: SiteId, name: str) -> Draft:
    """The estate of one site. The order of views changes nothing."""
    hosts: defaultdict[str, _Host] = defaultdict(_Host)
    for view in views:
        found = _SUBJECT.fullmatch(view.subject)
        if found is None:
            continue
        host = hosts[found["host"]]
        part = host.own if found["kind"] is None else (host.gpus if found["kind"] == "gpu" else host.nics)[found["name"]]
        part[view.attribute] = view
    nameless = hosts.pop("?", None)
    notes = _Notes()
    fabrics: dict[FabricId, Fabric] = {}
    found_nodes = [_node(host, hosts[host], fabrics, notes) for host in sorted(hosts, key=lambda host: (natural(host), host))]
    nodes = tuple(node for node in found_nodes if node is not None)
    ordered = tuple(fabrics[key] for key in sorted(fabrics))
    estate = Estate(name=name, sites=(Site(id=site, fabrics=ordered, nodes=nodes),))
    return Draft(estate, (*notes.lacks(), *_site_lacks(site, ordered, nodes, nameless=nameless is not None)))


class _Notes:
    """Hosts by what they lack, so that a thousand of them make one line."""

    def __init__(self) -> None:
        self._hosts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def lack(self, host: str, what: str, settled_by: str) -> None:
        """One host lacks it."""
        self._hosts[what, settled_by].append(host)

    def lacks(self) -> list[Lack]:
        """One for each kind."""
        return [Lack(f"{what} of {_named(hosts)}", settled_by) for (what, settled_by), hosts in sorted(self._hosts.items())]


def _node(host: str, views: _Host, fabrics: dict[FabricId, Fabric], notes: _Notes) -> Node | None:
    """None where the GPUs are not known: an estate takes a missing number for none, and that would be a lie."""
    gpus = _gpus(host, views, notes)
    if gpus is None:
        return None
    memory = _number(views.own.get("memory"))
    if memory is None:
        notes.lack(host, "memory", "dmidecode, or scontrol show node")
    for what, settled_by in (
        ("rack", "NetBox, or lldpctl with a plan of racks"),
        ("largest power", "the largest reading of Redfish or a PDU under full load; a nameplate is none"),
        ("weight and height", "NetBox device types, or the maker's data sheet"),
    ):
        notes.lack(host, what, settled_by)
    found = [_nic(host, name, views.nics[name], fabrics, notes) for name in sorted(views.nics, key=lambda name: (natural(name), name))]
    nics = tuple(nic for nic in found if nic is not None)
    return Node(id=NodeId(host), gpus=gpus[0], gpu_model=gpus[1], memory_bytes=None if memory is None else int(memory), nics=nics)


def _gpus(host: str, views: _Host, notes: _Notes) -> tuple[int, str] | None:
    """How many, and their model."""
    count = _number(views.own.get("gpu-count"))
    models = sorted({str(value) for part in views.gpus.values() if (value := _known(part.get("model"))) is not None})
    disputed = any(part["model"].status is Status.CONFLICT for part in views.gpus.values() if "model" in part)
    if count == 0:
        return 0, ""
    if count is None:
        seen = f" (at least {len(views.gpus)} seen)" if views.gpus else ""
        notes.lack(host, f"number of GPUs{seen}, and so the node itself,", "nvidia-smi -q -x, which counts what the driver sees")
        return None
    if len(models) != 1 or disputed:
        happened = f" ({', '.join(models)} are said)" if models else ""
        notes.lack(host, f"one model of the {count:.0f} GPUs{happened}, and so the node itself,", "nvidia-smi -q -x")
        return None
    return int(count), models[0]


def _nic(host: str, name: str, part: Mapping[str, View], fabrics: dict[FabricId, Fabric], notes: _Notes) -> Nic | None:
    rate, layer = _number(part.get("rate")), _known(part.get("link-layer"))
    kinds = {"infiniband": FabricKind.INFINIBAND, "ethernet": FabricKind.ETHERNET}
    kind = kinds.get(str(layer).lower())
    if rate is None or rate <= 0 or kind is None:
        notes.lack(host, "rate or link layer of some adapters", "ibstat or ibv_devinfo, and ethtool, on the host")
        return None
    fabric = FabricId(kind.value)
    fabrics[fabric] = Fabric(id=fabric, kind=kind, purpose=FabricPurpose.UNKNOWN)
    return Nic(id=NicId(name), rate_bps=float(rate), fabric=fabric)


def _site_lacks(site: SiteId, fabrics: Sequence[Fabric], nodes: Sequence[Node], *, nameless: bool) -> list[Lack]:
    lacks = [
        Lack(f"circuits of {site}: voltage, current, wiring, feed", "the panel schedule, Redfish of the PDUs, or NetBox power feeds"),
        Lack(f"racks of {site}: position, height, weight they carry", "NetBox, or the site's floor plan"),
        Lack(f"stores of {site}", "df and the mounts of a host, and the storage system's own figures"),
        Lack("links between sites: rate, delay, carrier", "the carrier's contract, and iperf3 between the sites"),
        Lack("workloads and services", "squeue, sacct, or kubectl get pods; and their owners"),
    ]
    if fabrics:
        names = ", ".join(fabric.id for fabric in fabrics)
        lacks.append(Lack(f"purpose of the fabrics ({names}), and whether one name is one fabric", "ibnetdiscover, and who built them"))
    if not nodes:
        lacks.append(Lack(f"nodes of {site}", "captured output in a folder per host; bridgehead collect makes it"))
    if nameless:
        lacks.append(Lack("the host of some captures", "a folder per host, or --host"))
    return lacks


def _known(view: View | None) -> Value:
    return view.value if view is not None and view.status is Status.KNOWN else None


def _number(view: View | None) -> int | float | None:
    value = _known(view)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _named(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - _MOST_NAMED} more" if len(hosts) > _MOST_NAMED else ""
    return ", ".join(hosts[:_MOST_NAMED]) + more
