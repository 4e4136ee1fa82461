"""Captures: whose output a file is, and when it was caught, from where it lies. Pure.

The folder layout: a folder per host below the folder or in the archive that was given. ``bridgehead collect`` writes a record into
each folder, which says the host and the time; without one, the first folder whose name looks like a host's is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

RECORD_NAME: Final = "bridgehead-collect.txt"
"""The file in which the collector says whose output a folder holds."""
RECORD_HEAD: Final = "# bridgehead collect "
"""How that file begins; the number of its format follows."""

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62})*")
_DATE: Final = re.compile(r"(?:19|20)\d\d[-_.]?[01]\d")
# Folders that people make around hosts, and that may carry a number too: "site2", "rack-07", "captures-3".
_GROUPS: Final = re.compile(
    r"(?:archive|backup|batch|bundle|captures?|cluster|collect(?:ed|ion)?|data|day|dc|discovery|dump|evidence|export|files|hall|host-?list|logs?"
    r"|old|new|out|output|pod|rack|region|results?|room|row|run|samples?|site|su|tar|test|tests|tmp|tools?|version|v|wave|zone)[-_.]?\d*",
    re.IGNORECASE,
)

# Folders that people make inside a host's, by topic.
_TOPICS: Final = re.compile(
    r"(?:bios|bmc|boot|cpu|disk|dmi|etc|fabric|firmware|gpus?|hardware|hw|ib|infiniband|interconnect|ipmi|json|kernel|mellanox|memory|net"
    r"|network|nic|nvidia|os|pci|power|proc|raw|redfish|reports?|storage|sys|system|text|topology|txt|usr|var|xml)",
    re.IGNORECASE,
)


class Owner(msgspec.Struct, frozen=True):
    """What a collector's record says of its folder."""

    host: str
    at_s: float | None = None


def looks_like_host(name: str, *, tools: frozenset[str] = frozenset()) -> bool:
    """Whether a folder of that name is probably a host's: the letters of a host name, a digit in it, no date, no word for a group of
    things, and no tool's name."""
    if _HOST.fullmatch(name) is None or not any(sign.isdigit() for sign in name) or name.isdigit():
        return False
    return name.lower() not in tools and _DATE.match(name) is None and _GROUPS.fullmatch(name) is None


def is_host_name(name: str) -> bool:
    """Whether a name is written as names of hosts are; what it says does not matter."""
    return _HOST.fullmatch(name) is not None


def may_be_host(name: str, *, tools: frozenset[str] = frozenset()) -> bool:
    """Whether a folder of that name could be a host's after all, though nothing shows it: the letters of a host name, and no known word."""
    known = name.lower() in tools or any(sign.fullmatch(name) for sign in (_TOPICS, _GROUPS)) or _DATE.match(name) is not None
    return _HOST.fullmatch(name) is not None and not name.isdigit() and not known


def owner_of(folders: Sequence[str], *, given: str, owners: Mapping[tuple[str, ...], Owner], tools: frozenset[str]) -> Owner:
    """Whose output a file is.

    Args:
        folders: the names of the folders from the given path down to the file, outermost first.
        given: the name of the given folder or archive, which counts last: ``discover captures/*`` names the hosts' folders themselves. It
            does not count where a folder below may be a host's: two hosts must not become one.
        owners: what records say, by the same names of folders.
        tools: names that are no hosts.
    """
    for depth in range(len(folders), -1, -1):
        owner = owners.get(tuple(folders[:depth]))
        if owner is not None:
            return owner
    names = list(folders)
    if not any(may_be_host(name, tools=tools) for name in folders):
        names.append(given)
    return Owner(next((name for name in names if looks_like_host(name, tools=tools)), ""))


def read_record(data: bytes) -> Owner | None:
    """What a collector's record says; None when it is none, or names no host."""
    lines = data[: 64 << 10].decode("utf-8", "replace").splitlines()
    if not lines or not lines[0].startswith(RECORD_HEAD):
        return None
    said = dict(line.split(" ", 1) for line in lines[1:] if line.startswith(("host ", "at ")))
    host, at = said.get("host", "").strip(), said.get("at", "").strip()
    if _HOST.fullmatch(host) is None:
        return None
    return Owner(host, float(at) if re.fullmatch(r"\d{9,11}", at, re.ASCII) else None)


def same_host(one: str, other: str) -> bool:
    """Whether two names mean one host: the same in any case, or one is the other without its domain."""
    short, long = sorted((one.lower(), other.lower()), key=len)
    return short == long or (short != "" and long.startswith(short + "."))
