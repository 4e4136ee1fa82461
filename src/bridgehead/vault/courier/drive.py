"""Drive: one drive of a courier set, as a blob store with a name; its errors say which drive it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from bridgehead.kernel.errors import NotFound, Permanent, PortError
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.courier.layout import FORMAT, SET_KEY, DriveLabel, is_possible
from bridgehead.vault.objects import refuse
from bridgehead.vault.records import Damaged, damaged, decode

T = TypeVar("T")


class Drive:
    """``name``: what people call it, such as the folder where it is mounted."""

    def __init__(self, name: str, blobs: Blobs) -> None:
        self.name = name
        self.blobs = blobs

    def label(self) -> DriveLabel | None:
        """Which set and which of its drives it is; None for a drive of no set. Raises Damaged, Permanent (not understood)."""
        with self.named():
            try:
                label = decode(self.blobs.get(SET_KEY), DriveLabel, key=SET_KEY)
            except NotFound:
                return None
        if label.head.format != FORMAT:
            raise refuse(
                f"this version does not know format {label.head.format}",
                tried="read a courier drive",
                subject=f"drive {self.name}",
                remedy="Use the version of Bridgehead that packed it.",
            )
        if not is_possible(label):
            raise damaged(f"{SET_KEY} on drive {self.name}", "it says what cannot be of a set of drives")
        return label

    def put(self, key: str, data: bytes) -> bool:
        """Durable on return. False when exactly this was there; what a lost sync left torn is written anew."""
        with self.named():
            if self.blobs.put_new(key, data):
                return True
            if self.blobs.digest(key).blake3 == block_hash(data):
                return False
            self.blobs.delete(key)
            return self.blobs.put_new(key, data)

    def find(self, key: str, blake3: str) -> bytes | None:
        """The value, when it is there and has this hash."""
        data = self.get(key)
        return data if data is not None and block_hash(data) == blake3 else None

    def get(self, key: str) -> bytes | None:
        """The value; None when it is not there, or the drive cannot read it (a bad sector is a loss like any other)."""
        try:
            return self.blobs.get(key)
        except PortError:
            return None

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors of the store, with the drive in them."""
        try:
            yield
        except Damaged as error:
            raise damaged(f"{error.subject} on drive {self.name}", error.happened, remedy=error.remedy) from error
        except NotFound:
            raise
        except PortError as error:
            error_type = Permanent if isinstance(error, Permanent) else type(error)
            raise error_type(
                error.happened, tried=error.tried, subject=f"drive {self.name}: {error.subject}", remedy=error.remedy
            ) from error
