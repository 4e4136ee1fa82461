"""Mounts (``/proc/mounts``, ``mount`` and findmnt JSON): shared file systems and the servers behind them, and local ones (M2, P23)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import Table, json_documents

_PROC: Final = re.compile(r"(\S{1,1024}) (/\S{0,1024}) (\w[\w.-]{0,30}) (\S{1,4096}) \d \d", re.ASCII)
_MOUNT: Final = re.compile(r"(\S.{0,1024}?) on (/.{0,1024}) type (\w[\w.-]{0,30}) \((.{1,4096})\)(?: \[.{0,80}\])?", re.ASCII)
_FINDMNT: Final = re.compile(rb'"filesystems"\s*:\s*\[')
_ESCAPE: Final = re.compile(r"\\([01][0-7]{2})")
_SHARED: Final = frozenset(
    [
        "nfs",
        "nfs4",
        "lustre",
        "beegfs",
        "gpfs",
        "wekafs",
        "ceph",
        "cifs",
        "smb3",
        "glusterfs",
        "panfs",
        "pvfs2",
        "orangefs",
        "9p",
        "virtiofs",
        "daos",
        "ocfs2",
        "gfs2",
        "fuse.glusterfs",
        "fuse.daos",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.gcsfuse",
        "fuse.goofys",
        "fuse.mount-s3",
        "fuse.juicefs",
        "fuse.ceph-fuse",
        "fuse.moosefs",
        "fuse.mfs",
        "fuse.blobfuse2",
        "fuse.weka",
        "fuse.vastfs",
    ]
)
_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "vfat", "jfs", "reiserfs", "ntfs3", "exfat"})
_POD: Final = re.compile(r"/kubelet/.*pods/|^/snap/|/docker/|/containerd/|/containers/storage/|^/run/|^/sys/|^/proc/|^/dev/")
_NFS: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,60}\]|[^:/\s]{1,255}):/.*", re.ASCII)
_LUSTRE: Final = re.compile(r"(.{3,1000}):/[\w./-]{1,255}", re.ASCII)
_CEPH: Final = re.compile(r"(?:\w{1,64}@[\w.-]{0,64}=?)?([\w.,:\[\]-]{0,900}?):?/.*", re.ASCII)
_MAX_DEPTH: Final = 64
_TOOL: Final = "mounts"


class _Mount(msgspec.Struct, frozen=True):
    """One line."""

    source: str
    target: str
    kind: str
    options: str
    line: int


def recognises(head: bytes) -> bool:
    """Lines with six fields as the kernel prints them, or as ``mount`` does, or findmnt's document."""
    if head.lstrip(b"\xef\xbb\xbf \r\n")[:1] in (b"{", b"["):
        return _FINDMNT.search(head) is not None and b'"target"' in head
    lines = [line.rstrip() for line in head.decode("utf-8", "replace").splitlines() if line.strip()][:40]
    known = sum((_PROC.fullmatch(line) or _MOUNT.fullmatch(line)) is not None for line in lines)
    return known > 0 and known >= 0.6 * len(lines)


def parse(capture: Capture) -> Parsed:
    """File systems with their sources; of those that are shared the servers."""
    say = Statements(_TOOL, capture)
    mounts = list(_of_json(say, capture) if _FINDMNT.search(capture.data[: 64 << 10]) else _of_text(say, capture))
    pseudo = sum(one.kind not in _SHARED and one.kind not in _LOCAL for one in mounts)
    inner = [one for one in mounts if (one.kind in _SHARED or one.kind in _LOCAL) and _POD.search(one.target)]
    for one in mounts:
        if (one.kind in _SHARED or one.kind in _LOCAL) and one not in inner:
            _state(say, one)
    if pseudo:
        say.skip(1, f"{pseudo} mounts of the kernel, of memory, of images and of kinds that are not known")
    if inner:
        say.skip(inner[0].line, f"{len(inner)} places where containers and services see file systems")
    return say.done()


