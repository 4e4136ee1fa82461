"""ibv_devinfo, with or without -v: RDMA devices of a host (M2, M3)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.adapters import ADAPTER_YIELDS, Device, Port, state_device
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, number_in
from bridgehead.discovery.tables import path_part
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^[ \t]*hca_id:[ \t]*\S", re.MULTILINE)
_LINE: Final = re.compile(r"\s*(\w{1,40}):\s*(\S.{0,200})?", re.ASCII)
_CODE: Final = re.compile(r"(\S.{0,60}?) \(\d{1,10}\)", re.ASCII)
_WIDTH: Final = re.compile(r"(\d{1,2})X")
_SPEED: Final = re.compile(r"(\d{1,3}(?:\.\d)?) Gbps")
_DEVICE: Final = {
    "fw_ver": "firmware",
    "node_guid": "guid",
    "sys_image_guid": "image-guid",
    "board_id": "psid",
    "phys_port_cnt": "port-count",
}
_PORT: Final = {
    "state": "state",
    "max_mtu": "max-mtu",
    "active_mtu": "mtu",
    "sm_lid": "sm-lid",
    "port_lid": "lid",
    "link_layer": "layer",
    "phys_state": "physical-state",
}
_MELLANOX: Final = "0x02c9"


def recognises(head: bytes) -> bool:
    """The line that each device begins with."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All devices. A rate is stated where -v shows width and speed."""
    say = Statements("ibv-devinfo", capture)
    devices: list[Device] = []
    printed: dict[str, tuple[str, int]] = {}
    for number, line in whole_lines(capture, say):
        found = _LINE.fullmatch(line)
        if found is None or found[2] is None:
            continue
        key, text = found[1], found[2].strip()
        if key == "hca_id":
            devices.append(Device(path_part(text), number))
            printed = {}
        elif not devices:
            continue
        elif key == "port":
            devices[-1].ports.append(Port(path_part(text), number))
            printed = {}
        else:
            printed[key] = (_plain(text), number)
            _take(devices[-1], key, printed)
    for device in devices:
        state_device(say, device)
    if not devices:
        say.skip(1, "no device is in it")
    return say.done()


def _take(device: Device, key: str, printed: dict[str, tuple[str, int]]) -> None:
    text, number = printed[key]
    if device.ports:
        if name := _PORT.get(key):
            device.ports[-1].said[name] = (text.removeprefix("PORT_") if key == "state" else text, number)
        elif key in ("active_width", "active_speed"):
            width, speed = printed.get("active_width", ("", 0)), printed.get("active_speed", ("", 0))
            device.ports[-1].rate = (_rate(width[0], speed[0]), f"{width[0]} {speed[0]}".strip(), number)
    elif name := _DEVICE.get(key):
        device.said[name] = (text, number)
    elif key == "vendor_part_id" and printed.get("vendor_id", ("", 0))[0] == _MELLANOX and text.isdigit():
        device.said["model"] = (f"MT{text}", number)


def _plain(text: str) -> str:
    """``4096 (5)`` is 4096: the number in brackets is its code."""
    found = _CODE.fullmatch(text)
    return found[1] if found else text


def _rate(width: str, speed: str) -> float | None:
    lanes, each = _WIDTH.fullmatch(width), _SPEED.fullmatch(speed)
    return number_in(each[1], scale=1e9 * int(lanes[1])) if lanes and each else None


PARSER = Parser(
    tool="ibv-devinfo", command="ibv_devinfo -v", recognises=recognises, marks=(b"hca_id:",), parse=parse, yields=ADAPTER_YIELDS
)
