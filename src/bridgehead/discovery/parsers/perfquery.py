"""perfquery: traffic and error counters of InfiniBand ports (M2).

The tool prints the address of the device in its subnet (LID), and no GUID; ``lid`` of switches and adapters tells whose it is.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^# Port (?:extended )?counters: Lid \d{1,5} port \d{1,3}\b", re.MULTILINE)
_BLOCK: Final = re.compile(r"# Port (extended )?counters: Lid (\d{1,5}) port (\d{1,3})\b.{0,200}", re.ASCII)
_LINE: Final = re.compile(r"(\w{1,60}):\.*(\S{0,40})", re.ASCII)
# Name that the tool prints: attribute, meaning, bits of the counter in the output that is not extended.
_COUNTERS: Final[dict[str, tuple[str, str, int]]] = {
    "PortXmitPkts": ("packets-sent-seen", "packets sent", 32),
    "PortRcvPkts": ("packets-received-seen", "packets received", 32),
    "PortUnicastXmitPkts": ("unicast-packets-sent-seen", "packets sent to one receiver", 64),
    "PortUnicastRcvPkts": ("unicast-packets-received-seen", "packets received for one receiver", 64),
    "PortMulticastXmitPkts": ("multicast-packets-sent-seen", "packets sent to many", 64),
    "PortMulticastRcvPkts": ("multicast-packets-received-seen", "packets received for many", 64),
    "SymbolErrorCounter": ("symbol-errors-seen", "symbols that were no code word", 16),
    "LinkErrorRecoveryCounter": ("link-recoveries-seen", "times that the link recovered by itself", 8),
    "LinkDownedCounter": ("link-downed-seen", "times that the link went down", 8),
    "PortRcvErrors": ("receive-errors-seen", "packets received with an error", 16),
    "PortRcvRemotePhysicalErrors": ("remote-physical-errors-seen", "packets that were marked bad on their way", 16),
    "PortRcvSwitchRelayErrors": ("switch-relay-errors-seen", "packets that the switch could not pass on", 16),
    "PortXmitDiscards": ("transmit-discards-seen", "packets thrown away because the port was down or full", 16),
    "PortXmitConstraintErrors": ("transmit-constraint-errors-seen", "packets not sent because of a partition or a wrong version", 8),
    "PortRcvConstraintErrors": ("receive-constraint-errors-seen", "packets refused because of a partition or a wrong version", 8),
    "LocalLinkIntegrityErrors": ("link-integrity-errors-seen", "times that local errors went over their limit", 4),
    "ExcessiveBufferOverrunErrors": ("buffer-overruns-seen", "times that a buffer overran too long", 4),
    "VL15Dropped": ("management-packets-dropped-seen", "management packets dropped for want of buffers", 16),
    "PortXmitWait": ("transmit-wait-seen", "ticks with data to send and no credit", 32),
    "QP1Dropped": ("service-packets-dropped-seen", "packets of the general services that were dropped", 16),
}
_DATA: Final = {"PortXmitData": ("data-sent-seen", "data sent"), "PortRcvData": ("data-received-seen", "data received")}
_WORD_BYTES: Final = 4
"""Data is counted in words of four bytes."""
_PASSED_OVER: Final = frozenset({"PortSelect", "CounterSelect", "CounterSelect2"})


def recognises(head: bytes) -> bool:
    """The line that each port begins with."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """The counters of all ports. One that stands at its highest value has stopped, and its count is unknown (D11)."""
    say = Statements("perfquery", capture)
    subject, extended = "", False
    for number, line in whole_lines(capture, say):
        if block := _BLOCK.fullmatch(line):
            port = "all" if block[3] == "255" else block[3]
            subject, extended = f"lid:{block[2]}/port:{port}", block[1] is not None
        elif line.startswith("#"):
            subject = ""  # another kind of counters
            say.skip(number, f"not a heading of port counters: {line[:80]!r}")
        elif subject and (found := _LINE.fullmatch(line)):
            _state(say, subject, found[1], found[2], number, extended)
    return say.done()


def _state(say: Statements, subject: str, key: str, text: str, line: int, extended: bool) -> None:
    if key in _DATA:
        _count(say, subject, _DATA[key][0], text, line, bits=64 if extended else 32, scale=_WORD_BYTES, unit="B")
    elif key in _COUNTERS:
        name, _, bits = _COUNTERS[key]
        _count(say, subject, name, text, line, bits=64 if extended else bits)
    elif key not in _PASSED_OVER:
        say.skip(line, f"an unknown counter: {key[:60]!r}")


def _count(say: Statements, subject: str, name: str, text: str, line: int, *, bits: int, scale: int = 1, unit: str = "") -> None:
    if number_in(text) == 2**bits - 1:
        note = f"the tool printed {text}, the highest value that the counter can show: it has stopped"
        say.unknown(subject, name, line=line, unit=unit, note=note)
    else:
        say.number(subject, name, text, line=line, unit=unit, scale=scale)


PARSER = Parser(
    tool="perfquery",
    command="perfquery -x LID PORT",
    recognises=recognises,
    marks=(b"counters: lid",),
    parse=parse,
    yields=(
        *(Yield("lid:*/port:*", name, "B", f"{meaning}; `port:all` is all ports together") for name, meaning in _DATA.values()),
        *(Yield("lid:*/port:*", name, "", meaning) for name, meaning, _ in _COUNTERS.values()),
    ),
)
