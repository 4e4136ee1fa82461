"""The ledger: the journal as evidence. Each entry's hash covers its predecessor; each hash is signed (Ed25519).

Changing, dropping or reordering an entry breaks the chain; forging one needs the key. Cutting off the newest entries cannot be seen
from inside, so the head hash is printed at the end of every run and can be given to ``verify``.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from bridgehead.host.durable import create_durably
from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent
from bridgehead.kernel.hashing import ZERO_HASH, chain_hash
from bridgehead.kernel.ids import RunId
from bridgehead.model.event import Event
from bridgehead.ports.journal import Entry

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class Signer(Protocol):
    """Signs entry hashes."""

    @property
    def key_id(self) -> str:
        """Names the key."""
        ...

    def sign(self, data: bytes) -> bytes:
        """A detached signature over ``data``."""
        ...


class Verifier(Protocol):
    """Checks signatures by key id."""

    def verify(self, key_id: str, data: bytes, signature: bytes) -> bool:
        """True when ``signature`` is right; False when it is wrong or the key is unknown."""
        ...

    def knows(self, key_id: str) -> bool:
        """Whether there is such a key."""
        ...


class Seal(msgspec.Struct, frozen=True):
    """An entry as it lies in a journal, its event unread: what was tampered with may not be an event any more, and still is judged."""

    seq: int
    payload: bytes
    previous: str
    hash: str
    signature: str
    key_id: str


class LedgerFault(msgspec.Struct, frozen=True):
    """Where the chain does not hold, and why."""

    seq: int
    problem: str


def seal(event: Event, *, seq: int, previous: str, signer: Signer) -> Entry:
    """Make the entry that follows ``previous`` (``ZERO_HASH`` for the first)."""
    payload = canonical(event)
    entry_hash = chain_hash(previous, payload)
    signature = signer.sign(entry_hash.encode("ascii")).hex()
    return Entry(seq=seq, event=event, payload=payload, previous=previous, hash=entry_hash, signature=signature, key_id=signer.key_id)


def sealed(events: Sequence[Event], *, after_seq: int, previous: str, signer: Signer) -> list[Entry]:
    """The entries that follow the one of number ``after_seq`` and hash ``previous``."""
    entries: list[Entry] = []
    for seq, event in enumerate(events, start=after_seq + 1):
        entries.append(seal(event, seq=seq, previous=previous, signer=signer))
        previous = entries[-1].hash
    return entries


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(Event)


class StoredEntry(NamedTuple):
    """An entry as journals store it, its columns in this order."""

    seq: int
    payload: bytes
    previous: str
    hash: str
    signature: str
    key_id: str

    def entry(self, *, subject: str) -> Entry:
        """With its event. ``subject``: which journal and run, for people. Raises JOURNAL_DAMAGED when the payload is no event."""
        try:
            event = _decoder().decode(self.payload)
        except msgspec.MsgspecError as error:
            raise BridgeheadError(
                ErrorCode.JOURNAL_DAMAGED,
                tried="read the journal",
                subject=f"{subject}, entry {self.seq}",
                happened=str(error),
                remedy="Restore the journal from a copy; `bridgehead ledger verify` says which entries hold.",
            ) from error
        return Entry(self.seq, event, self.payload, self.previous, self.hash, self.signature, self.key_id)


class _Opening(msgspec.Struct, frozen=True, tag_field="event", tag="run-opened"):
    """What binds a ledger to its run: of a first event all else may be as old or as new as it likes."""

    run: RunId


def verify_chain(
    entries: Sequence[Entry | Seal], verifier: Verifier, *, run: RunId | None = None, head: str | None = None
) -> list[LedgerFault]:
    """All faults of a whole ledger, empty when it holds.

    Args:
        run: whose ledger it is said to be; detects that another run's entries were put under this name.
        head: hash of an entry that was the newest once, as printed when the run ended or stopped; detects a cut-off tail.
    """
    faults: list[LedgerFault] = []
    previous, before_seq = ZERO_HASH, 0
    if run is not None and entries and entries[0].seq == 1 and _hash_holds(entries[0]):  # else that is the fault, found below
        opened = _opened(entries[0])
        if opened != run:
            faults.append(LedgerFault(1, f"opens {'no run' if opened is None else f'run {opened}'}, not {run}"))
    for entry in entries:
        if entry.seq != before_seq + 1:
            gap = f"entry {before_seq + 1} is" if entry.seq == before_seq + 2 else f"entries {before_seq + 1} to {entry.seq - 1} are"
            faults.append(LedgerFault(entry.seq, f"{gap} missing before it"))
        if entry.previous != previous:
            faults.append(LedgerFault(entry.seq, "does not follow the entry before it"))
        if not _hash_holds(entry):
            faults.append(LedgerFault(entry.seq, "content was changed after it was written"))
        if not verifier.knows(entry.key_id):
            faults.append(LedgerFault(entry.seq, f"is signed with key {entry.key_id}, which is unknown"))
        elif not _signature_holds(entry, verifier):
            faults.append(LedgerFault(entry.seq, "signature is wrong"))
        previous, before_seq = entry.hash, entry.seq
    if not entries:
        faults.append(LedgerFault(0, "the ledger is empty"))
    elif head is not None and all(entry.hash != head for entry in entries):
        text = f"is the last one, and none has the given head {head}: newer entries were cut off, or the head is another run's"
        faults.append(LedgerFault(entries[-1].seq, text))
    return faults


def _opened(first: Entry | Seal) -> RunId | None:
    try:
        return msgspec.json.decode(first.payload, type=_Opening).run
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _hash_holds(entry: Entry | Seal) -> bool:
    try:
        return chain_hash(entry.previous, entry.payload) == entry.hash
    except UnicodeEncodeError:
        return False


def _signature_holds(entry: Entry | Seal, verifier: Verifier) -> bool:
    try:
        return verifier.verify(entry.key_id, entry.hash.encode("ascii"), bytes.fromhex(entry.signature))
    except ValueError:  # not even hexadecimal
        return False


class KeyFolder:
    """Ed25519 keys in a folder: ``ledger.key`` (private, mode 600) and ``<key id>.pub``; made when first needed.

    The private key signs on this machine; give the public key to auditors. Old public keys stay, so that old entries verify.

    ``sign`` and ``key_id`` raise JOURNAL_DAMAGED for a damaged private key, BAD_USAGE for one that others than its owner may read, and
    Permanent when the file system refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Ed25519PublicKey] = {}

    @property
    def key_id(self) -> str:
        """First 16 hex digits of the public key."""
        return self._public.hex()[:16]

    @property
    def public_key(self) -> str:
        """The public key, 64 hex digits: for what is verified where this folder is not."""
        return self._public.hex()

    def sign(self, data: bytes) -> bytes:
        """A detached Ed25519 signature."""
        return self._key.sign(data)

    def knows(self, key_id: str) -> bool:
        """Whether the folder has the public key of that id."""
        return key_id in self._known or (key_id.isalnum() and (self._folder / f"{key_id}.pub").exists())

    def verify(self, key_id: str, data: bytes, signature: bytes) -> bool:
        """Check against the public key of that id in the folder."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if not self.knows(key_id):
            return False
        try:
            if key_id not in self._known:  # read once: a ledger has many entries of few keys
                public = (self._folder / f"{key_id}.pub").read_text()
                self._known[key_id] = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
            self._known[key_id].verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        # Imported late: only what signs pays for it, and verbs that only read start quicker.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        path = self._folder / "ledger.key"
        with self._errors():
            if not path.exists():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                # When two processes do it at once, one file wins and both then read it.
                create_durably(str(path), Ed25519PrivateKey.generate().private_bytes_raw().hex().encode(), mode=0o600)
            text, mode = path.read_bytes(), path.stat().st_mode
        if mode & 0o077:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="sign the ledger",
                subject=str(path),
                happened=f"others than its owner have rights on the private key (mode {stat.S_IMODE(mode):o})",
                remedy=f"`chmod 600 {path}`. If somebody may have read it, move it away: a new key is made, and old entries still verify.",
            )
        try:
            return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.decode("ascii")))
        except ValueError as error:
            raise BridgeheadError(
                ErrorCode.JOURNAL_DAMAGED,
                tried="sign the ledger",
                subject=str(path),
                happened="it is damaged: a private key is 64 hexadecimal digits",
                remedy="Restore it from a copy, or move it away: a new key is made, and old entries verify as long as the .pub files stay.",
            ) from error

    @cached_property
    def _public(self) -> bytes:
        public = self._key.public_key().public_bytes_raw()
        path = self._folder / f"{public.hex()[:16]}.pub"
        with self._errors():
            if not path.exists():
                create_durably(str(path), public.hex().encode())
        return public

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Permanent(
                error.strerror or str(error),
                tried="open the keys of the ledger",
                subject=str(self._folder),
                remedy="Check the free space and the rights of that folder.",
            ) from error
