"""``bridgehead vault``: keep checkpoints, look at them, bring them back, copy them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from bridgehead.cli import vault_space
from bridgehead.cli.options import JsonOption
from bridgehead.cli.vault_context import CaptureGroup, restore_context
from bridgehead.cli.vault_shards import ShardGroup, restore_share
from bridgehead.cli.vault_signing import keep_signed, print_trust
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId

if TYPE_CHECKING:
    from bridgehead.vault import Vault

# numpy is not here yet: its BLAS starts a thread for each processor, which wait busily, in the way of those that save.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
app = App(
    name="vault",
    help="Keep checkpoints, verified and deduplicated, and bring them back.",
    help_epilogue="An encrypted VAULT opens with BRIDGEHEAD_PASSPHRASE, with --key-file FILE, which may stand with every verb, or with "
    "BRIDGEHEAD_KEY_FILE.",
)

WorkloadOption = Annotated[str | None, Parameter(help="Only this workload.")]
STDOUT = "-"


@app.command
def save(
    vault: str,
    /,
    *paths: Path,
    workload: str,
    step: int,
    epoch: Annotated[int | None, Parameter(env_var="BRIDGEHEAD_EPOCH")] = None,
    site: Annotated[str | None, Parameter(env_var="BRIDGEHEAD_SITE")] = None,
    context: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)] = (),
    capture: CaptureGroup = None,
    shards: ShardGroup = None,
    json: JsonOption = False,
) -> int:
    """Save PATHS into VAULT as the state after a step. On return it is durable; given again, it changes nothing.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        paths: a folder, whose content is saved; or several files and folders, each under its own name.
        workload: name under which the snapshots of this training are kept.
        step: the training step after which the state is.
        epoch: the writer's epoch; default 0, and needed as soon as a fence is in force.
        site: where it is saved; default the name of this machine.
        context: what to note with it, such as loss=1.25 commit=4f2a91c.
    """
    from bridgehead.app import vault_alarms, vaults
    from bridgehead.cli.vault_display import Progress, entries, size
    from bridgehead.cli.vault_saving import notes_of, saved_document, verdict, with_context
    from bridgehead.cli.vault_watch import print_alarms

    if not paths:
        raise vaults.usage("save a snapshot", subject=vault, happened="no PATH was given", remedy="Name a folder or files to save.")
    workload_id = WorkloadId(vaults.checked_name(workload, option="--workload"))
    site_id = SiteId(vaults.checked_name(site or os.uname().nodename, option="--site"))
    notes = notes_of(context)
    capturer = capture.capturer(vaults.folder_of(vault), *paths) if capture else None
    with Progress(f"saving step {step}") as progress:
        place = vaults.open_vault(vault, moved=progress.moved)
        place.saves_again = False
        gathered, sources = vaults.gather(paths, place=vault)
        files, notes = with_context(gathered, sources, notes, capturer)
        progress.total_bytes = sum(source.size_bytes for source in sources)
        keep_signed(place)
        writer = Epoch(epoch) if epoch is not None else vaults.writing_epoch(place, workload_id)
        if shards and shards.wanted(capturing=capturer is not None):
            return shards.save(place, sources, workload=workload_id, step=step, epoch=writer, site=site_id, context=notes).report(json=json)
        saved = vaults.save(place, files, workload=workload_id, step=step, epoch=writer, site=site_id, context=notes)
        found = vault_alarms.alarms_after_save(place, saved.result.snapshot)
    snapshot, result = saved.result.snapshot, saved.result
    if json:
        _print(saved_document(saved, found))
    else:
        stored = f"{size(snapshot.raw_bytes)} in {entries(snapshot.files)}, {size(result.written_bytes)} new"
        print(f"{snapshot.id}: {stored if saved.created else 'was there already, with exactly this content'}")
    for other in saved.others:
        print(f"note: step {step} was saved before with other content, as {other}; both are kept, the later one is newest", file=sys.stderr)
    print_alarms(found, to_stderr=True)
    return verdict(saved)


@app.command(name="list")
def list_snapshots(vault: str, /, *, workload: WorkloadOption = None, json: JsonOption = False) -> int:
    """The snapshots in VAULT that can be used, newest first; and all others, with the reason. Exit code 1: there are only others."""
    from bridgehead.app import vault_status, vaults

    with vaults.damage_named(vault):
        place = vaults.open_vault(vault)
        found = vault_status.listing(place, _chosen(place, workload), place=vault)
    if json:
        _print(found)
    else:
        from bridgehead.cli.vault_display import print_listing

        print_listing(found)
    return ExitCode.NEGATIVE if found.passed_over and not found.snapshots else ExitCode.DONE


@app.command
def show(vault: str, name: str, /, *, hash: bool | None = None, json: JsonOption = False) -> int:
    """Everything about the snapshot NAME: files, tensors, sizes, context.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        name: WORKLOAD, WORKLOAD@latest, WORKLOAD@STEP or a whole id.
        hash: give the BLAKE3 of each tensor's bytes, read where needed; default with --json, unless --no-hash.
    """
    from bridgehead.app import vault_contents, vault_names, vaults
    from bridgehead.cli.vault_display import Progress, print_shown

    hashes = json if hash is None else hash
    with Progress("reading tensors for their hashes (--no-hash skips it)") as progress:
        place = vaults.open_vault(vault, moved=progress.moved)
        shown = vault_contents.show(place, vault_names.find(place, name).snapshot, hashes=hashes)
    if json:
        _print(shown)
    else:
        print_shown(shown)
    for fault in shown.damage:
        print(f"damaged: {fault}", file=sys.stderr)
    return ExitCode.NEGATIVE if shown.damage else ExitCode.DONE


@app.command
def restore(
    vault: str,
    name: str,
    /,
    *,
    to: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    file: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    tensor: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    context: Path | None = None,
    data: Path | None = None,
    shard: str | None = None,
    sync: bool = True,
    json: JsonOption = False,
) -> int:
    """Write the snapshot NAME into a folder, which appears when all is verified and on disk.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        name: WORKLOAD, WORKLOAD@latest, WORKLOAD@STEP or a whole id.
        to: a folder that does not exist or is empty; - writes one --file, or the tensors, to stdout.
        file: only this file; may be given several times.
        tensor: only this tensor, bit for bit, in a file tensors.safetensors; may be given several times.
        context: instead of --to: write into this new folder what --capture kept, with the code checked out.
        data: where the data lies here, to be compared with the manifest that --capture kept; default where it was.
        shard: only share I/N, beside those of others; all is there when the folder .bridgehead-restore in it is gone.
        sync: wait until all of it is on the disk; without, a power cut soon after may cost it.
    """
    from bridgehead.app import vault_contents, vault_names, vaults
    from bridgehead.cli.vault_display import Progress, entries, size, to_stdout
    from bridgehead.vault.context import own_paths

    if context is not None and (to or file or tensor):
        raise vaults.usage("restore", subject="--context", happened="it goes alone", remedy="Give --to, --file and --tensor by themselves.")
    to = str(context) if context is not None else to
    if not to:
        raise vaults.usage("restore", subject=name, happened="no place was given", remedy="Give --to, or --context.")
    with Progress(f"restoring {name}") as progress, vaults.damage_named(vault):
        place = vaults.open_vault(vault, moved=progress.moved)
        _refuse_inside(vault, to)
        found = vault_names.find(place, name)
        snapshot = found.snapshot
        _warn_evidence(snapshot.id, counts=found.counts)
        if context is not None:
            return restore_context(place, snapshot, to=context, data=data, json=json)
        if shard:
            return restore_share(place, snapshot, to=to, shard=shard, alone=not (file or tensor or to == STDOUT), json=json)
        if tensor:
            picked = vault_contents.pick_tensors(snapshot, tensor, files=file)
            pieces = vault_contents.tensor_file(place, snapshot, picked)
            progress.total_bytes = sum(one.size_bytes for _, one in picked)
            if to == STDOUT:
                return to_stdout(pieces)
            vault_contents.write_tensors(pieces, to=Path(to))
            written, chosen = [vault_contents.TENSOR_FILE], [picked[0][0]]
        else:
            chosen = vault_contents.pick_files(snapshot, dict.fromkeys(file or own_paths(snapshot)))
            progress.total_bytes = sum(one.size_bytes for one in chosen)
            if to == STDOUT:
                if len(file) != 1:
                    raise vaults.usage("restore", subject="--to -", happened="stdout holds one file", remedy="Give one --file.")
                return to_stdout(place.read(snapshot, chosen[0]))
            written = [one.path for one in chosen]
            vaults.restore(
                place,
                snapshot,
                to=Path(to),
                files=written if len(chosen) < len(snapshot.files) else (),
                note=lambda text: progress.say(f"note: {text}"),
                sync=sync,
            )
    done = {"id": snapshot.id, "to": to, "files": written, "bytes": progress.total_bytes, "counts": found.counts}
    _print(done) if json else print(f"{snapshot.id}: {entries(chosen)}, {size(progress.total_bytes)}, verified, in {to}")
    return ExitCode.DONE


@app.command
def cat(vault: str, name: str, file: str, /) -> int:
    """Write FILE of the snapshot NAME to stdout. Each block is verified before it is written; an error may come after the first ones."""
    return restore(vault, name, to=STDOUT, file=(file,))


@app.command
def diff(vault: str, before: str, after: str, /, *, all: Annotated[bool, Parameter(negative="")] = False, json: JsonOption = False) -> int:
    """Compare two snapshots tensor by tensor; exit code 0 when they are the same, 1 when they differ.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        before: WORKLOAD@STEP or a whole id.
        after: another.
        all: print also what is the same.
    """
    from bridgehead.app import vault_diff, vault_names, vaults
    from bridgehead.cli.vault_display import Progress, print_comparison

    with Progress("comparing") as progress, vaults.damage_named(vault):
        place = vaults.open_vault(vault, moved=progress.moved)
        old, new = (vault_names.find(place, name).snapshot for name in (before, after))
        found = vault_diff.compare(place, old, new)
    if json:
        _print(found)
    else:
        print_comparison(found, every=all)
    return ExitCode.DONE if found.same else ExitCode.NEGATIVE


@app.command
def verify(
    vault: str, /, *, read_data: Annotated[bool, Parameter(negative="")] = False, trust: Path | None = None, json: JsonOption = False
) -> int:
    """Check VAULT; exit code 1 when anything is damaged. It is named, with the snapshots, files and tensors that it hurts.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        read_data: read every block and compare its hash; without it, all records, and that each block has the right size.
        trust: a file of public keys, one a line; exit code 1 also when a snapshot is unsigned, or signed by another key.
    """
    from bridgehead.app import vault_signatures, vaults
    from bridgehead.cli.vault_display import Progress, print_verified

    with Progress("verifying") as progress:
        report = vaults.verify(vault, read_data=read_data, moved=progress.moved)
    found = None if trust is None else vault_signatures.judged(vault, trust)
    if json:
        signatures = {} if found is None else {"signatures": found}
        _print({"vault": vault, "read_data": read_data, "intact": report.intact, **msgspec.to_builtins(report), **signatures})
    else:
        print_verified(report, place=vault, read_data=read_data)
        if found is not None:
            print_trust(found)
    return ExitCode.DONE if report.intact and (found is None or not found.findings) else ExitCode.NEGATIVE


@app.command
def replicate(
    vault: str,
    target: str,
    /,
    *,
    workload: WorkloadOption = None,
    site: str | None = None,
    rate: str | None = None,
    heal: Annotated[bool, Parameter(negative="")] = False,
    without_key: Annotated[bool, Parameter(negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Copy all that counts in VAULT to the vault TARGET, newest first; read it back there and note receipts. Broken off, it goes on.

    Args:
        vault: a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server.
        target: another vault; `vault init` makes it first.
        workload: only this one.
        site: in whose name TARGET's receipts are given; default vault- and the begin of its id.
        rate: limit for sending, such as '100 Mbps'.
        heal: read back in TARGET also what has a receipt already, and send again what is damaged there.
        without_key: make or refresh a copy of VAULT, object by object, without reading what is in it; it opens with VAULT's keys.
    """
    from bridgehead.app import vault_copies, vaults
    from bridgehead.cli.vault_display import Progress, print_copied
    from bridgehead.kernel.quantity import parse_rate

    vault_copies.refuse_same(vault, target)
    rate_bps = parse_rate(rate) if rate else None
    if rate_bps == 0:
        raise vaults.usage("replicate", subject="--rate 0", happened="at this rate it never ends", remedy="Give a rate such as '100 Mbps'.")
    if without_key:
        from bridgehead.cli.vault_mirror import mirror_vault

        if workload or site or heal:
            remedy = "Leave out --workload, --site and --heal: who cannot read records cannot choose among them, nor give receipts."
            raise vaults.usage("replicate without a key", subject=vault, happened="these options need a key", remedy=remedy)
        return mirror_vault(vault, target, rate_bps=rate_bps, json=json)
    named = SiteId(vaults.checked_name(site, option="--site")) if site else None
    with Progress("replicating") as progress:
        source = vaults.open_vault(vault)
        goal = vaults.open_vault(target, moved=progress.moved, rate_bps=rate_bps)
        replication = vault_copies.Replication(source, goal, site=named, heal=heal, places=(vault, target))
        wanted, progress.total_bytes = replication.plan(_chosen(source, workload))
        copied = replication.run(wanted, say=progress.say)
    if json:
        _print({"vault": vault, "target": target, **msgspec.to_builtins(copied)})
    else:
        print_copied(copied, target=target)
    return ExitCode.NEGATIVE if copied.failed else ExitCode.DONE


