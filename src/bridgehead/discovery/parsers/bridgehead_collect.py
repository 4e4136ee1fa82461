"""The collector's own record: which tools ran on a host, and which did not and why (M5.1)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.captures import RECORD_HEAD, read_record
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = re.compile(r"tool ([a-z0-9][a-z0-9.-]{0,60}) (ran|missing|needs-root|failed|timed-out)(?: (.{0,400}))?", re.ASCII)


def recognises(head: bytes) -> bool:
    """Its first line."""
    return head.startswith(RECORD_HEAD.encode())


def parse(capture: Capture) -> Parsed:
    """What became of each tool."""
    say = Statements("bridgehead-collect", capture)
    owner = read_record(capture.data)
    if owner is None:
        say.skip(1, "the record names no host")
        return say.done()
    node = f"node:{owner.host}"
    for number, line in enumerate(capture.lines, 1):
        if number == 1 or not line.strip() or line.startswith(("host ", "at ")):
            continue
        tool = _TOOL.fullmatch(line.rstrip())
        if tool is None:
            say.skip(number, f"not a line of a record: {line[:80]!r}")
            continue
        say.known(node, f"collected:{tool[1]}", tool[2], line=number)
        if tool[3]:
            say.known(node, f"collected-note:{tool[1]}", tool[3].strip(), line=number)
    return say.done()


PARSER = Parser(
    tool="bridgehead-collect",
    command="bridgehead collect",
    recognises=recognises,
    marks=(b"# bridgehead collect ",),
    parse=parse,
    yields=(
        Yield("node:*", "collected:*", "", "of each tool: ran, missing, needs-root, failed or timed-out"),
        Yield("node:*", "collected-note:*", "", "what it said when it did not run well"),
    ),
)
