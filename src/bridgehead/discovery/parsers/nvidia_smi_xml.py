"""``nvidia-smi -q -x``: all that the driver says of each GPU, as XML of any generation, v9 to v13 (M2).

Read as a stream, so that a cut file gives what stands before the cut, and each fact has its line. Entities are refused: the tool
writes none, and they are a way to make a small file large. The DTD that it names is not fetched.
"""

from __future__ import annotations

from typing import Final
from xml.parsers import expat

from bridgehead.discovery.gpu_description import Described, Description, state_description
from bridgehead.discovery.nvidia import FAILURE_YIELDS, state_failure
from bridgehead.discovery.nvidia_readings import READING_YIELDS
from bridgehead.discovery.nvidia_xml_lines import description_of
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements

_TOOL: Final = "nvidia-smi-xml"
_ROOT: Final = "nvidia_smi_log"
_MAX_DEPTH: Final = 24
_MAX_TEXT: Final = 400
# Long lists below a GPU that no fact is made of.
_CLOCKS: Final = b"<supported_clocks>"
_CLOCKS_END: Final = b"</supported_clocks>"
_PASSED_OVER: Final = frozenset({"supported_clocks", "processes", "accounted_processes"})


class _RefusedError(Exception):
    """What a stream holds that is not read."""


def recognises(head: bytes) -> bool:
    """The root element."""
    return b"<nvidia_smi_log" in head


def parse(capture: Capture) -> Parsed:
    """Facts of the node and of each GPU, up to the place where the XML ends or is broken."""
    say = Statements(_TOOL, capture)
    start = capture.data.find(b"<?xml")
    start = start if start >= 0 else max(capture.data.find(b"<nvidia_smi_log"), 0)
    before = capture.data[:start]
    for number, text in enumerate(before.decode("utf-8", "replace").split("\n"), 1):
        state_failure(say, text, line=number)
    stream = _Stream(before.count(b"\n"))
    if b"<!ENTITY" in capture.data:
        say.skip(1, "the XML declares entities, which this tool never does: refused")
        return say.done()
    plain = description_of(_without_clocks(capture.data[start:]), before=stream.before, passed_over=_PASSED_OVER | {"mig_devices"})
    if plain is not None:
        state_description(say, plain)
        return say.done()
    try:
        stream.read(_without_clocks(capture.data[start:]))
    except expat.ExpatError as fault:
        say.skip(stream.before + fault.lineno, f"the XML ends or is broken here ({expat.ErrorString(fault.code)}); read up to this place")
    except _RefusedError as fault:
        say.skip(stream.line, f"{fault}; read up to this place")
    state_description(say, stream.found)
    return say.done()


def _without_clocks(data: bytes) -> bytes:
    """The same lines without the lists of clocks, which are most of the text and of which no fact is made."""
    parts: list[bytes] = []
    done = 0
    while (begin := data.find(_CLOCKS, done)) >= 0 and (end := data.find(_CLOCKS_END, begin)) >= 0:
        parts += [data[done:begin], b"\n" * data.count(b"\n", begin, end)]
        done = end + len(_CLOCKS_END)
    return b"".join([*parts, data[done:]])


class _Stream:
    """What is gathered while elements go by."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.found = Description()
        self._path: list[str] = []
        self._text = ""
        self._leaf = False
        self._parser = expat.ParserCreate("utf-8")  # whatever the file declares: the tool writes no other
        self._parser.buffer_text = True
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._take
        self._parser.EntityDeclHandler = self._refuse

    @property
    def line(self) -> int:
        """Where the stream is, counted from 1."""
        return self.before + self._parser.CurrentLineNumber

    def read(self, data: bytes) -> None:
        """Read all. Raises ExpatError at the first place that is no XML, _RefusedError for what is refused."""
        self._parser.Parse(data, True)

    def _refuse(self, *_: object) -> None:
        raise _RefusedError("the XML declares entities")

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._path) >= _MAX_DEPTH:
            raise _RefusedError(f"the XML is nested more than {_MAX_DEPTH} deep")
        if not self._path and name != _ROOT:
            raise _RefusedError(f"the root is <{name[:40]}>, not <{_ROOT}>")
        self._path.append(name)
        self._text, self._leaf = "", True
        if self._path[1:] == ["gpu"]:
            self.found.gpus.append(Described(attributes.get("id", ""), self.line))
        elif self._path[1:] == ["gpu", "mig_devices", "mig_device"]:
            self.found.gpus[-1].instances.append({})

    def _take(self, text: str) -> None:
        if len(self._text) < _MAX_TEXT:
            self._text += text[:_MAX_TEXT]

    def _end(self, name: str) -> None:
        if self._leaf:
            self._keep(self._text.strip())
        self._leaf = False
        self._path.pop()

    def _keep(self, text: str) -> None:
        path = self._path
        leaf = (text, self.before + self._parser.CurrentLineNumber)
        if len(path) == 2:
            self.found.node.setdefault(path[1], leaf)
        elif len(path) < 3 or path[1] != "gpu" or path[2] in _PASSED_OVER:
            return
        elif path[2] != "mig_devices":
            self.found.gpus[-1].leaves.setdefault("/".join(path[2:]).lower(), leaf)
        elif len(path) > 4 and path[3] == "mig_device":  # else it is the word "None"
            self.found.gpus[-1].instances[-1].setdefault("/".join(path[4:]), leaf)


PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi -q -x",
    recognises=recognises,
    marks=(b"<nvidia_smi_log",),
    parse=parse,
    yields=(*READING_YIELDS, *(item for item in FAILURE_YIELDS if item.attribute.endswith("state"))),
)
