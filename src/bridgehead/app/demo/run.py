"""Run a demo: play it, judge it, write the report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bridgehead.app.demo.evidence import tell
from bridgehead.app.demo.places import Places
from bridgehead.app.demo.play import Watch, play
from bridgehead.app.demo.report.page import render
from bridgehead.app.demo.script import Kind, Proxy, Script
from bridgehead.app.demo.summary import Story
from bridgehead.kernel.errors import BridgeheadError, ErrorCode


def script_of(*, breakage: str | None, proxy: str, seed: int, quick: bool) -> Script:
    """The script for what was asked on the command line. Raises BAD_USAGE for a word that is unknown."""
    kinds = {kind.value for kind in Kind if kind is not Kind.MOVE}
    if breakage is not None and breakage not in kinds:
        raise _unknown("--break", breakage, kinds)
    if proxy not in {one.value for one in Proxy}:
        raise _unknown("--proxy", proxy, {one.value for one in Proxy})
    return Script(kind=Kind(breakage or "move"), seed=seed, proxy=Proxy(proxy), quick=quick)


def run_demo(script: Script, root: Path, *, report: Path | None, watch: Watch) -> Story:
    """Play ``script`` in the folder ``root``. Raises BridgeheadError when it cannot be played to its end."""
    places = Places(root)
    seen = play(script, places, watch)
    story = tell(script, places, seen)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        (report / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(story.summary)) + b"\n")
        (report / "report.html").write_text(render(story), encoding="utf-8")
    return story


def _unknown(option: str, word: str, known: set[str]) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="play the demo",
        subject=f"{option} {word}",
        happened="there is no such thing",
        remedy=f"Choose one of: {', '.join(sorted(known))}.",
    )
