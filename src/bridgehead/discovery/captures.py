"""Captures: whose output a file is, and when it was caught, from where it lies. Pure.

The folder layout: a folder per host below the folder or in the archive that was given. Whose a folder is, is said, the surest first, by
the record that ``bridgehead collect`` writes into it; by what ``hostname`` or ``uname -a`` printed into it; by its name, where that looks
like a host's; and by its siblings, where several folders with names of any kind hold files of the same names.
"""

from __future__ import annotations

import enum
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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

# Folders of captures of one host, or of any: they are beside each other as hosts are, and are none.
_OCCASIONS: Final = re.compile(
    r"(?:after|all|baseline|before|broken|common|compute|current|dev|evening|failed|final|first|good|bad|healthy|hosts|idle|initial|last|latest"
    r"|loaded?|misc|morning|nodes|ok|orig|original|other|post|pre|previous|prod|production|qa|second|servers|shared|staging|third|today"
    r"|yesterday|(?:mon|tues|wednes|thurs|fri|satur|sun)day)",
    re.IGNORECASE,
)
_NAMING: Final = re.compile(r"(?:.*[-_.])?(?:etc[-_])?(?:hostname|hostnamectl|uname)(?:[-_.].*)?", re.IGNORECASE)
_UNAME: Final = re.compile(r"Linux (\S{1,255}) \d{1,2}\.\d{1,3}\S{0,80} .*", re.ASCII)
_STATIC: Final = re.compile(r"\s*Static hostname: (\S{1,255})\s*", re.ASCII)
_NAMELESS: Final = frozenset({"localhost", "localhost.localdomain", "ubuntu", "debian", "none", "n"})


class Witness(enum.Enum):
    """Who says whose a folder is."""

    RECORD = enum.auto()
    ITSELF = enum.auto()
    SIBLINGS = enum.auto()


class Owner(msgspec.Struct, frozen=True):
    """What is said of a folder."""

    host: str
    at_s: float | None = None
    witness: Witness = Witness.RECORD


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
    known = name.lower() in tools or any(sign.fullmatch(name) for sign in (_TOPICS, _GROUPS, _OCCASIONS)) or _DATE.match(name) is not None
    return _HOST.fullmatch(name) is not None and not name.isdigit() and not known


def owner_of(folders: Sequence[str], *, given: str, owners: Mapping[tuple[str, ...], Owner], tools: frozenset[str]) -> Owner:
    """Whose output a file is.

    Args:
        folders: the names of the folders from the given path down to the file, outermost first.
        given: the name of the given folder or archive, which counts last: ``discover captures/*`` names the hosts' folders themselves. It
            does not count where a folder below may be a host's: two hosts must not become one.
        owners: what is said of folders, by the same names of folders.
        tools: names that are no hosts.
    """
    for depth in range(len(folders), -1, -1):
        owner = owners.get(tuple(folders[:depth]))
        if owner is not None and owner.witness is Witness.RECORD:
            return owner
    # Hosts stand in the outermost folder that looks like one; what a host says itself in it, or deeper, is surer than its name.
    named = next((depth for depth, name in enumerate(folders, 1) if looks_like_host(name, tools=tools)), None)
    for depth in range(len(folders), -1 if named is None else named - 1, -1):
        owner = owners.get(tuple(folders[:depth]))
        if owner is None or (named is not None and owner.witness is Witness.SIBLINGS):
            continue
        if not any(may_be_host(name, tools=tools) for name in folders[depth:]):
            return owner
    if named is not None:
        return Owner(folders[named - 1])
    alone = not any(may_be_host(name, tools=tools) for name in folders)
    return Owner(given if alone and looks_like_host(given, tools=tools) else "")


def may_name(file: str) -> bool:
    """Whether a file of that name may hold what ``hostname``, ``hostnamectl`` or ``uname -a`` printed; what is in it decides."""
    return _NAMING.fullmatch(file) is not None


def read_name(data: bytes) -> Owner | None:
    """The host that prints its own name in a few lines; None where it is not said, or not for sure."""
    lines = [line.strip() for line in data[:4096].decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and line[0] not in "#$"]
    found = {told[1] for line in lines for told in (_UNAME.fullmatch(line), _STATIC.fullmatch(line)) if told is not None}
    if not found and len(lines) == 1:
        found = {lines[0]}
    name = found.pop() if len(found) == 1 else ""
    return Owner(name, None, Witness.ITSELF) if is_host_name(name) and name.lower() not in _NAMELESS else None


def siblings(files: Iterable[tuple[Sequence[str], str]], *, tools: frozenset[str]) -> dict[tuple[str, ...], Owner]:
    """Folders beside each other that hold files of the same names, and so are a folder per host, whatever they are called.

    Args:
        files: the folders down to each file, and its name.
    """
    held: defaultdict[tuple[str, ...], defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    deeper: set[tuple[str, ...]] = set()
    for folders, file in files:
        if any(looks_like_host(name, tools=tools) for name in folders[:-1]):
            continue  # what is below a host's folder is a part of it
        places = [depth for depth, name in enumerate(folders) if may_be_host(name, tools=tools)]
        if not places:
            continue
        depth = places[-1]  # the innermost one: those around it are of clusters, racks or people
        held[tuple(folders[:depth])][folders[depth]].add("/".join((*folders[depth + 1 :], file)))
        deeper |= {tuple(folders[: place + 1]) for place in places[:-1]}
    owners: dict[tuple[str, ...], Owner] = {}
    for parent, children in held.items():
        for name, inside in children.items():
            alike = any(name != other and not inside.isdisjoint(others) for other, others in children.items())
            if alike and (*parent, name) not in deeper:
                owners[*parent, name] = Owner(name, None, Witness.SIBLINGS)
    return owners


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
