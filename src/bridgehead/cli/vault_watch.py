"""``bridgehead vault watch`` and ``vault alarms``: a trainer's checkpoints go into a vault by themselves, and saves are judged."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.cli.vault_context import CaptureGroup
from bridgehead.cli.vault_signing import keep_signed
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId

if TYPE_CHECKING:
    from types import FrameType

    from bridgehead.app.vault_watch import Watching
    from bridgehead.vault.tensor_alarm import Alarm
    from bridgehead.vault.watch import Ingested, Look

_SHOWN = 3


def watch(
    vault: str,
    directory: Path,
    /,
    *,
    workload: str,
    once: Annotated[bool, Parameter(negative="")] = False,
    every: str = "10 s",
    settle: str = "2 s",
    step_from: str | None = None,
    mark_inside: str = "",
    mark_beside: str = "",
    max_lag: str | None = None,
    status_file: Path | None = None,
    scratch: Path | None = None,
    epoch: Annotated[int | None, Parameter(env_var="BRIDGEHEAD_EPOCH")] = None,
    site: Annotated[str | None, Parameter(env_var="BRIDGEHEAD_SITE")] = None,
    capture: CaptureGroup = None,
    json: JsonOption = False,
) -> int:
    """Save each checkpoint that a trainer writes below DIRECTORY, as soon as it is whole; until SIGTERM, or once.

    Args:
        vault: a directory, or the address of a store.
        directory: where the trainer writes: a folder or a file for each step.
        workload: name under which the snapshots of this training are kept.
        once: look twice, save what is whole, and end: 0 when all is in the vault, 1 when something is incomplete or an alarm stands.
        every: time between two looks.
        settle: how long nothing of a checkpoint may have changed.
        step_from: regular expression for the whole name of a checkpoint, whose first group is the step; default: the usual names.
        mark_inside: a checkpoint is complete only when its folder holds this file, such as _SUCCESS.
        mark_beside: a checkpoint is complete only when this file beside it names it or a later one.
        max_lag: an alarm when the newest durable checkpoint is older than this, such as '45 min'.
        status_file: a JSON file that always says how it stands.
        scratch: folder for what the watcher remembers and holds; default a hidden one in DIRECTORY.
        epoch: the writer's epoch; default 0, and needed as soon as a fence is in force.
        site: where it is saved; default the name of this machine.
        json: JSON Lines: a document a line, one for each checkpoint that was saved, and with --once the status as the last one.
    """
    from bridgehead.app import vault_watch, vaults
    from bridgehead.kernel.quantity import parse_duration
    from bridgehead.vault.marks import MarkKind
    from bridgehead.vault.watch import Extra, WatchOrder

    if not directory.is_dir():
        raise vaults.usage("watch a trainer", subject=str(directory), happened="it is not a folder", remedy="Name its output directory.")
    place = vaults.open_vault(vault)
    keep_signed(place)
    workload_id = WorkloadId(vaults.checked_name(workload, option="--workload"))
    capturer = capture.capturer(vaults.folder_of(vault), directory) if capture else None
    order = WatchOrder(
        directory=directory.absolute(),
        workload=workload_id,
        site=SiteId(vaults.checked_name(site or os.uname().nodename, option="--site")),
        epoch=Epoch(epoch) if epoch is not None else vaults.writing_epoch(place, workload_id),
        pattern=vault_watch.step_pattern(step_from) if step_from else None,
        mark=MarkKind(inside=mark_inside, beside=mark_beside),
        stable_s=parse_duration(settle),
    )
    watching = vault_watch.Watching(
        place,
        order,
        reports=vault_watch.Reports(saved=lambda one, found: _print_saved(one, found, json=json), say=_say),
        every_s=parse_duration(every),
        max_lag_s=parse_duration(max_lag) if max_lag else None,
        status_file=status_file,
        scratch=scratch,
        extra=capturer.capture if capturer is not None else Extra,
    )
    _end_on_signals(watching)
    look = watching.run(once=once)
    return _verdict(watching, look, json=json, chosen=step_from is not None) if once else ExitCode.DONE


def alarms(
    vault: str,
    /,
    *,
    workload: Annotated[str | None, Parameter(help="Only this workload.")] = None,
    read_data: Annotated[bool, Parameter(negative="")] = False,
    all: Annotated[bool, Parameter(negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Saves that succeeded and are wrong: frozen or missing tensors, changed dtypes. Exit code 1: there are some; 3: it cannot be told.

    Args:
        vault: a directory, or the address of a store.
        read_data: read the tensors of the newest snapshot too: NaN, infinities, all zero, jumps of the norm.
        all: judge every snapshot, not only the newest of each workload.
    """
    from bridgehead.app import vault_alarms, vault_names, vaults

    with vaults.damage_named(vault):
        place = vaults.open_vault(vault)
        known = place.workloads()
        if workload is not None and workload not in known:
            raise vault_names.unknown_workload(place, WorkloadId(workload))
        chosen = known if workload is None else (WorkloadId(workload),)
        found = vault_alarms.alarms_of(place, chosen, read_data=read_data, every=all)
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        print_alarms(found.alarms)
        if not found.alarms:
            what = "their tensors were read" if read_data else "from records and hashes alone; --read-data looks into the tensors"
            print(f"no alarm; {found.judged} judged, {what}")
    if found.certain:
        return ExitCode.NEGATIVE
    return ExitCode.CANNOT_TELL if found.alarms else ExitCode.DONE


