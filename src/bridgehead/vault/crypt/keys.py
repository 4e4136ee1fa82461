"""Keys: the folder ``keys/`` of a vault. Opening, adding and removing recipients, a new data key.

    keys/<recipient>/recipient.json                 who he is
    keys/<recipient>/<data key>-<hash of the file>.age     a data key, encrypted to him

Objects are only added, or removed with their recipient. A data key is used for new pieces when every recipient has it: a rotation that
was broken off, or runs elsewhere at the same time, locks nobody out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode, NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.crypt.credentials import KEY_FILE_VARIABLE, PASSPHRASE_VARIABLE, Credentials
from bridgehead.vault.crypt.recipients import Recipient, identity_for, is_vouched, unwrap, vouched, wrap
from bridgehead.vault.crypt.ring import DataKey, KeyRing, RingCipher
from bridgehead.vault.crypt.sealed import SealedBlobs
from bridgehead.vault.layout import KEYS_PREFIX
from bridgehead.vault.records import Damaged, damaged, decode, encode
from bridgehead.vault.sealing import Cipher

_RECIPIENT_KEY: Final = re.compile(r"keys/([0-9a-f]{16})/recipient\.json")
_WRAPPED_KEY: Final = re.compile(r"keys/([0-9a-f]{16})/([0-9a-f]{8})-([0-9a-f]{32})\.age")


class Folder(msgspec.Struct, frozen=True):
    """What a listing of ``keys/`` says: of each recipient whose record can be read, the keys of his wrapped data keys."""

    listing: tuple[str, ...]
    recipients: tuple[Recipient, ...]

    def wrapped(self, recipient_id: str) -> dict[str, list[str]]:
        """Data key ids, and the objects that hold them for him."""
        found: dict[str, list[str]] = {}
        for match in map(_WRAPPED_KEY.fullmatch, self.listing):
            if match is not None and match[1] == recipient_id:
                found.setdefault(match[2], []).append(match[0])
        return found


class Held(msgspec.Struct, frozen=True):
    """A recipient as ``keys list`` shows him. ``vouched``: no holder of the key has added him when it is False."""

    recipient: Recipient
    keys: int
    vouched: bool


def look(blobs: Blobs) -> Folder:
    """Read the folder."""
    listing = tuple(blobs.list(KEYS_PREFIX))
    recipients = []
    for match in filter(None, map(_RECIPIENT_KEY.fullmatch, listing)):
        try:
            recipients.append(_read(blobs, match[0], match[1]))
        except Damaged:
            continue  # it lets nobody in; who is locked out is told, and verify names it
        except NotFound:
            continue  # removed in this moment
    return Folder(listing, tuple(recipients))


def unlock(blobs: Blobs, *, family: str, credentials: Credentials) -> KeyRing:
    """Open the data keys.

    Args:
        family: as vault.json says; whoever put other keys there does not know its root.

    Raises:
        BridgeheadError: VAULT_LOCKED: no key was given, or none fits; says which recipients there are.
        Damaged: the keys are another family's.
    """
    folder = look(blobs)
    if not credentials:
        raise _locked(blobs, folder, "it is encrypted, and no key was given")
    keys: dict[bytes, DataKey] = {}
    for recipient in folder.recipients:
        identity = identity_for(recipient, credentials)
        if identity is None:
            continue
        for objects in folder.wrapped(recipient.id).values():
            for key in filter(None, (unwrap(blobs.get(name), identity) for name in objects)):
                keys[key.key] = key
    if not keys:
        raise _locked(blobs, folder, f"{credentials.words} opens none of its recipients")
    root = next((key for key in keys.values() if key.family == family), None)
    if root is None:
        raise damaged("vault.json", "the keys of this vault are those of another family", remedy="Somebody has mixed up two vaults.")

    seen = folder.listing

    def news() -> tuple[Sequence[DataKey], DataKey] | None:
        nonlocal seen
        listing = tuple(blobs.list(KEYS_PREFIX))
        if listing == seen:
            return None
        seen = listing
        newer = unlock(blobs, family=family, credentials=credentials)
        return newer.keys, newer.active

    ring = KeyRing([root], news=news)
    known = sorted((key for key in keys.values() if key != root and ring.is_of_family(key)), key=lambda key: (key.made_s, key.id))
    ring = KeyRing([root, *known], active=root, news=news)
    ring.active = _active(blobs, folder, ring)
    return ring


class Founding(msgspec.Struct, frozen=True):
    """What a new sealed vault begins with."""

    ring: KeyRing
    recipients: tuple[Recipient, ...]


def sealed(blobs: Blobs, ring: KeyRing, *, binds_tables: bool) -> tuple[Blobs, Cipher]:
    """A vault's store as all other code sees it, and the cipher of its packs."""
    store = SealedBlobs(blobs, cipher=RingCipher(ring, "records"), names_key=ring.names_key)
    return store, RingCipher(ring, "blocks", binds_tables=binds_tables)


