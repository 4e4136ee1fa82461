"""Words: numbers with their units, and the sentences that say what happened. Every sentence rests on what was measured."""

from __future__ import annotations

import datetime

from markupsafe import Markup

from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.report.svg import clean, tag
from bridgehead.app.demo.summary import Summary
from bridgehead.kernel.quantity import format_bytes

NOT_MEASURED = "not measured in this kind of run"
_SPACE = "\N{NO-BREAK SPACE}"

_OPENINGS = {
    "gate": f"The canary at {TARGET} was made to answer wrongly, so that a gate had to notice and {SOURCE} had to get all traffic back.",
    "controller": "The engine that drives the move was killed with kill -9 at several moments, and had to go on where it had stopped.",
    "network": f"The link from {SOURCE} to {TARGET} was cut in the middle of a copy, and the move had to bear it.",
    "trainer": f"The trainer at {SOURCE} ignored the request for a last checkpoint, so that the last verified snapshot had to do.",
    "split-brain": f"The trainer at {SOURCE} came back after the fence, and what it saved must not count.",
}


def count(number: int) -> str:
    """A whole number with thousands separators."""
    return f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """'1 step', '2 steps'."""
    return f"{count(number)}{_SPACE}{one if number == 1 else many or one + 's'}"


def seconds(duration_s: float) -> str:
    """A duration with about three significant digits: '0.62 s', '12.4 s', '74 s'."""
    digits = 0 if duration_s >= 60 else 1 if duration_s >= 10 else 2 if duration_s >= 0.095 else 3
    return f"{duration_s:,.{digits}f}{_SPACE}s"


def brief(duration_s: float) -> str:
    """A duration for crowded places: '40 ms', '0.70 s', '8.6 s', '120 s'."""
    if duration_s < 0.0995:
        return f"{duration_s * 1000:.0f}{_SPACE}ms"
    return f"{duration_s:,.{2 if duration_s < 0.995 else 1 if duration_s < 99.95 else 0}f}{_SPACE}s"


def milliseconds(duration_s: float) -> str:
    """A latency: '3.42 ms', '41.3 ms', '1,240 ms'."""
    value = duration_s * 1000
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{_SPACE}ms"


def size(size_bytes: int) -> str:
    """A size with three significant digits."""
    return format_bytes(size_bytes, digits=3).replace(" ", _SPACE)


def percent(value: float, *, digits: int = 0) -> str:
    """A share that is already in percent."""
    return f"{value:.{digits}f}{_SPACE}%"


def times(more: float, less: float) -> str:
    """How many times ``more`` is more than ``less``, rounded down so that it never flatters: '10.2 times'."""
    ratio = int(more / less * 10) / 10
    return f"{ratio:,.1f}{_SPACE}times" if ratio < 100 else f"{int(ratio):,}{_SPACE}times"


def utc(at_s: float) -> str:
    """A moment as date and time."""
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def promise(name: str) -> str:
    """The name of a promise as a sentence: 'no_request_failed' reads 'No request failed'."""
    spaced = " ".join(name.replace("_", " ").replace("-", " ").split()) or "(no name)"
    return spaced[0].upper() + spaced[1:]


def headline(summary: Summary) -> str:
    """What happened, in one sentence."""
    if summary.kind in _OPENINGS:
        return _OPENINGS[summary.kind]
    what = "A training job and a live inference service"
    if summary.verdict == "done":
        return f"{what} moved from {SOURCE} to {TARGET}, while both kept working."
    end = f"the run ended as “{promise(summary.verdict).lower()}”" if summary.verdict else "the run has no verdict"
    return f"{what} were to move from {SOURCE} to {TARGET}; {end}."


def counted(summary: Summary) -> str:
    """The sentence below the headline: what became of requests and steps."""
    sent = plural(summary.requests_sent, "request")
    bad = [
        f"{count(number)} {word}"
        for number, word in (
            (summary.requests_failed, "failed"),
            (summary.requests_wrong, "got a wrong answer"),
            (summary.requests_cut, "lost the end of its stream" if summary.requests_cut == 1 else "lost the end of their streams"),
        )
        if number
    ]
    requests = f"Of {sent}, {_listed(bad)}." if bad else f"All {sent} were answered, and answered right; no stream was cut."
    if not summary.requests_sent:
        requests = "No request was sent."
    if summary.steps_lost is None:
        return requests
    lost = f"{plural(summary.steps_lost, 'training step')} had to be computed again" if summary.steps_lost else "No training step was lost"
    same = {True: ", and the final weights are bit-identical to a run that never moved", False: ", and the final weights differ", None: ""}
    return f"{requests} {lost}{same[summary.weights_identical]}."


def verdict(summary: Summary) -> str:
    """All promises kept, or how many were not."""
    broken = sum(not kept for kept in summary.promises.values())
    if not summary.promises:
        return "No promise was checked in this run, so nothing is proved."
    if broken:
        return f"{count(broken)} of {plural(len(summary.promises), 'promise')} broken"
    return "The promise was kept" if len(summary.promises) == 1 else f"All {plural(len(summary.promises), 'promise')} kept"


def reproduce(summary: Summary) -> str:
    """The command line that does the same again."""
    broken = "" if summary.kind == "move" else f" --break {summary.kind}"
    return f"bridgehead demo --seed {summary.seed}{broken} --proxy {summary.proxy} --report DIR"


def unbroken(sentence: str) -> Markup:
    """``sentence`` as markup whose hyphenated names (site-a) stay on one line."""
    pieces = (tag("span", word, class_="nowrap") if "-" in word else word for word in clean(sentence).split(" "))
    return Markup(" ").join(pieces)


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
