"""Hosts of a draft: nodes with their GPUs and adapters, as captures prove them (M5.1). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import msgspec

from bridgehead.discovery.draft_fabric import leaf_of, rails
from bridgehead.discovery.draft_notes import Notes, Part, disputed, known, number, whole, word
from bridgehead.discovery.knowledge import Told
from bridgehead.discovery.merge import natural
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.fabric import Fabric, FabricId, FabricKind, FabricPurpose, Nic, NicId, RackId, SwitchId
from bridgehead.model.fact import Status

_KINDS: Final = {"infiniband": FabricKind.INFINIBAND, "ethernet": FabricKind.ETHERNET}
_UP: Final = {"active": True, "up": True, "down": False, "init": False, "polling": False, "disabled": False}
_VERSIONS: Final = {
    "driver": "driver-version",
    "cuda": "cuda-version",
    "bios": "bios-version",
    "bmc": "bmc-version",
    "ofed": "ofed-version",
}


class Place(msgspec.Struct, frozen=True):
    """Where NetBox has a device, and what its type says."""

    rack: RackId | None = None
    position: int | None = None
    model: str = ""
    units: int | None = None
    weight_kg: float | None = None
    nameplate_w: float | None = None


class Host:
    """What is told of one host, by part."""

    def __init__(self) -> None:
        self.own: dict[str, Part] = {}
        self.parts: defaultdict[str, dict[str, Part]] = defaultdict(dict)

    def take(self, path: str, part: Part) -> None:
        """Of ``gpu:0`` and such below the host; empty for the host itself."""
        kind, _, name = path.partition(":")
        if "/" not in path:
            (self.parts[kind] if kind else self.own)[name] = part

    def join(self, other: Host) -> None:
        """Take what is told of the same host under its other name. What contradicts is in conflict."""
        self.own[""] = _joined(self.itself, other.itself)
        for kind, parts in other.parts.items():
            for name, part in parts.items():
                self.parts[kind][name] = _joined(self.parts[kind].get(name, {}), part)

    @property
    def itself(self) -> Part:
        """What is told of the host itself."""
        return self.own.get("", {})


def _joined(one: Part, other: Part) -> Part:
    both = {**other, **one}
    for attribute in one.keys() & other.keys():
        mine, its = one[attribute], other[attribute]
        if mine.value is None and mine.status is not Status.CONFLICT:
            both[attribute] = its
        elif its.value is not None and its.value != mine.value:
            both[attribute] = Told(None, Status.CONFLICT)
    return both


def same_hosts(hosts: dict[str, Host]) -> dict[str, Host]:
    """Hosts by their shortest names: ``g1.example.com`` is ``g1`` where only one domain has a ``g1``."""
    longer: defaultdict[str, list[str]] = defaultdict(list)
    for name in hosts:
        if "." in name:
            longer[name.partition(".")[0]].append(name)
    for short, names in longer.items():
        if short in hosts and len(names) == 1:
            hosts[short].join(hosts.pop(names[0]))
    return hosts


def node_of(
    name: str, host: Host, place: Place, fabrics: dict[FabricId, Fabric], notes: Notes, *, leaves: Mapping[str, SwitchId]
) -> Node | None:
    """None where the GPUs are not known: an estate takes a missing number for none, and that would be a lie."""
    gpus = _gpus(name, host, notes)
    if gpus is None:
        return None
    beside = rails(host.parts["gpu"])
    adapters = ((one, host.parts["nic"][one]) for one in _sorted(host.parts["nic"]))
    found = [(one, part, _nic(name, one, part, fabrics, notes)) for one, part in adapters]
    nics = tuple(
        msgspec.structs.replace(nic, gpu=beside.get(one), switch=leaf_of(part, leaves)) for one, part, nic in found if nic is not None
    )
    memory = number(host.itself, "memory-installed") or number(host.itself, "memory")
    if memory is None:
        notes.lack(name, "memory", "dmidecode, or scontrol show node")
    _lacks_of_place(name, place, notes)
    cards = [host.parts["gpu"][one] for one in _sorted(host.parts["gpu"])]
    addresses = [word(card, "pci-bus-id") for card in cards]
    links = [known(card, "nvlinks-active") for card in cards]
    whole_list = len(cards) == gpus[0]
    supplies = [number(part, "capacity") for part in host.parts["psu"].values()]
    plates = sum(one for one in supplies if one is not None) if supplies and None not in supplies else place.nameplate_w
    return Node(
        id=NodeId(name),
        model=word(host.itself, "model") or place.model,
        rack=place.rack,
        position=place.position,
        gpus=gpus[0],
        gpu_model=gpus[1],
        gpu_addresses=tuple(addresses) if whole_list and all(addresses) else (),
        gpu_links=tuple(link for link in links if isinstance(link, int))
        if whole_list and all(isinstance(one, int) for one in links)
        else (),
        memory_bytes=None if memory is None else int(memory),
        measured_w=number(host.itself, "power-draw"),
        nameplate_w=plates,
        weight_kg=place.weight_kg,
        units=place.units,
        firmware=_firmware(host, cards),
        nics=nics,
    )


def _lacks_of_place(name: str, place: Place, notes: Notes) -> None:
    if place.rack is None:
        notes.lack(name, "rack", "NetBox, or lldpctl with a plan of racks")
    elif place.position is None:
        notes.lack(name, "position in its rack", "NetBox")
    if place.weight_kg is None or place.units is None:
        notes.lack(name, "weight and height", "NetBox device types, or the maker's data sheet")
    notes.lack(name, "largest power under load", "the largest reading of Redfish or a PDU under full load; a nameplate is none")


def _gpus(name: str, host: Host, notes: Notes) -> tuple[int, str] | None:
    """How many, and their model."""
    count = number(host.itself, "gpu-count")
    cards = host.parts["gpu"].values()
    models = sorted({text for card in cards if (text := word(card, "model"))})
    if count == 0:
        return 0, ""
    if count is None:
        seen = f" (at least {len(cards)} seen)" if cards else ""
        notes.lack(name, f"number of GPUs{seen}, and so the node itself,", "nvidia-smi -q -x, which counts what the driver sees")
        return None
    if len(models) != 1 or any(disputed(card, "model") for card in cards):
        happened = f" ({', '.join(models)} are said)" if models else ""
        notes.lack(name, f"one model of the {count:.0f} GPUs{happened}, and so the node itself,", "nvidia-smi -q -x")
        return None
    return int(count), models[0]


def _nic(host: str, name: str, part: Part, fabrics: dict[FabricId, Fabric], notes: Notes) -> Nic | None:
    rate, kind = number(part, "rate"), _KINDS.get(word(part, "link-layer").lower())
    if rate is None or rate <= 0 or kind is None:
        notes.lack(host, "rate or link layer of some adapters", "ibstat or ibv_devinfo, and ethtool, on the host")
        return None
    fabric = FabricId(kind.value)
    fabrics.setdefault(fabric, Fabric(id=fabric, kind=kind, purpose=FabricPurpose.UNKNOWN))
    return Nic(
        id=NicId(name),
        rate_bps=float(rate),
        fabric=fabric,
        model=word(part, "model"),
        firmware=word(part, "firmware-version"),
        active=_UP.get(word(part, "state").lower()),
    )


def _firmware(host: Host, cards: list[Part]) -> dict[str, str]:
    """Versions by component; that of GPUs or adapters only where all have the same."""
    found = {name: text for name, attribute in _VERSIONS.items() if (text := word(host.itself, attribute))}
    for name, attribute, parts in (("vbios", "vbios-version", cards), ("nic", "firmware-version", list(host.parts["nic"].values()))):
        versions = {word(part, attribute) for part in parts}
        if len(versions) == 1 and "" not in versions:
            found[name] = versions.pop()
    return found


def place_of(device: Part, kind: Part) -> Place:
    """What NetBox says of a device and of its type."""
    rack = word(device, "rack")
    return Place(
        rack=RackId(rack) if rack else None,
        position=whole(device, "position"),
        model=word(device, "device-type").replace("/", " ", 1),
        units=whole(kind, "units"),
        weight_kg=positive(device, "weight") or positive(kind, "weight"),
        nameplate_w=positive(kind, "nameplate-power"),
    )


def positive(part: Part, attribute: str) -> float | None:
    """A number above zero, as a float."""
    value = number(part, attribute)
    return float(value) if value else None


def _sorted(names: Mapping[str, Part]) -> list[str]:
    return sorted(names, key=lambda name: (natural(name), name))
