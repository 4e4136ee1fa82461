"""Manifests of data sets: a hash for each file, as ``sha256sum`` writes them, or as a snapshot keeps them (``.bridgehead/data.json``)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import WorkloadId
from bridgehead.vault import Vault
from bridgehead.vault.context import DATA_PATH, Data

_LINE = re.compile(r"(\\?)([0-9a-f]{64}) [ *](.+)")


class Manifest(msgspec.Struct, frozen=True):
    """What the files must be.

    Attributes:
        algorithm: ``sha256`` or ``blake3``.
        files: hash by path from the folder of the data set.
    """

    algorithm: str
    files: dict[str, str]


def read_manifest(path: Path, *, expected: str = "") -> Manifest:
    """Read it. Raises BAD_INPUT when it is neither form, is empty, leads out of its folder, or has not the hash ``expected``."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from error
    if expected and block_hash(content) != expected:
        raise _bad(path, "it has changed since the preflight was planned")
    manifest = _snapshot_form(content) if content.lstrip()[:1] == b"{" else _checksums(path, content)
    if not manifest.files:
        raise _bad(path, "it lists no file")
    for name in manifest.files:
        if name.startswith("/") or ".." in name.split("/"):
            raise _bad(path, f"it leads out of its folder: {name}")
    return manifest


def hash_of_manifest(path: Path) -> str:
    """Its BLAKE3; "" when it cannot be read, which ``read_manifest`` says later."""
    try:
        return block_hash(path.read_bytes())
    except OSError:
        return ""


def manifest_in_vault(vault: Vault, workload: WorkloadId) -> Manifest:
    """That of the newest snapshot. Raises BAD_INPUT when there is none, or it was saved without one; VAULT_DAMAGED, port errors."""
    newest = vault.newest(workload)
    if newest is None:
        raise _bad(Path(workload), "the vault at the site has no snapshot of it")
    snapshot = vault.snapshot(newest.id)
    entry = next((one for one in snapshot.files if one.path == DATA_PATH), None)
    if entry is None:
        raise _bad(Path(newest.id), "it was saved without a manifest of its data")
    return _snapshot_form(b"".join(vault.read(snapshot, entry)))


def _snapshot_form(content: bytes) -> Manifest:
    try:
        found = msgspec.json.decode(content, type=Data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(Path("data.json"), f"it is not what a snapshot keeps of its data: {error}") from error
    return Manifest("blake3", {one.path: one.blake3 for one in found.files})


def _checksums(path: Path, content: bytes) -> Manifest:
    files: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "surrogateescape").splitlines(), start=1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise _bad(path, f"line {number} is no line of sha256sum")
        name = found[3]
        if found[1]:
            name = re.sub(r"\\(.)", lambda escape: {"n": "\n", "r": "\r"}.get(escape[1], escape[1]), name)
        files[name.removeprefix("./")] = found[2]
    return Manifest("sha256", files)


def _bad(path: Path, happened: str) -> BridgeheadError:
    remedy = "Make it with sha256sum in the folder of the data set, or save snapshots with --capture and --data."
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="read a manifest of data", subject=str(path), happened=happened, remedy=remedy)
