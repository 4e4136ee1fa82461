"""``bridgehead watch`` and ``bridgehead status``: is everything recoverable, and for how long still?"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts
from cyclopts import Parameter

from bridgehead.cli.options import AsOption, HomeOption, JsonOption, who
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import SiteId

if TYPE_CHECKING:
    from types import FrameType

    from bridgehead.app.watch import Watch
    from bridgehead.app.watch_server import WatchServer
    from bridgehead.recovery.watch.readiness import WatchReport

app = cyclopts.App(name="watch", help="Say whether everything could be recovered now, and warn before it no longer can.")

RecoveryOption = Annotated[Path | None, Parameter(name="--recovery", help="Recovery file: what is protected, where, and the witness.")]
ObjectivesOption = Annotated[
    Path | None, Parameter(name="--objectives", help="Objectives file; default the one that the recovery file names.")
]
PolicyOption = Annotated[Path | None, Parameter(name="--policy", help="Policy file, for its objectives where there is no file of them.")]
ObserverOption = Annotated[str | None, Parameter(name="--observer", help="Name of this observer; default the name of this machine.")]


@app.default
def watch(
    estate: Path,
    /,
    *,
    recovery: RecoveryOption = None,
    objectives: ObjectivesOption = None,
    policy: PolicyOption = None,
    once: Annotated[bool, Parameter(negative="")] = False,
    every: str = "30 s",
    grace: str = "5 min",
    lead: str = "15 min",
    observers: int = 2,
    observer: ObserverOption = None,
    timeout: str = "10 s",
    metrics_port: int | None = None,
    metrics_host: str = "127.0.0.1",
    all: Annotated[bool, Parameter(name="--all", negative="")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Look at all sites until SIGTERM, or once, and judge: snapshots, copies, restores, capacity, lines, plans, and whether sites live.

    Exit code with --once: 0 all is green, 1 something fails, 3 nothing fails and something is not known.

    Args:
        estate: the estate file.
        once: look once. Called again and again (by cron), it remembers what it knew.
        every: time between two looks; what was seen three looks ago is no longer known.
        grace: how long a site may be silent, from the first look in vain, before a failover may be proposed.
        lead: a miss that is expected within this is told now.
        observers: how many must find a site silent before a failover may be proposed without other evidence.
        timeout: how long a look waits for answers.
        metrics_port: serve /metrics, /report and /healthz there; 0 takes a free port.
        metrics_host: the address to serve at.
        all: show also what passes.
        json: the report as JSON; without --once one on each line.
    """
    from bridgehead.app.home import Home
    from bridgehead.app.watch import Watch, order_for
    from bridgehead.app.watch_scope import ScopeFiles
    from bridgehead.kernel.quantity import parse_duration

    every_s = parse_duration(every)
    order = order_for(
        observer=observer,
        every_s=every_s,
        grace_s=parse_duration(grace),
        observers=observers,
        lead_s=parse_duration(lead),
        alone=not once,
        budget_s=parse_duration(timeout),
    )
    files = ScopeFiles(estate, recovery=recovery, objectives=objectives, policy=policy)
    with Watch(files, Home(home), order) as watching:
        if once:
            made = watching.look()
            _tell_faults(watching)
            _print(made, json=json, everything=all)
            return exit_code(made)
        with _server(metrics_host, metrics_port, stale_s=order.terms.stale_s) as server:
            return _always(watching, every_s=every_s, json=json, everything=all, server=server)


