"""Network of a lab: a hub in the middle, and from it one line to each place and one to this machine, with rate, delay and partitions.

    controller ---veth--- hub ---line--- site-a
                           |-----line--- site-b
                           |-----line--- witness

A line without delay is a pair of veth devices; one with delay a pair of TUN devices with ``lab.delay`` between them. Both ends have a token
bucket (tbf). A partition is a rule of nftables at the hub; a line with delay can also be cut in the relay.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.testing.lab.namespaces import NAMED, exists, run, spawn
from bridgehead.testing.lab.record import CONTROLLER, HUB, PLACES, SITES, WITNESS, Cut, LabFolder, LabRecord, Line, Started

NET: Final = "198.18"
"""From the range that RFC 2544 sets aside for measuring networks: nothing else uses it."""
UPLINK: Final = "up0"
"""The device of a place's line, at the place."""
ROOT_END: Final = "root0"
BUCKET_S: Final = 0.004
"""What a token bucket holds, as time at full rate: small, so that a short transfer sees the rate, too."""
LEAST_BUCKET_BYTES: Final = 128 * 1024
"""The kernel hands packets over in heaps of up to 64 KiB, each of which must fit."""


def free_net() -> str:
    """The first three numbers of a network that no route of this machine leads to. Raises PORT_PERMANENT when all are taken."""
    taken = {route["dst"].rpartition(".")[0] for route in json.loads(run("ip", "-j", "route")) if route["dst"].startswith(NET)}
    free = [net for number in range(256) if (net := f"{NET}.{number}") not in taken]
    if not free:
        raise BridgeheadError(
            ErrorCode.PORT_PERMANENT,
            tried="set the lab up",
            subject=f"{NET}.0.0/16",
            happened="every network is taken",
            remedy="End other labs.",
        )
    return random.choice(free)


def lines_of(record: LabRecord, *, rate_bps: float, delay_s: float) -> dict[str, Line]:
    """The lines of a lab by place: networks of four addresses, the hub's first."""
    return {
        place: Line(f"to-{place}", f"{record.net}.{4 * number + 1}", f"{record.net}.{4 * number + 2}", rate_bps, delay_s)
        for number, place in enumerate((*SITES, WITNESS), start=1)
    }


def controller_address(record: LabRecord) -> str:
    """This machine as the lab sees it."""
    return f"{record.net}.1"


def hub_address(record: LabRecord) -> str:
    """The hub as this machine sees it: proxy, Prometheus and PostgreSQL listen here."""
    return f"{record.net}.2"


