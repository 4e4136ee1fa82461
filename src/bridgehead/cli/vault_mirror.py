"""``bridgehead vault replicate --without-key``."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import ExitCode


def mirror_vault(vault: str, target: str, *, rate_bps: float | None, json: bool) -> int:
    """Make or refresh a copy of a vault that need not be opened for it."""
    from bridgehead.app.vaults import missing, space_named, store_of
    from bridgehead.cli.vault_display import Progress, clean, counted, size
    from bridgehead.vault.crypt.mirror import mirror
    from bridgehead.vault.vaultfile import NoVault, read

    with Progress("mirroring") as progress, space_named():
        source = store_of(vault)
        try:
            read(source)
        except NoVault as error:
            raise missing("mirror a vault", subject=vault, happened="there is no vault in it", remedy="Check the place.") from error
        done = mirror(source, store_of(target, moved=progress.moved, rate_bps=rate_bps))
    if json:
        print(msgspec.json.encode({"vault": vault, "target": target, **msgspec.to_builtins(done)}).decode())
    else:
        for one in done.failed:
            print(f"FAILED {one.key}: {clean(one.happened)}")
        what = f"{counted(done.objects, 'object')} copied ({size(done.sent_bytes)}), {done.present} were there"
        print(f"{target}: {what}; packs were compared with their names. With a key, `bridgehead vault verify {target}` tells more")
    return ExitCode.NEGATIVE if done.failed else ExitCode.DONE
