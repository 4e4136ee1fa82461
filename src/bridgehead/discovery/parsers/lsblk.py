"""lsblk JSON: the disks of a host and the volumes on them (M2). Loop devices are mounted images of packages and no storage."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import Table, json_documents, path_part

_HEAD: Final = re.compile(rb'"blockdevices"\s*:\s*\[')
_ROUNDED: Final = re.compile(r"(\d{1,7}(?:\.\d{1,3})?)([KMGTPE])", re.ASCII)
_POWERS: Final = {sign: 2 ** (10 * power) for power, sign in enumerate("KMGTPE", 1)}
_WORDS: Final = {
    "model": ("model", "model"),
    "serial": ("serial", "serial number"),
    "rev": ("firmware-version", "version of its firmware"),
    "tran": ("transport", "nvme, sata, sas, usb and so on"),
    "wwn": ("wwn", "the one name that no other disk has"),
    "fstype": ("filesystem", "file system on it"),
}
_MEMORY_DISKS: Final = re.compile(r"(?:zram|ram|nbd|fd)\d{1,4}", re.ASCII)
_POD: Final = re.compile(r"/kubelet/.*pods/|^/snap/|/docker/overlay2/|/containerd/.*/rootfs")
_MAX_DEPTH: Final = 16
_TOOL: Final = "lsblk"


def recognises(head: bytes) -> bool:
    """The one key that the document has."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """Disks, and each volume once, on however many disks it lies."""
    say = Statements(_TOOL, capture)
    for document in json_documents(capture):
        if isinstance(document, Unreadable):
            say.skip(document.line, document.reason)
        elif isinstance(document, Table) and isinstance(document.get("blockdevices"), list):
            _Tree(say).take(document)
        else:
            say.skip(1, "it holds no block devices")
    return say.done()


class _Volume(msgspec.Struct):
    """A partition or volume, and the disks under it."""

    row: Table
    disks: list[str]


class _Tree:
    """The devices of one document."""

    def __init__(self, say: Statements) -> None:
        self._say = say
        self._volumes: dict[str, _Volume] = {}
        self._loops: list[Table] = []
        self._others: list[Table] = []

    def take(self, document: Table) -> None:
        """State everything."""
        disks = [row for row in document.tables("blockdevices") if self._is_disk(row)]
        for row in disks:
            subject = f"{self._say.node}/disk:{path_part(row.text('name'))}"
            self._device(subject, row)
            if (spinning := _flag(row.get("rota"))) is not None:
                self._say.known(subject, "rotational", spinning, line=row.at("rota"))
            self._below(row, row.text("name"), 0)
        for name, volume in self._volumes.items():
            subject = f"{self._say.node}/volume:{path_part(name)}"
            self._device(subject, volume.row)
            self._say.word(subject, "volume-type", volume.row.text("type"), line=volume.row.at("type"))
            self._say.known(subject, "disks", tuple(dict.fromkeys(volume.disks)), line=volume.row.line)
        self._count(disks, line=document.at("blockdevices"))
        if self._loops:
            self._say.skip(self._loops[0].line, f"{len(self._loops)} loop devices: mounted images, no storage to move")
        if self._others:
            names = ", ".join(sorted({row.text("name") or "?" for row in self._others})[:8])
            self._say.skip(self._others[0].line, f"{len(self._others)} devices that are no disks ({names})")

    def _is_disk(self, row: Table) -> bool:
        kind, name = row.text("type"), row.text("name")
        if kind == "loop":
            self._loops.append(row)
        elif kind != "disk" or _MEMORY_DISKS.fullmatch(name) or row.text("size") in ("0", "0B"):
            self._others.append(row)
        else:
            return True
        return False

    def _below(self, row: Table, disk: str, depth: int) -> None:
        for child in row.tables("children") if depth < _MAX_DEPTH else ():
            self._volumes.setdefault(child.text("name"), _Volume(child, [])).disks.append(disk)
            self._below(child, disk, depth + 1)

    def _device(self, subject: str, row: Table) -> None:
        if "size" in row:
            self._size(subject, row)
        for key, (attribute, _) in _WORDS.items():
            if row.text(key):
                self._say.word(subject, attribute, row.text(key), line=row.at(key))
        points = row.get("mountpoints") if isinstance(row.get("mountpoints"), list) else [row.get("mountpoint")]
        mounted = [point for point in points or () if isinstance(point, str) and point]
        kept = tuple(point for point in mounted if not _POD.search(point))
        line = row.at("mountpoints" if "mountpoints" in row else "mountpoint")
        if kept:
            self._say.known(subject, "mount-points", kept, line=line)
        if len(kept) < len(mounted):
            self._say.skip(line, f"{len(mounted) - len(kept)} places where containers see {row.text('name')}")
        if (used := number_in(row.text("fsused"))) is not None:
            self._say.known(subject, "filesystem-used", used, line=row.at("fsused"), unit="B")

    def _size(self, subject: str, row: Table) -> None:
        """In bytes with -b; without, rounded to some digits, which is another fact than the size."""
        printed, line = row.text("size"), row.at("size")
        if number_in(printed) is not None:
            self._say.number(subject, "size", printed, line=line, unit="B")
        elif found := _ROUNDED.fullmatch(printed):
            self._say.number(subject, "size-rounded", found[1], line=line, unit="B", scale=_POWERS[found[2]])
        else:
            self._say.unknown(subject, "size", line=line, unit="B", note=f"the tool printed {printed!r}")

    def _count(self, disks: list[Table], *, line: int) -> None:
        """Two paths to one disk are one disk."""
        names = [row.text("wwn") or row.text("name") for row in disks]
        twice = len(names) - len(set(names))
        note = f"{twice} are second paths to the same disks" if twice else ""
        self._say.known(self._say.node, "disk-count", len(set(names)), line=line, note=note)
        nvme = {name for row, name in zip(disks, names, strict=True) if row.text("name").startswith("nvme")}
        self._say.known(self._say.node, "nvme-count", len(nvme), line=line)


def _flag(value: object) -> bool | None:
    """Newer versions print true and false, older ones "1" and "0"."""
    return (
        value
        if isinstance(value, bool)
        else {"1": True, "0": False, 1: True, 0: False}.get(value)
        if isinstance(value, str | int)
        else None
    )


_DEVICES: Final = ("node:*/disk:*", "node:*/volume:*")
PARSER = Parser(
    tool=_TOOL,
    command="lsblk -J -b -O",
    recognises=recognises,
    marks=(b'"blockdevices"',),
    parse=parse,
    yields=(
        Yield("node:*", "disk-count", "", "disks, without loop devices and memory; two paths to one disk count once"),
        Yield("node:*", "nvme-count", "", "those of them that are NVMe"),
        Yield("node:*/disk:*", "rotational", "", "whether it spins"),
        Yield("node:*/volume:*", "volume-type", "", "part, lvm, crypt, raid1, mpath and so on"),
        Yield("node:*/volume:*", "disks", "", "disks that it lies on"),
        *(Yield(subject, attribute, "", meaning) for subject in _DEVICES for attribute, meaning in _WORDS.values()),
        *(
            Yield(subject, *what)
            for subject in _DEVICES
            for what in (
                ("size", "B", "size"),
                ("size-rounded", "B", "size as printed without -b, which rounds it"),
                ("mount-points", "", "where it is mounted, without what containers see of it"),
                ("filesystem-used", "B", "what the file system on it holds"),
            )
        ),
    ),
)
