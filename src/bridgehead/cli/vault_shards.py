"""``vault save --shard``, ``vault restore --shard`` and ``vault commit``: the ranks or nodes of one job share the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId

if TYPE_CHECKING:
    from bridgehead.model.snapshot import Snapshot
    from bridgehead.vault import Vault
    from bridgehead.vault.sources import Source


@dataclass(frozen=True)
class ShardOptions:
    """How several ranks or nodes save one snapshot.

    Attributes:
        shard: save share I of N, counted from 1; the last one closes the snapshot.
        mine: all that is in PATHS is this shard's share; otherwise all shards see the same files, which are dealt out.
        attempt: with --mine: the same text for all shards, and another when the job tries again; shares of two attempts never mix.
    """

    shard: Annotated[str | None, Parameter(show_default=False)] = None
    mine: Annotated[bool, Parameter(negative="")] = False
    attempt: Annotated[str, Parameter(env_var="BRIDGEHEAD_ATTEMPT", show_default=False)] = ""

    def wanted(self, *, capturing: bool) -> bool:
        """Whether a share is to be saved. Raises BAD_USAGE for options that do not go together."""
        from bridgehead.app.vaults import usage

        if self.mine and not self.shard:
            raise usage("save", subject="--mine", happened="it belongs to --shard, which is not given", remedy="Add --shard I/N.")
        if self.shard and capturing:
            remedy = "Save the context by a snapshot of its own, or note pairs by --context."
            raise usage("save a share", subject="--capture", happened="what it keeps differs between the shards", remedy=remedy)
        return bool(self.shard)

    def save(
        self,
        place: Vault,
        sources: list[Source],
        *,
        workload: WorkloadId,
        step: int,
        epoch: Epoch,
        site: SiteId,
        context: Mapping[str, str],
    ) -> Outcome:
        """Store the share. Raises BAD_USAGE, and what ``shards.save_part`` raises."""
        from bridgehead.app.vaults import space_named, usage
        from bridgehead.vault.sharing import Shard, Share

        shard = Shard.parse(self.shard or "")
        if self.mine and not (self.attempt and sources):
            happened = "no --attempt was given" if sources else "there is nothing in it"
            remedy = "Give all shards the same text, new for each try, such as --attempt $SLURM_JOB_ID-$SLURM_RESTART_COUNT."
            raise usage(
                "save a share", subject="--mine", happened=happened, remedy=remedy if sources else "Check that the disk is mounted."
            )
        with space_named():
            saved = place.save_part(
                sources,
                shard=shard,
                workload=workload,
                step=step,
                epoch=epoch,
                site=site,
                share=Share.OWN if self.mine else Share.DEALT,
                attempt=self.attempt,
                context=context,
            )
        return Outcome(saved.snapshot, saved.counts, shard=str(shard), missing=saved.missing, files=saved.files, raw_bytes=saved.raw_bytes)


ShardGroup = Annotated[ShardOptions | None, Parameter(name="*")]


class Outcome(msgspec.Struct, frozen=True):
    """What a share or a commit came to."""

    snapshot: Snapshot | None
    counts: bool
    shard: str = ""
    missing: tuple[int, ...] = ()
    files: int = 0
    raw_bytes: int = 0

    def report(self, *, json: bool) -> int:
        """Print it. Raises VAULT_FENCED when it is closed and does not count; 1 when files were cut off or are missing."""
        from bridgehead.cli.vault_display import counted, size

        share = f"share {self.shard} is stored, {counted(self.files, 'file')}, {size(self.raw_bytes)}"
        if json:
            found = self.snapshot.id if self.snapshot is not None else None
            document = {"id": found, "shard": self.shard or None, "missing": self.missing, "files": self.files, "raw_bytes": self.raw_bytes}
            print(msgspec.json.encode(document | {"counts": self.counts}).decode())
        elif self.snapshot is None:
            print(f"{share}; not closed yet: waiting for {', '.join(map(str, self.missing))}")
        else:
            whole = f"closed, {counted(len(self.snapshot.files), 'file')}, {size(self.snapshot.raw_bytes)}"
            print(f"{self.snapshot.id}: {f'{share}; ' if self.shard else ''}{whole}")
        if self.snapshot is None:
            return ExitCode.DONE
        if not self.counts:
            raise BridgeheadError(
                ErrorCode.VAULT_FENCED,
                tried="save a snapshot that counts",
                subject=self.snapshot.id,
                happened=f"epoch {self.snapshot.epoch} is not in force; it was kept as evidence and will never be the newest",
                remedy="Stop this writer: another one has taken over. `bridgehead vault status` shows the epoch and its holder.",
            )
        return ExitCode.NEGATIVE if self.snapshot.incomplete else ExitCode.DONE


def restore_share(place: Vault, snapshot: Snapshot, *, to: str, shard: str, alone: bool, json: bool) -> int:
    """Restore one share, and say whether all is there now."""
    from bridgehead.app.vaults import refusing_occupied, space_named, usage
    from bridgehead.vault.sharing import Shard

    if not alone:
        raise usage("restore a share", subject=f"--shard {shard}", happened="a share goes whole into a folder", remedy="Give only --to.")

    with refusing_occupied(Path(to)), space_named():
        whole = place.restore_share(snapshot.id, to=to, shard=Shard.parse(shard))
    if json:
        print(msgspec.json.encode({"id": snapshot.id, "to": to, "shard": shard, "whole": whole}).decode())
    else:
        print(f"{snapshot.id}: share {shard} verified, in {to}; {'all shares are there' if whole else 'other shares are not there yet'}")
    return ExitCode.DONE


def commit(
    vault: str,
    /,
    *,
    workload: str,
    step: int,
    shards: int,
    epoch: Annotated[int | None, Parameter(env_var="BRIDGEHEAD_EPOCH")] = None,
    json: JsonOption = False,
) -> int:
    """Close the snapshot that all shards have stored by ``save --shard``; needed only when the last of them was killed before it did.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        workload: name under which the snapshots of this training are kept.
        step: the training step of the shares.
        shards: how many there are; when one is missing, it is named and nothing is committed.
        epoch: the writer's epoch; default 0, and needed as soon as a fence is in force.
    """
    from bridgehead.app import vaults
    from bridgehead.cli.vault_signing import keep_signed

    workload_id = WorkloadId(vaults.checked_name(workload, option="--workload"))
    place = vaults.open_vault(vault)
    keep_signed(place)
    writer = Epoch(epoch) if epoch is not None else vaults.writing_epoch(place, workload_id)
    with vaults.space_named():
        saved = place.commit_parts(workload=workload_id, step=step, epoch=writer, shards=shards)
    return Outcome(saved.snapshot, saved.counts).report(json=json)
