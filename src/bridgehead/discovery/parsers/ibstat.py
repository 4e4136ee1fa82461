"""ibstat: InfiniBand adapters of a host and their ports (M2, M3)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.adapters import ADAPTER_YIELDS, Device, Port, state_device
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, number_in
from bridgehead.discovery.tables import path_part
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^[ \t]*(?:CA|Switch|Router) '[^'\r\n]{1,60}'[ \t]*\r?$|^[ \t]*CA type: ", re.MULTILINE)
_DEVICE_LINE: Final = re.compile(r"\s*(?:CA|Switch|Router) '([^']{1,60})'")
_PORT_LINE: Final = re.compile(r"\s*Port (\d{1,3}):", re.ASCII)
_LINE: Final = re.compile(r"\s*([A-Z][\w ]{1,40}): ?(.{0,200})", re.ASCII)
_DEVICE: Final = {
    "CA type": "model",
    "Number of ports": "port-count",
    "Firmware version": "firmware",
    "Node GUID": "guid",
    "System image GUID": "image-guid",
}
_PORT: Final = {
    "State": "state",
    "Physical state": "physical-state",
    "Base lid": "lid",
    "SM lid": "sm-lid",
    "Port GUID": "port-guid",
    "Link layer": "layer",
}


def recognises(head: bytes) -> bool:
    """The line that each device begins with."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All devices. The rate is printed in Gb/s; of a port that is down it is that of no link."""
    say = Statements("ibstat", capture)
    devices: list[Device] = []
    for number, line in whole_lines(capture, say):
        if begin := _DEVICE_LINE.fullmatch(line):
            devices.append(Device(path_part(begin[1]), number))
        elif devices and (port := _PORT_LINE.fullmatch(line)):
            devices[-1].ports.append(Port(port[1], number))
        elif devices and (found := _LINE.fullmatch(line)):
            _take(devices[-1], found[1], found[2].strip(), number)
    for device in devices:
        state_device(say, device)
    if not devices:
        say.skip(1, "no device is in it")
    return say.done()


def _take(device: Device, key: str, text: str, number: int) -> None:
    if not device.ports:
        if name := _DEVICE.get(key):
            device.said[name] = (text, number)
    elif name := _PORT.get(key):
        device.ports[-1].said[name] = (text, number)
    elif key == "Rate":
        device.ports[-1].rate = (number_in(text, scale=1e9), text, number)


PARSER = Parser(
    tool="ibstat",
    command="ibstat",
    recognises=recognises,
    marks=(b"ca '", b"switch '", b"router '", b"ca type: "),
    parse=parse,
    yields=ADAPTER_YIELDS,
)
