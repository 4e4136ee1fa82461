"""Stores of a draft: shared file systems that hosts mount, with the servers behind them (M4, P23). Pure.

Attributes that are read of ``node:*``: ``mount-type:*``, ``mount-source:*``, ``mount-servers:*``; ``filesystem-size:*`` and
``filesystem-used:*`` (B), by the place of the mount.

One source that many hosts mount is one store. Several NFS servers at one place on different hosts may be one store or many: nobody says.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bridgehead.discovery.draft_notes import Notes, Part, number, word
from bridgehead.discovery.knowledge import MOUNT_SOURCE, MOUNT_TYPE
from bridgehead.discovery.merge import natural
from bridgehead.model.equipment import Store, StoreId, StoreKind

PROTOCOLS: Final = {
    **{"nfs": "nfs", "nfs4": "nfs", "lustre": "lustre", "beegfs": "beegfs", "gpfs": "gpfs", "wekafs": "weka", "fuse.weka": "weka"},
    **{"ceph": "ceph", "fuse.ceph-fuse": "ceph", "glusterfs": "glusterfs", "fuse.glusterfs": "glusterfs", "panfs": "panfs"},
    **{"orangefs": "orangefs", "pvfs2": "orangefs", "daos": "daos", "fuse.daos": "daos", "fuse.vastfs": "vast", "fuse.juicefs": "juicefs"},
    **{"fuse.s3fs": "s3", "fuse.goofys": "s3", "fuse.mount-s3": "s3", "fuse.gcsfuse": "gcs", "fuse.blobfuse2": "azure-blob"},
}
"""File systems that hosts share, as the kernel calls them. What hands a folder of a host to its guests, or by ssh, is no store."""
_OBJECTS: Final = frozenset({"s3", "gcs", "azure-blob"})
_NOT_IN_ID: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_OF_ONE: Final = 8
"""More folders than this below one of a server are taken for one store: the homes of people, each mounted by itself."""


class Unsized(msgspec.Struct, frozen=True):
    """A store of which all is known but its size. ``store``: with a size that stands in and must not be believed."""

    store: Store


class Stores(msgspec.Struct, frozen=True):
    """Stores of one site, sorted. ``unsized``: those that are not among them until somebody declares their size."""

    stores: tuple[Store, ...] = ()
    unsized: tuple[Unsized, ...] = ()


class _Found:
    """What hosts say of one source."""

    def __init__(self) -> None:
        self.targets: Counter[str] = Counter()
        self.sizes: set[int | float] = set()
        self.used: list[int | float] = []


def stores_of(hosts: Iterable[Part], site: str, notes: Notes) -> Stores:
    """Of what is told of the hosts of one site themselves. The order of facts changes nothing."""
    found: defaultdict[tuple[str, str], _Found] = defaultdict(_Found)
    for part in hosts:
        for attribute in part:
            if attribute.startswith(MOUNT_TYPE) and (protocol := PROTOCOLS.get(word(part, attribute))):
                target = attribute.removeprefix(MOUNT_TYPE)
                source = word(part, MOUNT_SOURCE + target)
                if source:
                    _note(found[protocol, _identity(source, target)], part, target)
    whole = _folded(found)
    apart = _ambiguous(whole)
    stores: list[Store] = []
    unsized: list[Unsized] = []
    names: Counter[str] = Counter(_name(one) for key, one in whole.items() if key not in apart)
    for (protocol, source), one in whole.items():
        if (protocol, source) in apart:
            place = max(one.targets, key=lambda target: (one.targets[target], target))
            notes.lack(place, f"whether the servers that hosts of {site} mount there are one store, and so the store", "who runs them")
            continue
        name = _name(one) if names[_name(one)] == 1 else _NOT_IN_ID.sub("-", source).strip("-.")[-63:]
        store = _store(name, protocol, one)
        if len(one.sizes) == 1:
            stores.append(store)
        else:
            unsized.append(Unsized(store))
            notes.lack(f"{name} ({source})", "size, and so the store itself,", "df -P -T -B 1 on a host that mounts it")
        notes.lack(name, "measured rates of reading and writing", "fio or ior from many hosts at once")
    return Stores(tuple(sorted(stores, key=lambda one: (natural(one.id), one.id))), tuple(sorted(unsized, key=lambda one: one.store.id)))


def _identity(source: str, target: str) -> str:
    """What makes a source the same on all hosts: itself where it names a server, else the place too."""
    return source if ":" in source or "/" in source else f"{source} at {target}"


def _note(one: _Found, part: Part, target: str) -> None:
    one.targets[target] += 1
    size, used = number(part, f"filesystem-size:{target}"), number(part, f"filesystem-used:{target}")
    one.sizes |= {size} if size else set()
    one.used += [] if used is None else [used]


def _folded(found: Mapping[tuple[str, str], _Found]) -> dict[tuple[str, str], _Found]:
    """Many folders below one of an NFS server as one store."""
    above = Counter((protocol, source.rpartition("/")[0]) for protocol, source in found if protocol == "nfs")
    whole: dict[tuple[str, str], _Found] = {}
    for (protocol, source), one in sorted(found.items()):
        folder = source.rpartition("/")[0]
        if above[protocol, folder] <= _MOST_OF_ONE:
            whole[protocol, source] = one
            continue
        into = whole.setdefault((protocol, f"{folder}/*"), _Found())
        into.targets += Counter({target.rpartition("/")[0] or "/": count for target, count in one.targets.items()})
        into.sizes |= one.sizes
        into.used += one.used
    return whole


def _ambiguous(found: Mapping[tuple[str, str], _Found]) -> set[tuple[str, str]]:
    """Sources at one place with another one: a store behind several servers, or another store on each host."""
    at: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for key, one in found.items():
        for target in one.targets:
            at[target].add(key)
    return {key for keys in at.values() if len(keys) > 1 for key in keys}


def _name(one: _Found) -> str:
    """After the place at which most hosts have it."""
    place = max(one.targets, key=lambda target: (one.targets[target], -len(target), target))
    return _NOT_IN_ID.sub("-", place).strip("-.")[-63:].lstrip("-._") or "root"


def _store(name: str, protocol: str, one: _Found) -> Store:
    size = int(min(one.sizes)) if one.sizes else 1
    return Store(
        id=StoreId(name),
        kind=StoreKind.OBJECT if protocol in _OBJECTS else StoreKind.FILESYSTEM,
        size_bytes=size,
        used_bytes=int(max(one.used)) if one.used and len(one.sizes) == 1 else None,
        protocol=protocol,
        # Of NFS the mount names the machine that serves it. Of others it names those that are asked first, or none.
        servers=1 if protocol == "nfs" else None,
    )