@app.command
def receipt(vault: str, name: str, /, *, site: str, json: JsonOption = False) -> int:
    """Read back every block of the snapshot NAME, and note in VAULT that SITE holds it whole."""
    from bridgehead.app import vault_names, vaults
    from bridgehead.cli.vault_display import Progress, clock, counted, size

    site_id = SiteId(vaults.checked_name(site, option="--site"))
    with Progress("reading back") as progress, vaults.damage_named(vault), vaults.space_named():
        place = vaults.open_vault(vault, moved=progress.moved)
        given = place.receipt(vault_names.find(place, name).snapshot.id, site=site_id)
    if json:
        _print(given)
    else:
        what = f"{counted(given.blocks, 'block')}, {size(given.raw_bytes)}"
        print(f"{given.site} holds {given.snapshot}: {what}, verified {clock(given.verified_s)}")
    return ExitCode.DONE


@app.command
def status(vault: str, /, *, json: JsonOption = False) -> int:
    """What VAULT holds of each workload: the newest snapshot and its age, sizes, fences, receipts with lag, damage that shows.

    Exit code 1 when damage shows.
    """
    import time

    from bridgehead.app import vault_status, vaults
    from bridgehead.cli.vault_display import print_status

    found = vault_status.status(vaults.open_vault(vault), place=vault, now_s=time.time())
    if json:
        _print(found)
    else:
        print_status(found)
    return ExitCode.NEGATIVE if found.damaged else ExitCode.DONE


