"""NetQ and NMX: compute nodes of NVLink domains, with their GPUs and their places in the rack (M2, M3)."""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable, decode, lines_of
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import path_part

_HEAD: Final = re.compile(rb'"GpuIDList"\s*:\s*[\[n]')
_DOMAIN: Final = re.compile(rb'"DomainUUID"\s*:')
_PLACES: Final = (
    ("ChassisID", "nvlink-chassis"),
    ("ChassisSerialNumber", "nvlink-chassis-serial"),
    ("HostID", "host-number"),
    ("SlotID", "slot-number"),
    ("TrayIndex", "tray-index"),
)


def recognises(head: bytes) -> bool:
    """Names that no other tool uses."""
    return _HEAD.search(head) is not None and _DOMAIN.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All nodes; and each domain with its nodes."""
    say = Statements("netq-compute-nodes", capture)
    document = decode(capture)
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
        return say.done()
    lines = list(lines_of(capture, "GpuIDList", "GpuIDList"))
    domains: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    entries = [one for one in (document if isinstance(document, list) else [document]) if isinstance(one, dict)]
    for number, entry in enumerate(entries):
        line = lines[number] if number < len(lines) else 1
        name = entry.get("Name") or entry.get("ID")
        if not isinstance(name, str):
            say.skip(line, "a node without a name")
            continue
        _state(say, f"node:{path_part(name)}", entry, line)
        if isinstance(domain := entry.get("DomainUUID"), str) and domain:
            domains.setdefault(path_part(domain), []).append(name)
            first.setdefault(path_part(domain), line)
    for domain, names in domains.items():
        say.known(f"nvlink-domain:{domain}", "nodes", tuple(sorted(names)), line=first[domain])
    return say.done()


def _state(say: Statements, subject: str, entry: dict[str, Any], line: int) -> None:
    for key, attribute in (("DomainUUID", "nvlink-domain"), ("Health", "health-seen"), ("Description", "node-description")):
        if isinstance(text := entry.get(key), str) and (text or key == "DomainUUID"):
            say.word(subject, attribute, text, line=line)
    gpus = entry.get("GpuIDList")
    if isinstance(gpus, list) and all(isinstance(one, str) for one in gpus):
        say.known(subject, "netq-gpu-ids", tuple(sorted(gpus)), line=line)
        say.known(subject, "netq-gpu-count-seen", len(gpus), line=line)
    else:
        say.unknown(subject, "netq-gpu-count-seen", line=line, note="the list of GPUs is missing")
    place = entry.get("LocationInfo")
    for key, attribute in _PLACES:
        value = place.get(key) if isinstance(place, dict) else None
        if isinstance(value, str):
            say.word(subject, attribute, value, line=line)
        elif isinstance(value, int) and not isinstance(value, bool):
            say.known(subject, attribute, value, line=line)
        else:
            say.unknown(subject, attribute, line=line, note="the place does not say it")


PARSER = Parser(
    tool="netq-compute-nodes",
    command="NMX or NetQ API: compute-nodes",
    recognises=recognises,
    marks=(b'"gpuidlist"',),
    parse=parse,
    yields=(
        Yield("node:*", "nvlink-domain", "", "UUID of the NVLink domain that the node is in"),
        Yield("node:*", "health-seen", "", "health of the node, as NetQ says"),
        Yield("node:*", "node-description", "", "what people wrote"),
        Yield("node:*", "netq-gpu-ids", "", "NetQ's ids of its GPUs"),
        Yield("node:*", "netq-gpu-count-seen", "", "how many GPUs NetQ lists"),
        *(Yield("node:*", attribute, "", f"place in the rack: {key}") for key, attribute in _PLACES),
        Yield("nvlink-domain:*", "nodes", "", "nodes of the domain in this output"),
    ),
)