def print_alarms(found: Iterable[Alarm], *, to_stderr: bool = False) -> None:
    """A line for each alarm."""
    from bridgehead.cli.vault_display import clean

    for one in found:
        line = f"{one.severity.value}: {one.workload}@{one.step}: [{one.code.value}] {one.text}"
        print(clean(line), file=sys.stderr if to_stderr else sys.stdout, flush=True)


def _print_saved(one: Ingested, found: tuple[Alarm, ...], *, json: bool) -> None:
    from bridgehead.cli.vault_display import counted, size, warnings

    snapshot = one.result.snapshot
    if json:
        document = {"id": snapshot.id, "checkpoint": one.name, "step": snapshot.step, "raw_bytes": snapshot.raw_bytes}
        document |= {"written_bytes": one.result.written_bytes, "unread_bytes": one.unread_bytes, "incomplete": snapshot.incomplete}
        document["findings"] = snapshot.findings or ()
        print(msgspec.json.encode({**document, "alarms": found}).decode(), flush=True)
    else:
        unread = f", {size(one.unread_bytes)} not read again" if one.unread_bytes else ""
        what = f"{size(snapshot.raw_bytes)} in {counted(len(snapshot.files), 'file')}, {size(one.result.written_bytes)} new{unread}"
        print(f"{snapshot.id}: {one.name}, {what}", flush=True)
    for text in warnings(snapshot):
        _say(f"warning: {text}")
    print_alarms(found, to_stderr=True)


def _say(text: str) -> None:
    from bridgehead.cli.vault_display import clean

    print(clean(text), file=sys.stderr, flush=True)


def _verdict(watching: Watching, look: Look, *, json: bool, chosen: bool) -> int:
    """``chosen``: the user said which names are checkpoints; when none is, he has said it wrong."""
    status = watching.status()
    if json:
        print(msgspec.json.encode(status).decode(), flush=True)
    else:
        for name, lacking in look.incomplete.items():
            more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
            _say(f"incomplete: {name}: {'; '.join(lacking[:_SHOWN])}{more}")
        if not status.newest:
            _say(
                f"nothing is saved; {status.directory} holds {'no whole checkpoint' if look.incomplete else 'nothing that looks like one'}"
            )
        elif not status.saved:
            print(f"{status.newest}: nothing new")
    wrong = look.incomplete or status.alarm or status.tensor_alarms or not status.newest or (chosen and not status.matching)
    return ExitCode.NEGATIVE if wrong else ExitCode.DONE


def _end_on_signals(watching: Watching) -> None:
    """SIGTERM: finish what is being saved, then end. A second one ends at once, which does no harm either."""
    asked = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        watching.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