def make(record: LabRecord, folder: LabFolder) -> list[Started]:
    """Make namespaces, lines and routes; the relays' processes are returned. Raises PORT_PERMANENT."""
    for place in PLACES:
        run("ip", "netns", "add", record.namespace(place))
        _ip(record, place, "link set lo up")
    _join_controller(record)
    relays = [relay for place, line in record.lines.items() if (relay := _draw(record, folder, place, line)) is not None]
    run("nsenter", f"--net={NAMED / record.namespace(HUB)}", "--", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    apply_cuts(record)
    return relays


def remove(record: LabRecord) -> None:
    """Delete the namespaces, and with them every device and route; no effect where there is none."""
    for place in PLACES:
        if exists(record.namespace(place)):
            run("ip", "netns", "del", record.namespace(place))
    if any(link["ifname"] == record.device for link in json.loads(run("ip", "-j", "link"))):
        run("ip", "link", "del", record.device)


def apply_cuts(record: LabRecord) -> None:
    """Put exactly the recorded partitions in force, at once. What is cut gets no answer, not even a refusal."""
    rules = [rule for cut in record.cuts for rule in _rules(record, cut)]
    chains = [
        f"chain {chain} {{ type filter hook {chain} priority 0; {' '.join(text for hook, text in rules if hook == chain)} }}"
        for chain in ("input", "output", "forward")
    ]
    text = "flush ruleset\ntable inet lab {\n" + "\n".join(chains) + "\n}\n"
    run(*_in(record, HUB), "nft", "-f", "-", text=text)


def _rules(record: LabRecord, cut: Cut) -> Iterable[tuple[str, str]]:
    """Chain and rule. Cut from everything, or from one other place; the hub itself is a place, too."""
    one = _device(record, cut.place)
    if not cut.other:
        yield "input", f'iifname "{one}" drop;'
        yield "output", f'oifname "{one}" drop;'
        yield "forward", f'iifname "{one}" drop; oifname "{one}" drop;'
    elif HUB in (cut.place, cut.other):
        other = one if cut.other == HUB else _device(record, cut.other)
        yield "input", f'iifname "{other}" drop;'
        yield "output", f'oifname "{other}" drop;'
    else:
        other = _device(record, cut.other)
        yield "forward", f'iifname "{one}" oifname "{other}" drop; iifname "{other}" oifname "{one}" drop;'


def _device(record: LabRecord, place: str) -> str:
    return ROOT_END if place in (CONTROLLER, HUB) else record.lines[place].device


def _join_controller(record: LabRecord) -> None:
    run("ip", "link", "add", record.device, "type", "veth", "peer", "name", ROOT_END, "netns", record.namespace(HUB))
    run("ip", "addr", "add", f"{controller_address(record)}/30", "dev", record.device)
    run("ip", "link", "set", record.device, "up")
    _ip(record, HUB, f"addr add {hub_address(record)}/30 dev {ROOT_END}", f"link set {ROOT_END} up")
    run("ip", "route", "add", f"{record.net}.0/24", "via", hub_address(record), "dev", record.device)


def _draw(record: LabRecord, folder: LabFolder, place: str, line: Line) -> Started | None:
    """One line, with its relay's process when it has a delay."""
    if line.delay_s > 0:
        for at, device in ((HUB, line.device), (place, UPLINK)):
            _ip(record, at, f"tuntap add dev {device} mode tun", f"link set {device} mtu 9000")
    else:
        _ip(record, HUB, f"link add {line.device} type veth peer name {UPLINK} netns {record.namespace(place)}")
    _ip(record, HUB, f"addr add {line.hub_address}/30 dev {line.device}", f"link set {line.device} up")
    _ip(record, place, f"addr add {line.address}/30 dev {UPLINK}", f"link set {UPLINK} up", f"route add default via {line.hub_address}")
    if line.rate_bps > 0:
        bucket_bytes = max(LEAST_BUCKET_BYTES, int(line.rate_bps / 8 * BUCKET_S))
        for at, device in ((HUB, line.device), (place, UPLINK)):
            shape = f"tbf rate {round(line.rate_bps)}bit burst {bucket_bytes} latency 200ms"
            run("tc", "-n", record.namespace(at), *f"qdisc add dev {device} root {shape}".split())
    return _relay(record, folder, place, line) if line.delay_s > 0 else None


def _relay(record: LabRecord, folder: LabFolder, place: str, line: Line) -> Started:
    command = [
        sys.executable, "-m", "bridgehead.testing.lab.delay",
        "--far", str(NAMED / record.namespace(place)), "--far-device", UPLINK,
        "--near", str(NAMED / record.namespace(HUB)), "--near-device", line.device,
        "--delay", str(line.delay_s),
        "--cut-file", str(cut_file(folder, place)),
        "--ready", str(folder.root / f"line-{place}.ready"),
    ]  # fmt: skip
    # It is a relay of the hub: killing a site must not end the site's line.
    return spawn(record.namespace(HUB), command, name=f"line-{place}", place=HUB, log=folder.log / f"line-{place}.log")


def cut_file(folder: LabFolder, place: str) -> Path:
    """While this file exists, the relay of the place's line hands nothing on."""
    return folder.root / f"line-{place}.cut"


def _ip(record: LabRecord, place: str, *lines: str) -> None:
    for line in lines:
        run("ip", "-n", record.namespace(place), *line.split())


def _in(record: LabRecord, place: str) -> list[str]:
    return ["nsenter", f"--net={NAMED / record.namespace(place)}", "--"]
