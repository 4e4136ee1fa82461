"""iperf3 JSON (``-J`` and ``--json-stream``): what a path carried, how long it took, what was lost (M5.3, M8.3)."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from bridgehead.discovery.jsontext import Unreadable, decode, line_of, lines_of
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_VERSION: Final = re.compile(rb'"version"\s*:\s*"iperf 3')
_EVENT: Final = re.compile(rb'"event"\s*:\s*"start"')
_MAX_STREAMS: Final = 128
"""What iperf3 itself allows."""


def recognises(head: bytes) -> bool:
    """The version that each document begins with."""
    return _VERSION.search(head) is not None and (b'"start"' in head or _EVENT.search(head) is not None)


def parse(capture: Capture) -> Parsed:
    """One run. Rates are those of the whole run, never of an interval."""
    document = _document(capture)
    if isinstance(document, Unreadable):
        say = Statements("iperf3", capture)
        say.skip(document.line, document.reason)
        return say.done()
    start = _dict(document, "start")
    seconds: Any = _dict(start, "timestamp").get("timesecs")
    if _is_number(seconds) and 0 < seconds < 1e11:
        capture = msgspec.structs.replace(capture, at_s=float(seconds))
    say = Statements("iperf3", capture)
    test, connected = _dict(start, "test_start"), _first(start.get("connected"))
    local = capture.host or _text(connected.get("local_host")) or "?"
    remote = _text(_dict(start, "connecting_to").get("host")) or _text(connected.get("remote_host"))
    remote = remote or _text(_dict(start, "accepted_connection").get("host")) or "?"
    way = "from" if test.get("reverse") in (1, True) else "to"
    run = _Run(capture, say, f"node:{local}/path-{way}:{remote}", _dict(document, "end"))
    if isinstance(error := document.get("error"), str):
        note = f"the tool says: {error[:200]}"
        for attribute in ("measured-rate-sent", "measured-rate-received"):
            say.unknown(run.subject, attribute, line=line_of(capture, "error"), unit="bit/s", note=note)
        return say.done()
    for attribute, key in (("local-address", "local_host"), ("remote-address", "remote_host")):
        if address := _text(connected.get(key)):
            say.known(run.subject, attribute, address, line=line_of(capture, "connected", key))
    run.state_test(start, test)
    run.state_rates()
    run.state_streams()
    if test.get("bidir") in (1, True):
        back = _Run(capture, say, f"node:{local}/path-from:{remote}", run.end, suffix="_bidir_reverse")
        back.state_rates()
    return say.done()


class _Run:
    """States the facts of one direction; ``end`` is the part of the document that holds the totals."""

    def __init__(self, capture: Capture, say: Statements, subject: str, end: dict[str, Any], *, suffix: str = "") -> None:
        self.subject, self.end = subject, end
        self._capture, self._say, self._suffix = capture, say, suffix

    def state_test(self, start: dict[str, Any], test: dict[str, Any]) -> None:
        """How the run was made."""
        words = (("iperf-version", start.get("version"), "version"), ("protocol", test.get("protocol"), "protocol"))
        for attribute, value, key in words:
            if isinstance(value, str):
                self._say.word(self.subject, attribute, value, line=line_of(self._capture, key))
        if _is_number(streams := test.get("num_streams")):
            self._say.known(self.subject, "measured-streams", streams, line=line_of(self._capture, "num_streams"))
        if isinstance(congestion := self.end.get("sender_tcp_congestion"), str):
            self._say.word(self.subject, "congestion-control", congestion, line=line_of(self._capture, "sender_tcp_congestion"))
        segment: Any = start.get("tcp_mss_default")
        if _is_number(segment) and segment > 0:
            self._say.known(self.subject, "segment-size", segment, line=line_of(self._capture, "tcp_mss_default"), unit="B")

    def state_rates(self) -> None:
        """Totals; where there are none the run was broken off, and the rates are unknown."""
        sent, received = f"sum_sent{self._suffix}", f"sum_received{self._suffix}"
        if not _dict(self.end, sent) and not self._suffix and "jitter_ms" in _dict(self.end, "sum"):
            sent = "sum"  # versions before 3.10 have one total for UDP, which is the sender's
        for attribute, key in (("measured-rate-sent", sent), ("measured-rate-received", received)):
            self._take(attribute, key, "bits_per_second", unit="bit/s")
        self._take("measured-bytes-sent", sent, "bytes", unit="B")
        self._take("measured-duration", sent, "seconds", unit="s")
        for attribute, key, unit, scale in (
            ("measured-retransmits", "retransmits", "", 1),
            ("measured-jitter", "jitter_ms", "s", 1e-3),
            ("measured-loss", "lost_percent", "1", 1e-2),
        ):
            holder = next((name for name in (received, sent) if key in _dict(self.end, name)), None)
            if holder is not None:
                self._take(attribute, holder, key, unit=unit, scale=scale)

    def state_streams(self) -> None:
        """Round trips, which are told for each stream; in microseconds, and 0 where the system does not tell."""
        streams = self.end.get("streams")
        senders = [_dict(one, "sender") for one in streams[:_MAX_STREAMS] if isinstance(one, dict)] if isinstance(streams, list) else []
        for attribute, key in (("mean", "mean_rtt"), ("min", "min_rtt"), ("max", "max_rtt")):
            places = lines_of(self._capture, "end", key)
            for number, sender in enumerate(senders, 1):
                if key not in sender:
                    continue
                line = next(places, 1)
                name = f"measured-round-trip-{attribute}" + (f":{number}" if len(senders) > 1 else "")
                if sender[key] == 0:
                    self._say.unknown(
                        self.subject, name, line=line, unit="s", note="the tool printed 0, which it does where it cannot know"
                    )
                else:
                    self._state(name, sender[key], line=line, unit="s", scale=1e-6)

    def _take(self, attribute: str, holder: str, key: str, *, unit: str, scale: float = 1) -> None:
        totals = _dict(self.end, holder)
        if key in totals:
            self._state(attribute, totals[key], line=line_of(self._capture, "end", holder, key), unit=unit, scale=scale)
        else:
            note = "the run has no total: it was broken off, or the other side did not report"
            self._say.unknown(self.subject, attribute, line=line_of(self._capture, "end"), unit=unit, note=note)

    def _state(self, attribute: str, value: object, *, line: int, unit: str, scale: float) -> None:
        text = repr(value) if _is_number(value) else str(value)
        self._say.number(self.subject, attribute, text, line=line, unit=unit, scale=scale)


def _document(capture: Capture) -> dict[str, Any] | Unreadable:
    """The document; of a stream of events it is put together from them."""
    if _EVENT.search(capture.data[: 64 << 10]) is None:
        document = decode(capture)
        if isinstance(document, Unreadable | dict):
            return document
        return Unreadable(1, "the JSON is no object")
    whole: dict[str, Any] = {}
    for number, line in enumerate(capture.data.splitlines(), 1):
        event = decode(Capture(capture.file, line)) if line.lstrip().startswith(b"{") else None
        if isinstance(event, Unreadable):
            return Unreadable(number, event.reason)
        if isinstance(event, dict) and isinstance(name := event.get("event"), str) and name in ("start", "end", "error"):
            whole[name] = event.get("data")
    return whole


def _dict(holder: dict[str, Any], key: str) -> dict[str, Any]:
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def _first(value: object) -> dict[str, Any]:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_WAYS = ("node:*/path-to:*", "node:*/path-from:*")
PARSER = Parser(
    tool="iperf3",
    command="iperf3 -J -c HOST",
    recognises=recognises,
    marks=(b'"iperf 3',),
    parse=parse,
    yields=tuple(
        Yield(subject, *what)
        for subject in _WAYS
        for what in (
            ("iperf-version", "", "version of iperf3"),
            ("local-address", "", "address of this end"),
            ("remote-address", "", "address of the other end"),
            ("protocol", "", "TCP, UDP or SCTP"),
            ("congestion-control", "", "of the sender"),
            ("segment-size", "B", "largest TCP segment"),
            ("measured-streams", "", "streams in parallel"),
            ("measured-rate-sent", "bit/s", "what the sender sent, of the whole run"),
            ("measured-rate-received", "bit/s", "what arrived, of the whole run"),
            ("measured-bytes-sent", "B", "bytes of the whole run"),
            ("measured-duration", "s", "how long the sender took"),
            ("measured-retransmits", "", "segments that were sent again"),
            ("measured-jitter", "s", "of UDP"),
            ("measured-loss", "1", "share of datagrams that were lost"),
            *(
                (f"measured-round-trip-{which}{number}", "s", f"{which} round trip of {of}")
                for which in ("mean", "min", "max")
                for number, of in (("", "the only stream"), (":*", "each of several streams"))
            ),
        )
    ),
)
