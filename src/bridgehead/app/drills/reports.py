"""Reports of drills on disk: signed, chained, and readable where this program is not (R13).

drills/reports/<drill>.json         the report; its field ``previous`` is the SHA-256 of the report before it
drills/reports/<drill>.json.sig     Ed25519 signature over the bytes of that file: 64 bytes
drills/reports/<drill>.html         the same for people
drills/reports/<drill>.logs/        what its jobs printed, when it failed
drills/reports/<key id>.pem         the public key, for other programs (``openssl pkeyutl -verify -rawin``)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.app.drills.folder import REPORTS, root_of
from bridgehead.app.drills.result import DrillResult
from bridgehead.host.durable import create_durably, write_durably
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent
from bridgehead.runbook.ledger import KeyFolder

if TYPE_CHECKING:
    from bridgehead.app.home import Home

SIGNATURE: Final = ".sig"
_KEY_HEAD: Final = bytes.fromhex("302a300506032b6570032100")
"""What stands before the 32 bytes of an Ed25519 key in DER (RFC 8410)."""


class Signed(msgspec.Struct, frozen=True):
    """What ``<drill>.json`` holds: the report, and the key that signed the file."""

    report: DrillResult
    key_id: str


class Read(msgspec.Struct, frozen=True):
    """A report that was found.

    Attributes:
        problem: why it cannot be relied on; "" when its signature holds.
        sha256: of the file.
    """

    file: Path
    result: DrillResult | None
    key_id: str
    sha256: str
    problem: str = ""


def folder_of(home: Home) -> Path:
    """Where the reports are."""
    return root_of(home) / REPORTS


def logs_of(home: Home, drill: str) -> Path:
    """Where the logs of a drill's jobs are kept when it fails."""
    return folder_of(home) / f"{drill}.logs"


def write(home: Home, result: DrillResult) -> DrillResult:
    """Sign and write a report, and its page. Returns it as it was written. Raises Permanent when the disk or the keys refuse."""
    from bridgehead.app.drills.page import render

    folder = folder_of(home)
    earlier = list(read_all(home))
    chained = msgspec.structs.replace(result, previous=earlier[-1].sha256 if earlier else "")
    text = msgspec.json.format(msgspec.json.encode(Signed(chained, home.keys.key_id)), indent=1) + b"\n"
    file = folder / f"{result.drill}.json"
    known = [one.result for one in earlier if one.result is not None and not one.problem]
    page = render([*known, chained], key_id=home.keys.key_id, sha256=hashlib.sha256(text).hexdigest(), file=file.name)
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        create_durably(str(folder / f"{home.keys.key_id}.pem"), _pem(bytes.fromhex(home.keys.public_key)))
        write_durably(str(file) + SIGNATURE, home.keys.sign(text))
        write_durably(str(file), text)
        write_durably(str(file.with_suffix(".html")), page.encode())
    except OSError as error:
        raise Permanent(
            error.strerror or str(error),
            tried="write the report of a drill",
            subject=str(file),
            remedy="Free space there, and drill again.",
        ) from error
    return chained


def read_all(home: Home) -> Iterator[Read]:
    """All reports of a home, oldest first, each with what is wrong with it."""
    folder = folder_of(home)
    found = [read(file, home.keys) for file in folder.glob("*.json")] if folder.is_dir() else []
    yield from sorted(found, key=lambda one: (one.result.ended_s if one.result is not None else 0.0, one.file.name))


def read(file: Path, keys: KeyFolder) -> Read:
    """One report, held against its signature. Raises BAD_INPUT when the file cannot be read at all."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read the report of a drill",
            subject=str(file),
            happened=error.strerror or str(error),
            remedy="Name the .json file of a report; its .sig lies beside it.",
        ) from error
    sha256 = hashlib.sha256(text).hexdigest()
    try:
        signed = msgspec.json.decode(text, type=Signed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Read(file, None, "", sha256, f"it is no report ({error})")
    try:
        signature = Path(f"{file}{SIGNATURE}").read_bytes()
    except OSError:
        return Read(file, signed.report, signed.key_id, sha256, "it has no signature")
    problem = ""
    if not keys.knows(signed.key_id):
        problem = f"it is signed with key {signed.key_id}, which is unknown here"
    elif not keys.verify(signed.key_id, text, signature):
        problem = "its signature is wrong: the file was changed after it was signed"
    elif file.stem != signed.report.drill:
        problem = f"it is the report of {signed.report.drill} under another name"
    return Read(file, signed.report, signed.key_id, sha256, problem)


def _pem(key: bytes) -> bytes:
    import base64

    return b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(_KEY_HEAD + key) + b"\n-----END PUBLIC KEY-----" + os.linesep.encode()