def _print(document: object) -> None:
    print(msgspec.json.encode(document).decode())


def _chosen(place: Vault, workload: str | None) -> tuple[WorkloadId, ...]:
    from bridgehead.app import vault_names

    known = place.workloads()
    if workload is None:
        return known
    if workload not in known:
        raise vault_names.unknown_workload(place, WorkloadId(workload))
    return (WorkloadId(workload),)


def _warn_evidence(name: str, *, counts: bool) -> None:
    if not counts:
        print(f"warning: {name} does not count: its epoch is closed, or nobody opened it", file=sys.stderr)


def _refuse_inside(vault: str, to: str) -> None:
    from bridgehead.app.vaults import folder_of, usage

    folder = folder_of(vault)
    if to != STDOUT and folder is not None and Path(to).resolve().is_relative_to(folder.resolve()):
        raise usage("restore", subject=to, happened="it lies inside the vault", remedy="Name a folder outside of it.")


app.command("bridgehead.cli.vault_init:init", name="init", help="Make VAULT. Does nothing when it is a vault already.")
app.command("bridgehead.cli.vault_keys:app", name="keys", help="Who can open an encrypted vault; who signs snapshots.")
vault_space.register(app)
app.command("bridgehead.cli.vault_watch:watch", name="watch", help="Save each checkpoint that a trainer writes, as soon as it is whole.")
app.command("bridgehead.cli.vault_watch:alarms", name="alarms", help="Saves that succeeded and are wrong: frozen, missing, NaN.")
app.command("bridgehead.cli.vault_policy:retain", name="retain", help="Forget what no rule keeps; say of each snapshot why it stays.")
app.command("bridgehead.cli.vault_policy:hold", name="hold", help="Hold a snapshot so that nothing can take it; release it; list holds.")
app.command("bridgehead.cli.vault_policy:tier", name="tier", help="Move snapshots between hot, warm and cold vaults by age and access.")
app.command("bridgehead.cli.vault_policy:drill", name="drill", help="Prove by restoring that the vault can be restored.")
app.command("bridgehead.cli.vault_shards:commit", name="commit", help="Close a snapshot that several shards have saved together.")
app.command("bridgehead.cli.vault_courier:app", name="courier", help="Ship a vault on drives, any of which may be lost within the parity.")
