"""``bridgehead vault keys``: who can open an encrypted vault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import WorkloadId

if TYPE_CHECKING:
    from bridgehead.app.vault_keys import KeyList

app = App(name="keys", help="Who can open an encrypted vault: list, add and remove recipients, a new data key; and who signs snapshots.")


@app.command(name="list")
def list_keys(vault: str, /, *, json: JsonOption = False) -> int:
    """The recipients of VAULT. Needs no key; with one, a recipient whom nobody with a key has added is named."""
    from bridgehead.app import vault_keys

    found = vault_keys.listing(vault)
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        _show(found)
    strange = any(one.vouched is False for one in found.recipients)
    return ExitCode.NEGATIVE if strange or found.damaged else ExitCode.DONE


@app.command
def add(
    vault: str,
    /,
    *,
    recipient: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    passphrase: Annotated[bool, Parameter(negative="")] = False,
    new_key_file: Path | None = None,
    note: str = "",
    json: JsonOption = False,
) -> int:
    """Let somebody else open VAULT. You need a key of it yourself. He can read everything in it, also what is older.

    Args:
        vault: a directory, or the address of a store.
        recipient: an age recipient (age1...); may be given several times.
        passphrase: a new passphrase, from BRIDGEHEAD_NEW_PASSPHRASE, else typed twice.
        new_key_file: a file with an age identity, or a raw key: 32 bytes, or 64 hexadecimal digits.
        note: free text to know him by. It is stored in clear.
    """
    from bridgehead.app import vault_keys, vaults

    word = vault_keys.new_passphrase() if passphrase else None
    if passphrase and word is None:
        word = _typed()
    wanted = vault_keys.new_recipients(recipient, passphrase=word, key_file=new_key_file, note=note)
    if not wanted:
        remedy = "Give --recipient age1..., --passphrase or --new-key-file FILE."
        raise vaults.usage("add a recipient", subject=vault, happened="none was given", remedy=remedy)
    added = vault_keys.add(vault, wanted)
    if json:
        print(msgspec.json.encode({"vault": vault, "added": [one.id for one in added]}).decode())
        return ExitCode.DONE
    for one in wanted:
        print(f"{one.words} {'can open' if one in added else 'could open before'} {vault}")
    return ExitCode.DONE


@app.command
def remove(vault: str, recipient_id: str, /, *, json: JsonOption = False) -> int:
    """Take the keys of RECIPIENT-ID out of VAULT. What he has read, or copied, stays his: `keys rotate` keeps from him what comes later."""
    from bridgehead.app import vault_keys

    gone = vault_keys.remove(vault, recipient_id)
    if json:
        print(msgspec.json.encode({"vault": vault, "removed": recipient_id}).decode())
    else:
        print(f"{gone.words if gone is not None else recipient_id} is no recipient of {vault} any more. He may have kept the data key: run")
        print(f"`bridgehead vault keys rotate {vault}`, so that he cannot read what is saved from now on")
    return ExitCode.DONE


@app.command
def rotate(vault: str, /, *, json: JsonOption = False) -> int:
    """A new data key for what is saved in VAULT from now on. What is there stays sealed with the older ones, which are kept."""
    from bridgehead.app import vault_keys

    key = vault_keys.rotate(vault)
    if json:
        print(msgspec.json.encode({"vault": vault, "active": key}).decode())
    else:
        print(f"{vault}: what is saved from now on is sealed with data key {key}; all recipients have it")
    return ExitCode.DONE


@app.command
def signer(*, json: JsonOption = False) -> int:
    """The public key with which this machine signs what it saves, as a line for a list of trusted keys (`verify --trust`)."""
    import os

    from bridgehead.app.vault_signatures import public_key

    key, host = public_key(), os.uname().nodename
    print(msgspec.json.encode({"public_key": key, "host": host}).decode() if json else f"{key} {host}")
    return ExitCode.DONE


@app.command
def sign(vault: str, /, *, workload: str | None = None, json: JsonOption = False) -> int:
    """Sign what is unsigned in VAULT, such as what a trainer has saved, with the key of this machine: you say that it is right.

    Args:
        vault: a directory, or the address of a store.
        workload: only this one.
    """
    from bridgehead.app.vault_signatures import sign_all

    found = sign_all(vault, [] if workload is None else [WorkloadId(workload)])
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        for snapshot in found.signed:
            print(f"{snapshot} signed")
        for snapshot in found.damaged:
            print(f"damaged: {snapshot}; not signed")
        print(f"{vault}: {len(found.signed)} signed now")
    return ExitCode.NEGATIVE if found.damaged else ExitCode.DONE


@app.command
def export(vault: str, name: str, /, *, private_key: Path, to: Path, json: JsonOption = False) -> int:
    """Write the snapshot NAME as an OpenSSF model-signing bundle, by which others verify its restored files without a vault.

    Args:
        vault: a directory, or the address of a store.
        name: WORKLOAD, WORKLOAD@latest, WORKLOAD@STEP or a whole id.
        private_key: PEM file with an ECDSA key (P-256, P-384 or P-521): the bundle's form knows no others.
        to: a new file. `model_signing verify key FOLDER --signature TO --public_key KEY` checks it.
    """
    from bridgehead.app.vault_signatures import export as write

    snapshot = write(vault, name, private_key=private_key, to=to)
    print(msgspec.json.encode({"id": snapshot, "to": str(to)}).decode() if json else f"{snapshot}: bundle in {to}")
    return ExitCode.DONE


def _show(found: KeyList) -> None:
    for one in found.recipients:
        note = f"  {one.note}" if one.note else ""
        warning = "  NOT ADDED BY ANYBODY WITH A KEY: remove it" if one.vouched is False else ""
        print(f"{one.id}  {one.kind:10}  {one.keys} data key{'' if one.keys == 1 else 's'}  {one.recipient}{note}{warning}")
    for key in found.damaged:
        print(f"damaged: {key}")
    if found.active:
        print(f"data keys: {', '.join(found.data_keys)}; new data is sealed with {found.active}")


def _typed() -> str:
    import sys
    from getpass import getpass

    from bridgehead.app import vaults

    if not sys.stdin.isatty():
        raise vaults.usage(
            "read a new passphrase",
            subject="stdin",
            happened="it is no terminal",
            remedy="Set BRIDGEHEAD_NEW_PASSPHRASE. There is no option for it: other users of the machine see the words of a command.",
        )
    first = getpass("new passphrase: ")
    if not first or first != getpass("again: "):
        raise vaults.usage("read a new passphrase", subject="terminal", happened="the two differ, or are empty", remedy="Try again.")
    return first