def _state(say: Statements, one: _Mount) -> None:
    shared = one.kind in _SHARED
    say.known(say.node, f"mount-type:{one.target}", one.kind, line=one.line)
    say.known(say.node, f"mount-source:{one.target}", one.source, line=one.line)
    say.known(say.node, f"mount-shared:{one.target}", shared, line=one.line)
    if not shared:
        return
    say.known(say.node, f"mount-options:{one.target}", one.options, line=one.line)
    servers = _servers(one)
    if servers:
        say.known(say.node, f"mount-servers:{one.target}", servers, line=one.line)
    else:
        note = f"{one.kind} does not name its servers in the mount: {one.source[:80]!r}"
        say.unknown(say.node, f"mount-servers:{one.target}", line=one.line, note=note)


def _servers(one: _Mount) -> tuple[str, ...]:
    """The servers that a source names; of Lustre those that manage it."""
    source = one.source
    match one.kind:
        case "nfs" | "nfs4" | "glusterfs" | "fuse.glusterfs" | "fuse.sshfs":
            found = _NFS.fullmatch(source)
            return tuple(found[1].rpartition("@")[2].split(",")) if found else ()
        case "lustre":
            found = _LUSTRE.fullmatch(source)
            return tuple(nid.partition("@")[0] for nid in re.split(r"[:,]", found[1]) if nid) if found else ()
        case "cifs" | "smb3":
            return (source[2:].partition("/")[0],) if source.startswith("//") else ()
        case "wekafs":
            host, slash, _ = source.partition("/")
            return tuple(part for part in host.split(",") if part) if slash and not source.startswith("/") else ()
        case "ceph":
            monitors = re.search(r"(?:^|,)mon_addr=([^,]{1,400})", one.options)
            found = _CEPH.fullmatch(source)
            listed = monitors[1].split("/") if monitors else found[1].split(",") if found else []
            return tuple(part.removesuffix(":") for part in listed if part)
        case _:
            return ()


def _of_text(say: Statements, capture: Capture) -> Iterator[_Mount]:
    lines = capture.lines
    strange: list[int] = []
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip()
        if not line:
            continue
        if number == len(lines):
            say.skip(number, "the last line has no end and may be cut off")
        elif found := _PROC.fullmatch(line):
            yield _Mount(_plain(found[1]), _plain(found[2]), found[3], found[4], number)
        elif found := _MOUNT.fullmatch(line):
            yield _Mount(found[1], found[2], found[3], found[4], number)
        else:
            strange.append(number)
    if strange:
        say.skip(strange[0], f"{len(strange)} lines that are no mounts")


def _of_json(say: Statements, capture: Capture) -> Iterator[_Mount]:
    for document in json_documents(capture):
        if isinstance(document, Unreadable):
            say.skip(document.line, document.reason)
        elif isinstance(document, Table):
            todo = [(row, 0) for row in reversed(document.tables("filesystems"))]
            while todo:
                row, depth = todo.pop()
                if row.text("target") and row.text("fstype"):
                    yield _Mount(row.text("source"), row.text("target"), row.text("fstype"), row.text("options"), row.line)
                if depth < _MAX_DEPTH:
                    todo += [(child, depth + 1) for child in reversed(row.tables("children"))]


def _plain(text: str) -> str:
    """The kernel writes blanks in names as octal numbers."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text


PARSER = Parser(
    tool=_TOOL,
    command="cat /proc/mounts",
    recognises=recognises,
    marks=(b" /", b'"filesystems"'),
    parse=parse,
    yields=(
        Yield("node:*", "mount-type:*", "", "kind of file system at a place"),
        Yield("node:*", "mount-source:*", "", "device, or server and path, that is mounted there"),
        Yield("node:*", "mount-shared:*", "", "whether other hosts can mount it too"),
        Yield("node:*", "mount-options:*", "", "options of a shared file system"),
        Yield("node:*", "mount-servers:*", "", "servers of a shared file system; unknown where the mount does not name them"),
    ),
)
