"""``bridgehead demo``: the whole thing on this machine, in about a minute."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

if TYPE_CHECKING:
    from bridgehead.app.demo.summary import Story, Summary


def demo(
    *,
    seed: int = 1,
    breakage: Annotated[str | None, Parameter(name="--break")] = None,
    proxy: str = "traefik",
    report: Path | None = None,
    quick: bool = False,
    keep: bool = False,
    json: JsonOption = False,
) -> int:
    """Move a running training job and a live inference service from one site to another, with nothing lost.

    Two sites on this machine: a trainer that really learns, an inference server behind a real proxy, and clients that check every answer.
    Exit code 0 only when every promise was kept.

    Args:
        seed: of the training and of the clients.
        breakage: break something on purpose: gate, controller, network, trainer or split-brain.
        proxy: traefik, or haproxy when it is installed.
        report: folder for summary.json and report.html.
        quick: 2,000 requests instead of 10,000, and shorter gates.
        keep: leave the demo's folder with all logs, and say where it is.
    """
    from bridgehead.app.demo.run import run_demo, script_of
    from bridgehead.cli import demo_display

    # Whoever ends the demo from outside gets everything ended that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    script = script_of(breakage=breakage, proxy=proxy, seed=seed, quick=quick)
    root = Path(tempfile.mkdtemp(prefix="bridgehead-demo-"))
    failed = True
    try:
        with demo_display.Progress(script) as progress:
            story = run_demo(script, root, report=report, watch=progress.watch)
        failed = not story.summary.kept
    finally:
        if keep or failed:
            print(f"logs and state of the demo: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root)
    _print(story, report, json=json)
    return ExitCode.DONE if story.summary.kept else ExitCode.NEGATIVE


def _print(story: Story, report: Path | None, *, json: bool) -> None:
    import msgspec

    from bridgehead.cli import demo_display

    summary: Summary = story.summary
    if json:
        print(msgspec.json.encode(summary).decode())
    else:
        demo_display.print_summary(summary)
        if report is not None:
            print(f"report: {report / 'report.html'}")
