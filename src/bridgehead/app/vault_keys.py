"""Keys of vaults on the command line: what a new vault is encrypted for, and who can open one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bridgehead.app.secrets import vault_credentials
from bridgehead.app.vaults import open_vault, store_of, usage
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import (
    KEY_FILE_VARIABLE,
    PASSPHRASE_VARIABLE,
    Credentials,
    passphrase_of,
    read_key_file,
)
from bridgehead.vault.crypt.keys import Founding
from bridgehead.vault.crypt.recipients import Recipient, age_recipient, recipients_of
from bridgehead.vault.crypt.ring import KeyRing, new_root
from bridgehead.vault.vault import Vault
from bridgehead.vault.vaultfile import read

NEW_PASSPHRASE_VARIABLE = "BRIDGEHEAD_NEW_PASSPHRASE"


class Shown(msgspec.Struct, frozen=True):
    """A recipient as it is shown. ``vouched``: None when no key was given to judge it by."""

    id: str
    kind: str
    note: str
    recipient: str
    made_s: float
    keys: int
    vouched: bool | None


class KeyList(msgspec.Struct, frozen=True):
    """Who can open a vault, and its data keys, as far as somebody with a key sees them."""

    family: str
    recipients: tuple[Shown, ...]
    data_keys: tuple[str, ...]
    active: str
    damaged: tuple[str, ...]


def founding(*, encrypt: bool, recipients: Sequence[str], like: Vault | None) -> Founding | None:
    """The keys of a new vault; None: it is not encrypted.

    Args:
        like: another vault, whose family the new one shall be of; its recipients can open the new one too.

    Raises BAD_USAGE when nobody could open it, or when ``like`` is not encrypted and the new one should be.
    """
    now_s = time.time()
    named = tuple(age_recipient(public, now_s=now_s) for public in recipients)
    if like is not None and like.ring is not None:
        there = tuple(one.recipient for one in keys.held(like.place.objects.blobs, like.ring) if one.vouched)
        return Founding(like.ring, (*there, *(one for one in named if one.id not in {known.id for known in there})))
    if like is not None and (encrypt or named):
        raise usage(
            "make a vault",
            subject="--like",
            happened="the other vault is not encrypted, and packs are copied between the two as they are",
            remedy="Make an encrypted vault of its own, and save into that one.",
        )
    if like is not None:
        return None
    everybody = (*named, *recipients_of(vault_credentials(), now_s=now_s))
    if everybody:
        return Founding(KeyRing([new_root(now_s=now_s)]), everybody)
    if encrypt:
        raise usage(
            "make an encrypted vault",
            subject="--encrypt",
            happened="there is no key to encrypt it for",
            remedy=f"Set {PASSPHRASE_VARIABLE}, or give --key-file FILE ({KEY_FILE_VARIABLE}), or --recipient age1...",
        )
    return None


def listing(place: str) -> KeyList:
    """Who can open a vault. Works without a key; then nobody can say which records are the family's own."""
    store = store_of(place)
    found = vault_credentials()
    vault = open_vault(place) if found or not read(store).sealed else None
    if vault is not None and vault.ring is None:
        raise _plain(place)
    folder = keys.look(store)
    judged = {} if vault is None or vault.ring is None else {one.recipient.id: one.vouched for one in keys.held(store, vault.ring)}
    shown = tuple(
        Shown(one.id, one.kind.value, one.note, one.public, one.made_s, len(folder.wrapped(one.id)), judged.get(one.id))
        for one in folder.recipients
    )
    ring = None if vault is None else vault.ring
    return KeyList(
        family=read(store).family,
        recipients=shown,
        data_keys=() if ring is None else tuple(key.id for key in ring.keys),
        active="" if ring is None else ring.active.id,
        damaged=tuple(name for name in folder.listing if not keys.is_intact(store, name)),
    )


def new_recipients(publics: Sequence[str], *, passphrase: str | None, key_file: Path | None, note: str) -> tuple[Recipient, ...]:
    """Those that ``keys add`` was given. Raises BAD_USAGE."""
    now_s = time.time()
    found = read_key_file(key_file) if key_file is not None else Credentials()
    given = Credentials(passphrase=passphrase, identities=found.identities, raw_key=found.raw_key)
    made = (*(age_recipient(public, now_s=now_s) for public in publics), *recipients_of(given, now_s=now_s))
    return tuple(msgspec.structs.replace(one, note=note) for one in made)


def new_passphrase() -> str | None:
    """BRIDGEHEAD_NEW_PASSPHRASE, None when it is not set. Raises BAD_USAGE when it is empty."""
    return passphrase_of(os.environ, NEW_PASSPHRASE_VARIABLE)


def add(place: str, recipients: Sequence[Recipient]) -> list[Recipient]:
    """Those that could not open it before. Raises VAULT_LOCKED: only who can open it can add others."""
    vault, ring = _opened(place)
    return [one for one in recipients if keys.add(vault.place.objects.blobs, ring, one)]


def remove(place: str, recipient_id: str) -> Recipient | None:
    """The one that was removed; None when a removal that was broken off was completed.

    Raises VAULT_NOT_FOUND, BAD_USAGE for the last one, VAULT_LOCKED.
    """
    vault, ring = _opened(place)
    return keys.remove(vault.place.objects.blobs, ring, recipient_id)


def rotate(place: str) -> str:
    """The id of the data key for what is saved from now on. Raises VAULT_LOCKED."""
    vault, ring = _opened(place)
    return keys.rotate(vault.place.objects.blobs, ring, now_s=time.time()).id


def _opened(place: str) -> tuple[Vault, KeyRing]:
    vault = open_vault(place)
    if vault.ring is None:
        raise _plain(place)
    return vault, vault.ring


def _plain(place: str) -> BridgeheadError:
    return usage(
        "use the keys of a vault",
        subject=place,
        happened="it is not encrypted",
        remedy="A vault is encrypted from its beginning, or not at all: `bridgehead vault init --encrypt` makes one.",
    )
