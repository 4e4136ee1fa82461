"""RDMA adapters of a host, as ``ibstat`` and ``ibv_devinfo`` describe them: what both say, in one form (M2, M3). Pure.

A device with one port is ``node:HOST/nic:DEVICE``. Of a device with several each port is an adapter of its own,
``node:HOST/nic:DEVICE:PORT``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.discovery.infiniband import guid
from bridgehead.discovery.parsing import Statements, Yield, number_in

Said = tuple[str, int]
"""What is printed, and the line."""
_STATES: Final = {"active": "active", "down": "down", "init": "initializing", "initializing": "initializing", "armed": "armed"}
_LAYERS: Final = frozenset({"infiniband", "ethernet"})
_NO_LID: Final = frozenset({0, 0xFFFF})


class Port(msgspec.Struct):
    """One port.

    Attributes:
        number: as the tool prints it.
        line: where it begins.
        rate: bits a second as computed from what is printed; None where that is not known.
        said: what is printed, by name: state, layer, lid, sm-lid, mtu, max-mtu, port-guid, physical-state.
    """

    number: str
    line: int
    rate: tuple[float | None, str, int] | None = None
    said: dict[str, Said] = msgspec.field(default_factory=dict)


class Device(msgspec.Struct):
    """One device.

    Attributes:
        name: of the RDMA device, such as ``mlx5_0``.
        line: where it begins.
        said: what is printed, by name: guid, image-guid, firmware, model, psid, port-count.
        ports: in their order.
    """

    name: str
    line: int
    said: dict[str, Said] = msgspec.field(default_factory=dict)
    ports: list[Port] = msgspec.field(default_factory=list)


def state_device(say: Statements, device: Device) -> None:
    """State the device and its ports."""
    count = number_in(device.said.get("port-count", ("", 0))[0])
    several = len(device.ports) > 1 or (isinstance(count, int) and count > 1)
    if not device.ports:
        subject = f"{say.node}/nic:{device.name}"
        _state_card(say, subject, device)
        say.unknown(subject, "state", line=device.line, note="the output has no port of this device; it may be cut off")
    for port in device.ports:
        subject = f"{say.node}/nic:{device.name}" + (f":{port.number}" if several else "")
        _state_card(say, subject, device)
        _state_port(say, subject, port)


def _state_card(say: Statements, subject: str, device: Device) -> None:
    for key, attribute in (("guid", "guid"), ("image-guid", "system-image-guid")):
        if key in device.said:
            _state_guid(say, subject, attribute, device.said[key])
    for key, attribute in (("firmware", "firmware-version"), ("model", "model"), ("psid", "psid")):
        if key in device.said:
            text, line = device.said[key]
            say.word(subject, attribute, text, line=line)


def _state_guid(say: Statements, subject: str, attribute: str, said: Said) -> None:
    value = guid(said[0])
    if value is None:
        say.unknown(subject, attribute, line=said[1], note=f"the tool printed {said[0][:40]!r}, which names no one device")
    else:
        say.known(subject, attribute, value, line=said[1])


def _state_port(say: Statements, subject: str, port: Port) -> None:
    text, line = port.said.get("state", ("", port.line))
    state = _STATES.get(text.lower())
    if state is None:
        say.unknown(
            subject, "state", line=line, note=f"the tool printed {text[:40]!r}" if text else "the state is missing; it may be cut off"
        )
    else:
        say.known(subject, "state", state, line=line)
    _state_rate(say, subject, port, state)
    layer, line = port.said.get("layer", ("", 0))
    if layer.lower() in _LAYERS:
        say.known(subject, "link-layer", layer.lower(), line=line)
    elif layer:
        say.unknown(subject, "link-layer", line=line, note=f"the tool printed {layer[:40]!r}")
    if layer.lower() != "ethernet":  # there are no such addresses on Ethernet
        for key, attribute in (("lid", "lid"), ("sm-lid", "subnet-manager-lid")):
            if key in port.said:
                _state_lid(say, subject, attribute, port.said[key])
    for key, attribute in (("mtu", "rdma-mtu"), ("max-mtu", "rdma-mtu-max")):
        if key in port.said:
            text, line = port.said[key]
            say.number(subject, attribute, text, line=line, unit="B")
    if "port-guid" in port.said:
        _state_guid(say, subject, "port-guid", port.said["port-guid"])
    if "physical-state" in port.said:
        text, line = port.said["physical-state"]
        say.word(subject, "physical-state", text.lower().replace("_", ""), line=line)


def _state_rate(say: Statements, subject: str, port: Port, state: str | None) -> None:
    if port.rate is None:
        return
    value, printed, line = port.rate
    if state in (None, "down"):
        note = f"there is no link, or nobody says; the tool printed {printed[:40]!r}"
        say.unknown(subject, "rate", line=line, unit="bit/s", note=note)
    elif value is None or value <= 0:
        say.unknown(subject, "rate", line=line, unit="bit/s", note=f"the tool printed {printed[:40]!r}")
    else:
        say.known(subject, "rate", value, line=line, unit="bit/s")


def _state_lid(say: Statements, subject: str, attribute: str, said: Said) -> None:
    if number_in(said[0]) in _NO_LID:
        say.unknown(subject, attribute, line=said[1], note=f"the tool printed {said[0]}, which is no address")
    else:
        say.number(subject, attribute, said[0], line=said[1])


ADAPTER_YIELDS: Final = tuple(
    Yield("node:*/nic:*", *what)
    for what in (
        ("guid", "", "GUID of the device; unknown where it is zero"),
        ("system-image-guid", "", "the same for all devices of one card; unknown where it is zero"),
        ("firmware-version", "", "version of the firmware"),
        ("model", "", "MT and the maker's number of the device"),
        ("psid", "", "number of the board's configuration"),
        ("state", "", "active, down, initializing (no subnet manager yet) or armed"),
        ("rate", "bit/s", "of the link; unknown where there is none"),
        ("link-layer", "", "infiniband or ethernet"),
        ("lid", "", "address in the subnet"),
        ("subnet-manager-lid", "", "address of the subnet manager"),
        ("rdma-mtu", "B", "largest RDMA packet in force"),
        ("rdma-mtu-max", "B", "largest RDMA packet that the port can do"),
        ("port-guid", "", "GUID of the port"),
        ("physical-state", "", "linkup, polling, disabled ..."),
    )
)
"""What ``state_device`` may say."""
