"""Fabric: networks within a site, their switches, adapters and settings (M2, M3, M5.3, M8.1, M8.2; rules section 5)."""

from __future__ import annotations

import enum
from typing import Annotated, NewType

import msgspec

from bridgehead.kernel.quantity import BitsPerSecond, Metres, Seconds
from bridgehead.kernel.shape import Keyed, Ref

NicId = NewType("NicId", str)
FabricId = NewType("FabricId", str)
SwitchId = NewType("SwitchId", str)
RackId = NewType("RackId", str)

Count = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
FabricRef = Annotated[FabricId, Ref(("fabric",))]
SwitchRef = Annotated[SwitchId, Ref(("switch",))]
RackRef = Annotated[RackId, Ref(("rack",))]


class FabricKind(enum.StrEnum):
    """What a fabric speaks."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    ETHERNET = "ethernet"


class FabricPurpose(enum.StrEnum):
    """What a fabric is for; the three are kept apart. UNKNOWN is what discovery writes until somebody says: it is for nothing yet."""

    COMPUTE = "compute"
    STORAGE = "storage"
    MANAGEMENT = "management"
    UNKNOWN = "unknown"


class Medium(enum.StrEnum):
    """What a cable is made of; each has its reach (rules section 5).

    ``multimode`` may be OM3 and ``single-mode-mpo`` a short part or a splitter: they reach as far as the weakest of their kind for sure.
    """

    COPPER = "copper"
    ACTIVE_COPPER = "active-copper"
    MULTIMODE = "multimode"
    MULTIMODE_OM4 = "multimode-om4"
    SINGLE_MODE_MPO = "single-mode-mpo"
    SINGLE_MODE_MPO_500 = "single-mode-mpo-500"
    SINGLE_MODE_LC = "single-mode-lc"


class Qos(msgspec.Struct, frozen=True):
    """How a fabric treats classes of traffic (M8.2). What is not given is unknown, not off.

    Attributes:
        pfc: priorities that are lossless.
        ecn: priorities whose queues mark congestion.
        dscp: priority of each DSCP code point.
    """

    pfc: tuple[Count, ...] | None = None
    ecn: tuple[Count, ...] | None = None
    dscp: dict[str, int] | None = None


class Stretch(msgspec.Struct, frozen=True):
    """What a fabric that is stretched over both sites must have at both of them (M8.1).

    Attributes:
        vnis: VXLAN network identifiers.
        evpn: whether addresses are learned by EVPN.
        loop_prevention: whether moved addresses that flap are stopped (duplicate address detection).
        ecmp: number of equal paths that are used.
        bfd_interval_s: time between two BFD packets.
        bfd_multiplier: missed packets that make a failure.
        reroute_s: measured or declared time from detection to traffic on the other path.
    """

    vnis: tuple[Count, ...] | None = None
    evpn: bool | None = None
    loop_prevention: bool | None = None
    ecmp: AtLeastOne | None = None
    bfd_interval_s: Seconds | None = None
    bfd_multiplier: AtLeastOne | None = None
    reroute_s: Seconds | None = None


class Fabric(msgspec.Struct, frozen=True):
    """One network within a site.

    Attributes:
        kind: what it speaks.
        purpose: what it is for.
        mtu: largest packet in bytes; a plain number.
        partitions: InfiniBand partition keys, or VLANs.
        subnet_managers: how many can take over (InfiniBand).
        free_addresses: addresses that are still free.
        qos: classes of traffic.
        stretch: the overlay between sites.
    """

    id: FabricId
    kind: FabricKind
    purpose: FabricPurpose
    mtu: AtLeastOne | None = None
    partitions: tuple[str, ...] | None = None
    subnet_managers: Count | None = None
    free_addresses: Count | None = None
    qos: Qos = Qos()
    stretch: Stretch = Stretch()


class SwitchRole(enum.StrEnum):
    """Where in the tree a switch stands."""

    LEAF = "leaf"
    SPINE = "spine"
    CORE = "core"


class Uplink(msgspec.Struct, frozen=True):
    """The cables from one switch up to another.

    Attributes:
        id: the switch above.
        count: how many cables.
        rate_bps: rate of each.
        medium: what they are made of.
        length_m: length of the route (up, tray, down, slack), not the straight line.
    """

    id: SwitchRef
    count: AtLeastOne
    rate_bps: BitsPerSecond
    medium: Medium | None = None
    length_m: Metres | None = None


class Switch(msgspec.Struct, frozen=True):
    """One switch.

    Attributes:
        fabric: the fabric that it belongs to.
        role: leaf, spine or core.
        plane: which of several parallel planes (or rails) it carries.
        model: maker and model.
        ports: ports that can be used for nodes and switches.
        port_rate_bps: rate of a port.
        rack: where it stands.
        uplinks: cables to the switches above.
        firmware: its version.
    """

    id: SwitchId
    fabric: FabricRef
    role: SwitchRole
    plane: Count | None = None
    model: str = ""
    ports: AtLeastOne | None = None
    port_rate_bps: BitsPerSecond | None = None
    rack: RackRef | None = None
    uplinks: Annotated[tuple[Uplink, ...], Keyed("uplink")] = ()
    firmware: str = ""


class Nic(msgspec.Struct, frozen=True):
    """One network adapter of a node.

    Attributes:
        rate_bps: line rate.
        fabric: the fabric that it hangs on.
        switch: the leaf that it is cabled to.
        gpu: index of the GPU beside it (its rail); unknown when not given.
        model: maker and model.
        firmware: its version.
        medium: what its cable is made of.
        length_m: length of its cable's route.
        active: whether its link is up.
    """

    id: NicId
    rate_bps: BitsPerSecond
    fabric: FabricRef
    switch: SwitchRef | None = None
    gpu: Count | None = None
    model: str = ""
    firmware: str = ""
    medium: Medium | None = None
    length_m: Metres | None = None
    active: bool | None = None