def status(
    estate: Path,
    /,
    *,
    recovery: RecoveryOption = None,
    objectives: ObjectivesOption = None,
    policy: PolicyOption = None,
    go_on: Annotated[bool, Parameter(name="--watch", negative="", help="Go on until interrupted.")] = False,
    every: str = "10 s",
    observer: ObserverOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Show once, or with --watch all the time, whether everything could be recovered: `bridgehead watch` for people.

    Args:
        estate: the estate file.
        every: time between two looks.
    """
    return watch(
        estate,
        recovery=recovery,
        objectives=objectives,
        policy=policy,
        once=not go_on,
        every=every,
        observer=observer,
        home=home,
        json=json,
    )


@app.command
def rules(*, every: str = "30 s", lead: str = "15 min") -> int:
    """Print alert rules for Prometheus, as YAML, that fit a watch which looks so often.

    Args:
        every: as of `bridgehead watch`.
        lead: how long before the RPO is missed somebody is called.
    """
    from bridgehead.kernel.document import dump
    from bridgehead.kernel.quantity import parse_duration
    from bridgehead.recovery.watch.rules import alert_rules, rules_document

    print(dump(rules_document(alert_rules(every_s=parse_duration(every), lead_s=parse_duration(lead)))), end="")
    return ExitCode.DONE


@app.command
def schema() -> int:
    """Print the JSON Schema of the report that `watch --once --json` prints."""
    import msgspec

    from bridgehead.recovery.watch.readiness import WatchReport

    print(msgspec.json.format(msgspec.json.encode(msgspec.json.schema(WatchReport)), indent=2).decode())
    return ExitCode.DONE


@app.command
def declare(
    estate: Path,
    site: str,
    /,
    *,
    lost: Annotated[str, Parameter(name="--lost", help="Why it is known to be lost.")] = "",
    power: Annotated[bool, Parameter(name="--power", negative="", help="Read out of band: its supply is off.")] = False,
    withdraw: Annotated[bool, Parameter(name="--withdraw", negative="", help="Take back what was declared.")] = False,
    recovery: RecoveryOption = None,
    home: HomeOption = None,
    as_: AsOption = None,
) -> int:
    """Say that a site is lost, or take that back. Silence never makes a site lost; a person's word, or power that is off, does.

    All observers see it. A sign of life of the site that is younger refutes it.

    Args:
        estate: the estate file.
        site: the site.
    """
    import time

    from bridgehead.app.home import Home
    from bridgehead.app.vaults import usage
    from bridgehead.app.watch import Watch, order_for
    from bridgehead.app.watch_scope import ScopeFiles
    from bridgehead.recovery.watch.liveness import Evidence, EvidenceKind

    if bool(lost) == withdraw:
        raise usage("declare a site lost", subject=site, happened="it takes a reason, or --withdraw", remedy="Give --lost REASON.")
    order = order_for(observer=None, every_s=30.0, grace_s=300.0, observers=1, lead_s=900.0, alone=False)
    kind = EvidenceKind.POWER if power else EvidenceKind.DECLARED
    evidence = None if withdraw else Evidence(SiteId(site), kind, who(as_), lost, time.time())
    done = Watch(ScopeFiles(estate, recovery=recovery), Home(home), order).declare(SiteId(site), evidence)
    print(f"{site}: {f'{done} taken back' if withdraw else f'declared lost by {who(as_)}: {lost}'}")
    return ExitCode.DONE


@app.command
def history(
    estate: Path,
    /,
    *,
    recovery: RecoveryOption = None,
    last: str = "1 d",
    observer: ObserverOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Show what the watch has seen: status, lost work and lag of each workload, hour by hour; with --json every look.

    Args:
        estate: the estate file.
        last: how far back.
    """
    import time

    import msgspec

    from bridgehead.app.home import Home
    from bridgehead.app.watch import history_of, order_for
    from bridgehead.app.watch_scope import ScopeFiles
    from bridgehead.kernel.quantity import parse_duration

    name = order_for(observer=observer, every_s=30.0, grace_s=300.0, observers=1, lead_s=900.0, alone=False).observer
    since_s = time.time() - parse_duration(last)
    lines = [line for line in history_of(ScopeFiles(estate, recovery=recovery), Home(home), name).history() if line.at_s >= since_s]
    if json:
        for line in lines:
            print(msgspec.json.encode(line).decode())
    else:
        from bridgehead.cli.watch_display import print_history

        print_history(lines, observer=name)
    return ExitCode.DONE


def exit_code(made: WatchReport) -> ExitCode:
    """Of a report."""
    from bridgehead.model.finding import FindingStatus

    return {FindingStatus.PASS: ExitCode.DONE, FindingStatus.FAIL: ExitCode.NEGATIVE, FindingStatus.UNKNOWN: ExitCode.CANNOT_TELL}[
        made.status
    ]


@contextlib.contextmanager
def _server(host: str, port: int | None, *, stale_s: float) -> Iterator[WatchServer | None]:
    if port is None:
        yield None
        return
    from bridgehead.app.watch_server import WatchServer

    with WatchServer(host=host, port=port, stale_s=stale_s) as server:
        print(f"metrics: http://{host}:{server.port}/metrics", file=sys.stderr, flush=True)
        yield server


def _always(watching: Watch, *, every_s: float, json: bool, everything: bool, server: WatchServer | None) -> int:
    from bridgehead.app.watch import watch_always
    from bridgehead.cli.watch_display import LiveReport

    ended = threading.Event()
    _end_on_signals(ended.set)
    with contextlib.nullcontext() if json else LiveReport(everything=everything) as live:

        def tell(made: WatchReport) -> None:
            if server is not None:
                server.show(made)
            if live is not None:
                live.show(made, faults=watching.faults)
            else:
                _tell_faults(watching)
                _print(made, json=True, everything=everything)

        watch_always(watching, every_s=every_s, tell=tell, ended=ended.wait)
    return ExitCode.DONE


def _end_on_signals(end: Callable[[], None]) -> None:
    def on_signal(number: int, frame: FrameType | None) -> None:
        end()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)


def _print(made: WatchReport, *, json: bool, everything: bool) -> None:
    if json:
        import msgspec

        print(msgspec.json.encode(made).decode(), flush=True)
    else:
        from bridgehead.cli.watch_display import print_report

        print_report(made, everything=everything)


def _tell_faults(watching: Watch) -> None:
    for fault in watching.faults:
        print(f"warning: {fault}", file=sys.stderr, flush=True)
