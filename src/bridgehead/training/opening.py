"""Opening: the vault that a directory holds. The only place where the library meets a driver."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Permanent
from bridgehead.ports.blobs import Blobs
from bridgehead.vault import Vault
from bridgehead.vault.crypt.credentials import credentials

VIEW_FILE = "view.json"
"""As ``vault.view`` has it, which is imported only where there is one."""


def open_vault(directory: Path) -> Vault:
    """Open the vault in ``directory``.

    It is never made on the fly: an unmounted disk looks like an empty folder, and training would silently begin again at step 1 (J01).

    Raises:
        Transient: the directory is not there (not mounted?).
        BridgeheadError: ``vault-not-found`` when it holds no vault, ``vault-locked`` when it is encrypted and neither BRIDGEHEAD_PASSPHRASE
            nor BRIDGEHEAD_KEY_FILE opens it.
    """
    return Vault.open(blobs_in(directory), key=credentials(os.environ, fetch=_fetch_key))


def create_vault(directory: Path) -> Vault:
    """Make a vault in ``directory``, once. Raises Conflict when it holds one already."""
    return Vault.init(LocalBlobs(LocalBlobsOptions(directory=str(directory))))


def blobs_in(directory: Path) -> Blobs:
    """The store in ``directory``: the folder itself, or what it is a view of. Raises Permanent for a view file that cannot be read."""
    if not (directory / VIEW_FILE).is_file():
        return LocalBlobs(LocalBlobsOptions(directory=str(directory)))
    from bridgehead.vault.view import SCRATCH, ViewBlobs, ViewFile

    try:
        file = msgspec.json.decode((directory / VIEW_FILE).read_bytes(), type=ViewFile)
        base = _base(file.base)
    except (OSError, msgspec.MsgspecError, ValueError, KeyError) as error:
        raise Permanent(
            f"the view cannot be read ({error})", tried="open a view", subject=str(directory / VIEW_FILE), remedy="Make the drill again."
        ) from error
    return ViewBlobs(base, LocalBlobs(LocalBlobsOptions(directory=str(directory / SCRATCH))), file)


def _base(connection: Mapping[str, Any]) -> Blobs:
    options = {name: value for name, value in connection.items() if name != "driver"}
    match connection["driver"]:
        case "localfs":
            return LocalBlobs(msgspec.convert(options, LocalBlobsOptions))
        case "http":
            from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions

            return HttpBlobs(msgspec.convert(options, HttpBlobsOptions))
        case "s3":
            from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions

            return S3Blobs(msgspec.convert(options, S3BlobsOptions))
        case other:
            raise ValueError(f"there is no view of a '{other}'")


def _fetch_key(reference: str) -> bytes:
    from bridgehead.drivers.openbao.keys import fetch_key

    return fetch_key(reference, os.environ)
