"""``bridgehead vault init``: make a vault."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode
from bridgehead.vault.crypt.credentials import KEY_FILE_VARIABLE, PASSPHRASE_VARIABLE


def init(
    vault: str,
    /,
    *,
    encrypt: Annotated[bool, Parameter(negative="")] = False,
    recipient: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    like: str | None = None,
    replica_of: str | None = None,
    pack_size: str | None = None,
    json: JsonOption = False,
) -> int:
    """Make VAULT: a new or empty directory, or the store behind an address. Does nothing when it is a vault already.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        encrypt: fail when there is no key; with BRIDGEHEAD_PASSPHRASE, --key-file or --recipient it is encrypted anyway.
        recipient: encrypt it for this age recipient (age1...); may be given several times.
        like: another vault; the new one has its features, pack size and keys, so that it can be replicated between them.
        replica_of: as --like, and the new one is its replica: `vault collect` frees nothing there that this vault still needs.
        pack_size: a pack is closed at this size, up to 256 MiB; default 32 MiB. Smaller ones suit a slow line, larger ones a distant store.
    """
    import os

    from bridgehead.app.vaults import init_vault, open_vault, usage

    if like is not None and replica_of is not None:
        happened = "both name the vault that the new one shall be like"
        raise usage("make a vault", subject="--like and --replica-of", happened=happened, remedy="Give one of them.")
    replica, like = replica_of is not None, like or replica_of
    pack_bytes = _pack_bytes(pack_size, like=like)
    other = None if like is None else open_vault(like)
    key = None
    if encrypt or recipient or other is not None or not {PASSPHRASE_VARIABLE, KEY_FILE_VARIABLE}.isdisjoint(os.environ):
        from bridgehead.app.vault_keys import founding  # brings cryptography and age, which plain vaults do without

        key = founding(encrypt=encrypt, recipients=recipient, like=other)
    made, created = init_vault(vault, like=other, key=key, pack_bytes=pack_bytes, replica=replica)
    readers = [one.words for one in key.recipients] if key is not None and created else []
    if json:
        found = {"vault": vault, "id": made.file.id, "created": created, "encrypted": made.file.sealed, "recipients": readers}
        found |= {"replica_of": made.file.replica_of} if made.file.replica_of else {}
        print(msgspec.json.encode(found).decode())
    else:
        print(f"{vault} is {'now a vault' if created else 'a vault already; nothing was changed'}")
        if readers:
            print(f"It is encrypted for {', '.join(readers)}. Whoever loses all of these keys loses the vault")
    return ExitCode.DONE


def _pack_bytes(text: str | None, *, like: str | None) -> int:
    from bridgehead.app.vaults import usage
    from bridgehead.kernel.quantity import parse
    from bridgehead.kernel.units import Dimension
    from bridgehead.vault.objects import PACK_BYTES
    from bridgehead.vault.vaultfile import MAX_PACK_BYTES

    if text is None:
        return PACK_BYTES
    size_bytes = int(parse(text, Dimension.SIZE))
    if like is not None or not 1 <= size_bytes <= MAX_PACK_BYTES:
        happened = "--like takes the size of the other vault" if like is not None else "a pack has from 1 B to 256 MiB"
        raise usage("make a vault", subject=f"--pack-size {text!r}", happened=happened, remedy="Give another size, or leave it out.")
    return size_bytes
