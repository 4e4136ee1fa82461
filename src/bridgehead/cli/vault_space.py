"""``bridgehead vault forget|collect|repair``: give space back, and put an index right."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode


def register(app: App) -> None:
    """Add the verbs of this file to ``bridgehead vault``."""
    app.command(forget)
    app.command(collect)
    app.command(repair)


def forget(vault: str, name: str, /, *, yes: Annotated[bool, Parameter(negative="")] = False, json: JsonOption = False) -> int:
    """Take the snapshot NAME out of VAULT. Its space comes back with `collect`. For a policy instead of names, see `retain`.

    Only this vault forgets it: a replication from another vault that has it brings it back. Forget it there, too.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        name: WORKLOAD@STEP or a whole id.
        yes: NAME may also be WORKLOAD or WORKLOAD@latest: the newest goes.
    """
    from bridgehead.app import vault_names, vaults

    with vaults.damage_named(vault):
        place = vaults.open_vault(vault)
        snapshot = vault_names.find(place, name).snapshot
        if not yes and name.partition("@")[2] in ("", "latest"):
            happened = f"it names no step, and means the newest, {snapshot.id}"
            raise vaults.usage("forget", subject=name, happened=happened, remedy="Give NAME@STEP or the whole id, or add --yes.")
        place.forget(snapshot.id)
    if json:
        print(msgspec.json.encode({"vault": vault, "forgotten": snapshot.id}).decode())
    else:
        print(f"{snapshot.id} is forgotten; `bridgehead vault collect {vault}` frees its space")
        print("only here: a replication from a vault that has it brings it back; forget it there, too")
    return ExitCode.DONE


def collect(
    vault: str,
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    evict: Annotated[bool, Parameter(negative="")] = False,
    wait: Annotated[str, Parameter(show_default=True)] = "10 s",
    source: str | None = None,
    json: JsonOption = False,
) -> int:
    """Free the space of what no snapshot in VAULT needs. Safe while others save, copy and restore: they wait for a moment.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        dry_run: only say what would be freed.
        evict: set writers aside that do not end within --wait: they are refused at their commit, and have to save again.
        wait: how long to wait for those who are writing.
        source: of a replica, the vault that it is the replica of; what that one still needs is kept.
    """
    from bridgehead.app import vaults
    from bridgehead.cli.vault_display import Progress, counted, size
    from bridgehead.kernel.quantity import parse_duration

    wait_s = parse_duration(wait)
    with Progress("collecting"), vaults.damage_named(vault), vaults.space_named():
        other = vaults.open_vault(source) if source is not None else None
        done = vaults.open_vault(vault).collect(dry_run=dry_run, evict=evict, wait_s=wait_s, source=other)
    if json:
        print(msgspec.json.encode({"vault": vault, **msgspec.to_builtins(done)}).decode())
        return ExitCode.DONE
    verb = "would be freed" if dry_run else "freed"
    packs = f"{counted(done.removed_packs, 'pack')} removed, {done.repacked_packs} put together with others"
    print(f"{vault}: {size(done.freed_bytes)} {verb} ({packs}); {size(done.kept_bytes)} in {counted(done.kept_packs, 'pack')} are needed")
    for who in done.set_aside:
        print(f"set aside: {who}; its save is refused at the end and has to be given again")
    for key in done.retained:
        print(f"retained by the store until its time is over: {key}")
    for key in done.unreadable:
        print(f"left alone, nobody can say what is in it: {key}; see `bridgehead vault verify {vault}`")
    return ExitCode.DONE


def repair(vault: str, /, *, like: str | None = None, json: JsonOption = False) -> int:
    """Read every pack in VAULT, make the index anew, and save what is intact in damaged packs. Exit code 1 when blocks are lost.

    Where vault.json is lost or damaged, it is made anew first; the vault then has a new id.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        like: when vault.json of an encrypted vault is lost: another vault of its family, such as its replica.
    """
    from bridgehead.app import vaults
    from bridgehead.cli.vault_display import Progress, counted

    with Progress("repairing") as progress, vaults.space_named():
        done, remade = vaults.repair(vault, like=like, moved=progress.moved)
    if json:
        print(msgspec.json.encode({"vault": vault, "remade": remade, **msgspec.to_builtins(done)}).decode())
    else:
        if remade:
            print(f"{vault}: vault.json was lost or damaged and is made anew, with a new id")
        print(f"{vault}: {counted(done.indexed_packs, 'pack')} in the index")
        for key in done.removed:
            print(f"damaged {key}: what was intact in it lies in a new pack now")
        for key in done.unreadable:
            print(f"damaged {key}: nobody can say what is in it; left alone")
        if done.saved_blocks or done.lost_blocks:
            print(f"{counted(done.saved_blocks, 'block')} saved, {done.lost_blocks} lost")
        if done.lost_blocks:
            print(f"do: `bridgehead vault verify {vault}` names what is hurt;")
            print(f"    `bridgehead vault replicate OTHER {vault} --heal` brings it from a vault that holds it whole")
    return ExitCode.NEGATIVE if done.lost_blocks or done.unreadable else ExitCode.DONE