def found_family(blobs: Blobs, ring: KeyRing, recipients: Iterable[Recipient]) -> None:
    """Give all keys of the ring to these recipients. Before ``vault.json`` is written, or to add one."""
    folder = look(blobs)
    for recipient in recipients:
        _whole(blobs, folder, recipient)
        for key in ring.keys:
            _give(blobs, key, recipient)
        # The record comes last: who has it counts as a recipient, and must have all keys then.
        _write_record(blobs, ring, recipient)


def add(blobs: Blobs, ring: KeyRing, recipient: Recipient) -> bool:
    """Add a recipient; False when he is one already."""
    if any(one.id == recipient.id for one in _known(look(blobs), ring)):
        return False
    found_family(blobs, ring, [recipient])
    return True


def remove(blobs: Blobs, ring: KeyRing, recipient_id: str) -> Recipient | None:
    """Remove a recipient, also one whom nobody vouched for. What he has read stays his; see ``rotate``.

    None: a removal of him that was broken off is completed.

    Raises:
        BridgeheadError: VAULT_NOT_FOUND; BAD_USAGE for the last one.
    """
    folder = look(blobs)
    wrapped = [name for objects in folder.wrapped(recipient_id).values() for name in objects]
    gone = next((one for one in folder.recipients if one.id == recipient_id), None)
    if gone is None and not wrapped:
        raise BridgeheadError(
            ErrorCode.VAULT_NOT_FOUND,
            tried="remove a recipient",
            subject=recipient_id,
            happened="there is no such recipient",
            remedy=f"There are {_words(folder)}.",
        )
    if gone is not None:
        if _known(folder, ring) == [gone]:
            raise _last(gone)
        record = f"{KEYS_PREFIX}{gone.id}/recipient.json"
        blobs.delete(record)
        if not _known(look(blobs), ring):  # somebody removed the other one in the same moment
            blobs.put_new(record, encode(gone))
            raise _last(gone)
    for name in wrapped:
        blobs.delete(name)
    return gone


def rotate(blobs: Blobs, ring: KeyRing, *, now_s: float) -> DataKey:
    """A new data key for what is saved from now on; everybody keeps the older ones. A rotation that was broken off is completed instead."""
    folder = look(blobs)
    unfinished = next((key for key in reversed(ring.keys) if key.made_s > ring.active.made_s), None)
    new = unfinished or ring.draw(now_s=max(now_s, ring.active.made_s + 1e-3))
    spread(blobs, KeyRing([ring.root, new]), folder)
    return new


def share(source: KeyRing, target: KeyRing, blobs: Blobs) -> None:
    """Give the recipients of another vault of the family, in ``blobs``, the keys drawn here since: packs are copied as they are."""
    lacking = [key for key in source.keys if target.find(key.id) is None]
    if lacking:
        spread(blobs, KeyRing([target.root, *lacking]))
        target.find(lacking[-1].id)


def spread(blobs: Blobs, ring: KeyRing, folder: Folder | None = None) -> None:
    """Give every recipient those keys of the ring that he lacks: after a rotation, or one in another vault of the family."""
    folder = folder or look(blobs)
    for recipient in _known(folder, ring):
        has = _whole(blobs, folder, recipient)
        for key in ring.keys:
            if key.id not in has:
                _give(blobs, key, recipient)


def held(blobs: Blobs, ring: KeyRing) -> tuple[Held, ...]:
    """All recipients, also those whom nobody vouched for."""
    folder = look(blobs)
    return tuple(Held(one, len(folder.wrapped(one.id)), is_vouched(one, ring)) for one in folder.recipients)


