"""``bridgehead lab``: two sites with real servers on this machine, and the faults that they can be given."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

if TYPE_CHECKING:
    from bridgehead.testing.lab.lab import Lab
    from bridgehead.testing.lab.status import LabStatus

app = App(name="lab", help="Set up two Slurm sites with real servers on this machine, and break them.")

DEFAULT = Path("/var/tmp/bridgehead-lab")
DirOption = Annotated[Path, Parameter(name="--dir", help="The lab's folder; a short path, because sockets lie in it.")]


@app.command
def up(*, directory: DirOption = DEFAULT, rate: str = "200 Mbps", delay: str = "2 ms", work: bool = False, json: JsonOption = False) -> int:
    """Set up a lab: two sites with Slurm and vaults, a witness, and between them HAProxy, Prometheus and PostgreSQL. Needs root.

    Everything lives in network namespaces of its own. `estate.yaml` in the folder connects it for every other verb.

    Args:
        rate: of the line of each site and of the witness, in each direction; 0 for as fast as it goes.
        delay: of these lines, one way.
        work: start a training and a service at site-a, with clients.
    """
    from bridgehead.app.lab.files import WorkOptions, write_estate, write_recovery_file
    from bridgehead.app.lab.work import start_work
    from bridgehead.kernel.quantity import parse_duration, parse_rate
    from bridgehead.testing.lab.lab import LabOptions

    options = LabOptions(rate_bps=0.0 if rate == "0" else parse_rate(rate), delay_s=0.0 if delay == "0" else parse_duration(delay))
    # Whoever ends `up` from outside gets everything ended that it began.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    lab = _lab(directory)
    record = lab.up(options)
    try:
        write_estate(record, lab.folder)
        write_recovery_file(record, lab.folder, WorkOptions())
        if work:
            start_work(lab)
    except BaseException:
        lab.down()
        raise
    return _show(lab, json=json)


@app.command
def work(
    *,
    directory: DirOption = DEFAULT,
    steps: Annotated[float, Parameter(name="--steps-per-s")] = 10.0,
    save_every: int = 20,
    requests: Annotated[float, Parameter(name="--requests-per-s")] = 150.0,
    script: Path | None = None,
    json: JsonOption = False,
) -> int:
    """Start a training of two ranks and a service at site-a, as Slurm jobs, and clients that check every answer.

    Args:
        steps: pace of the training.
        save_every: steps between two checkpoints.
        requests: pace of the clients; 0 for none.
        script: a training for torchrun, such as examples/lab/fsdp.py; without it, one in numpy.
    """
    from bridgehead.app.lab.files import WorkOptions
    from bridgehead.app.lab.work import start_work

    lab = _lab(directory)
    start_work(lab, WorkOptions(steps, save_every, requests, script.absolute() if script is not None else None))
    return _show(lab, json=json)


@app.command
def rest(*, directory: DirOption = DEFAULT, json: JsonOption = False) -> int:
    """End the clients, wait for their open requests, and say what came of all of them. Exit code 1 when one failed."""
    import msgspec

    from bridgehead.app.lab.work import stop_clients

    summary = stop_clients(_lab(directory))
    if json:
        print(msgspec.json.encode(summary).decode())
    else:
        print(f"{summary.sent} requests sent, {summary.failed} failed, {summary.wrong} answered wrongly, {summary.cut} streams cut")
    return ExitCode.NEGATIVE if summary.failed or summary.wrong or summary.cut else ExitCode.DONE


@app.command
def down(*, directory: DirOption = DEFAULT, keep: Annotated[bool, Parameter(negative="")] = False, json: JsonOption = False) -> None:
    """End everything of the lab, also after `up` or the machine died in the middle. Again, it does nothing.

    Args:
        keep: leave the files, with all logs.
    """
    ended = _lab(directory).down(keep_files=keep)
    print(f'{{"ended":{ended}}}' if json else f"ended {ended} processes; nothing of the lab is left" + (" but its files" if keep else ""))


@app.command
def status(*, directory: DirOption = DEFAULT, json: JsonOption = False) -> int:
    """Say what runs where, what the lines can do, what is cut or killed. Exit code 1 when something is not well."""
    return _show(_lab(directory), json=json)


@app.command
def cut(place: str, other: str = "", /, *, directory: DirOption = DEFAULT, json: JsonOption = False) -> int:
    """Part PLACE from OTHER, or from everything: packets vanish, nothing is refused.

    Args:
        place: site-a, site-b, witness, hub (proxy, Prometheus, clients) or controller (this machine's commands).
        other: another of these.
    """
    lab = _lab(directory)
    lab.cut(place, other)
    return _show(lab, json=json, verdict=False)


@app.command
def heal(place: str = "", other: str = "", /, *, directory: DirOption = DEFAULT, json: JsonOption = False) -> int:
    """End partitions: that of PLACE and OTHER, all of PLACE, or all.

    Args:
        place: as for `cut`.
        other: as for `cut`.
    """
    lab = _lab(directory)
    lab.heal(place, other)
    return _show(lab, json=json, verdict=False)


@app.command
def kill(site: str, /, *, directory: DirOption = DEFAULT, json: JsonOption = False) -> int:
    """End every process of a site at once (SIGKILL), jobs included, as when its power fails. What is on its disks stays.

    Args:
        site: site-a, site-b or witness.
    """
    lab = _lab(directory)
    lab.kill(site)
    return _show(lab, json=json, verdict=False)


@app.command
def revive(site: str, /, *, directory: DirOption = DEFAULT, json: JsonOption = False) -> int:
    """Start the servers of a killed site again, from what is on its disks.

    Args:
        site: site-a, site-b or witness.
    """
    lab = _lab(directory)
    lab.revive(site)
    return _show(lab, json=json, verdict=False)


def _lab(directory: Path) -> Lab:
    from bridgehead.testing.lab.lab import Lab

    return Lab(Path(os.path.abspath(directory)))


def _show(lab: Lab, *, json: bool, verdict: bool = True) -> int:
    import msgspec

    from bridgehead.testing.lab.status import status_of

    found = status_of(lab.folder, lab.record)
    print(msgspec.json.encode(found).decode() if json else _text(found))
    return ExitCode.DONE if found.healthy or not verdict else ExitCode.NEGATIVE


def _text(found: LabStatus) -> str:
    lines = [f"lab {found.id} in {found.directory}: {'well' if found.healthy else 'NOT well'}", f"service {found.service}"]
    for name, place in found.places.items():
        marks = ["killed"] if place.killed else []
        if place.line is not None:
            marks += [f"cut from {other or 'everything'}" for other in place.line.cut_from]
            limit = f"{place.line.rate_bps / 1e6:g} Mbps" if place.line.rate_bps else "no rate limit"
            lines.append(f"{name}: {place.line.address}, {limit}, {place.line.delay_s * 1000:g} ms{''.join(f', {mark}' for mark in marks)}")
        else:
            lines.append(f"{name}:")
        for server in (*place.servers, *place.programs):
            state = "well" if server.well else "ended" if not server.alive else "no answer"
            lines.append(f"    {server.name:<14} {server.address or f'pid {server.pid}':<24} {state}")
        lines += [f"    job {job:<16} {state}" for job, state in place.jobs.items()]
    return "\n".join(lines)
