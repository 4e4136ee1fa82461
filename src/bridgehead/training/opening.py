"""Opening: the vault that a directory holds. The only place where the library meets a driver."""

from __future__ import annotations

import os
from pathlib import Path

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.vault import Vault
from bridgehead.vault.crypt.credentials import credentials


def open_vault(directory: Path) -> Vault:
    """Open the vault in ``directory``.

    It is never made on the fly: an unmounted disk looks like an empty folder, and training would silently begin again at step 1 (J01).

    Raises:
        Transient: the directory is not there (not mounted?).
        BridgeheadError: ``vault-not-found`` when it holds no vault, ``vault-locked`` when it is encrypted and neither BRIDGEHEAD_PASSPHRASE
            nor BRIDGEHEAD_KEY_FILE opens it.
    """
    return Vault.open(LocalBlobs(LocalBlobsOptions(directory=str(directory))), key=credentials(os.environ))


def create_vault(directory: Path) -> Vault:
    """Make a vault in ``directory``, once. Raises Conflict when it holds one already."""
    return Vault.init(LocalBlobs(LocalBlobsOptions(directory=str(directory))))