def check(blobs: Blobs, key: str) -> None:
    """See that an object of the folder is intact; no key is needed. Raises NotFound, Damaged."""
    record, wrapped_key = _RECIPIENT_KEY.fullmatch(key), _WRAPPED_KEY.fullmatch(key)
    if record is not None:
        _read(blobs, key, record[1])
    elif wrapped_key is None:
        raise damaged(key, "the name is not that of a key")
    elif block_hash(blobs.get(key))[:32] != wrapped_key[3]:
        raise damaged(key, "the wrapped key does not match its hash", remedy="Remove its recipient, and add him again.")


def _read(blobs: Blobs, key: str, recipient_id: str) -> Recipient:
    recipient = decode(blobs.get(key), Recipient, key=key)
    if recipient.id != recipient_id:
        raise damaged(key, f"the record is that of recipient {recipient.id}")
    return recipient


def _write_record(blobs: Blobs, ring: KeyRing, recipient: Recipient) -> None:
    """Replaces one that was cut off, or is of a vault that somebody began to make here."""
    key, record = f"{KEYS_PREFIX}{recipient.id}/recipient.json", encode(vouched(recipient, ring))
    if not blobs.put_new(key, record):
        try:
            if is_vouched(_read(blobs, key, recipient.id), ring):
                return
        except Damaged:
            pass
        blobs.delete(key)
        blobs.put_new(key, record)
    _read(blobs, key, recipient.id)


def _whole(blobs: Blobs, folder: Folder, recipient: Recipient) -> set[str]:
    """Ids of the data keys that lie there for him, whole; those that were cut off are removed."""
    found = set()
    for key_id, names in folder.wrapped(recipient.id).items():
        for name in names:
            if is_intact(blobs, name):
                found.add(key_id)
            else:
                blobs.delete(name)
    return found


def _give(blobs: Blobs, key: DataKey, recipient: Recipient) -> None:
    file = wrap(key, recipient)
    name = f"{KEYS_PREFIX}{recipient.id}/{key.id}-{block_hash(file)[:32]}.age"
    blobs.put_new(name, file)
    if blobs.get(name) != file:  # a recipient who seems to have a key and has not would be locked out of what is new
        blobs.delete(name)
        raise damaged(name, "the wrapped key reads back differently from what was written", remedy="Look at the store, then try again.")


def _known(folder: Folder, ring: KeyRing) -> list[Recipient]:
    return [recipient for recipient in folder.recipients if is_vouched(recipient, ring)]


def _active(blobs: Blobs, folder: Folder, ring: KeyRing) -> DataKey:
    """The newest that everybody has, whole: else somebody would be locked out of what is new. The root was there before them all."""
    everybody = [folder.wrapped(recipient.id) for recipient in _known(folder, ring)]
    for key in reversed(ring.keys[1:]):
        if all(any(is_intact(blobs, name) for name in has.get(key.id, ())) for has in everybody):
            return key
    return ring.root


def is_intact(blobs: Blobs, name: str) -> bool:
    """Whether an object of the folder is there and what its name says; no key is needed."""
    try:
        check(blobs, name)
    except (Damaged, NotFound):
        return False
    return True


def _words(folder: Folder) -> str:
    return ", ".join(recipient.words for recipient in folder.recipients) or "none"


def _locked(blobs: Blobs, folder: Folder, happened: str) -> BridgeheadError:
    damaged = ", ".join(name for name in folder.listing if not is_intact(blobs, name))
    unreadable = f". Damaged, so that it lets nobody in: {damaged}; bring it back from a replica's {KEYS_PREFIX}" if damaged else ""
    return BridgeheadError(
        ErrorCode.VAULT_LOCKED,
        tried="open a vault",
        subject=KEYS_PREFIX,
        happened=f"{happened}. Recipients: {_words(folder)}{unreadable}",
        remedy=f"Set {PASSPHRASE_VARIABLE}, or give --key-file FILE or {KEY_FILE_VARIABLE}: an age identity, or a raw key.",
    )


def _last(recipient: Recipient) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="remove a recipient",
        subject=recipient.words,
        happened="he is the last one: nobody could open the vault any more",
        remedy="Add another recipient first.",
    )
