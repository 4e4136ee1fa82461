"""lldpctl -f xml: neighbours of a host's interfaces (M2, M3; case D18).

Read as a stream: of a file that is cut the whole interfaces are read. Entities are refused; the tool writes none.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from bridgehead.discovery.lldp import NEIGHBOR_YIELDS, Neighbor, state_neighbors
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements

_HEAD: Final = re.compile(rb"<lldp[\s>/]")
_MAX_DEPTH: Final = 24
_MAX_TEXT: Final = 1000


class _RefusedError(Exception):
    """What is not read."""


def recognises(head: bytes) -> bool:
    """The root element."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All neighbours of interfaces that are whole."""
    say = Statements("lldpctl-xml", capture)
    if b"<!ENTITY" in capture.data:
        say.skip(1, "the XML declares entities, which this tool never does: refused")
        return say.done()
    declared = capture.data.find(b"<?xml")
    start = declared if declared >= 0 else max(capture.data.find(b"<lldp"), 0)
    stream = _Stream(capture.data.count(b"\n", 0, start))
    last = capture.data.count(b"\n") + 1
    try:
        stream.parser.Parse(capture.data[start:], True)
    except expat.ExpatError as fault:
        line = min(stream.before + fault.lineno, last)
        say.skip(line, f"the XML ends or is broken here ({expat.ErrorString(fault.code)}); read up to this place")
    except _RefusedError as fault:
        say.skip(min(stream.line, last), f"{fault}; read up to this place")
    except (ValueError, LookupError) as fault:
        say.skip(1, f"the XML cannot be read: {fault}")
    state_neighbors(say, stream.found)
    return say.done()


class _Stream:
    """What is gathered while elements go by."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.found: list[Neighbor] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self._path: list[str] = []
        self._text: list[str] = []
        self._size = 0
        self._kind = ""
        self._now: Neighbor | None = None

    @property
    def line(self) -> int:
        """Where the stream is."""
        return self.before + self.parser.CurrentLineNumber

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._path) >= _MAX_DEPTH:
            raise _RefusedError(f"elements are nested deeper than {_MAX_DEPTH}")
        self._path.append(name)
        self._text, self._size = [], 0
        self._kind = attributes.get("type", "")
        if name == "interface":
            self._now = Neighbor(attributes.get("name", "").strip(), self.line, via=attributes.get("via", ""))
        elif name == "capability" and self._now is not None and attributes.get("enabled") in ("on", "true", "yes"):
            self._now.capabilities = (*self._now.capabilities, self._kind.lower())[:32]

    def _characters(self, text: str) -> None:
        if self._size < _MAX_TEXT:
            self._text.append(text)
            self._size += len(text)

    def _end(self, name: str) -> None:
        parent = self._path[-2] if len(self._path) > 1 else ""
        self._path.pop()
        now, text = self._now, "".join(self._text)[:_MAX_TEXT].strip()
        self._text, self._size = [], 0
        if now is None:
            return
        match parent, name:
            case "chassis", "id":
                now.chassis = (self._kind, text)
            case "chassis", "name":
                now.name = text
            case "chassis", "descr":
                now.description = text
            case "chassis", "mgmt-ip":
                now.addresses = (*now.addresses, text)[:32]
            case "port", "id":
                now.port = (self._kind, text)
            case "port", "descr":
                now.port_description = text
            case "port", "mfs":
                now.frame = text
            case _, "interface":
                if now.interface:
                    self.found.append(now)
                self._now = None


PARSER = Parser(tool="lldpctl-xml", command="lldpctl -f xml", recognises=recognises, marks=(b"<lldp",), parse=parse, yields=NEIGHBOR_YIELDS)
