"""``nvidia-smi topo -p2p``: whether GPUs can read, write or use atomics on each other's memory (M2).

Another table than ``topo -m``: its words say what works, not how two GPUs are connected. The output does not say which capability was
asked for (``r``, ``w``, ``n``, ``a``, ``p``), so the facts do not either.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

from bridgehead.discovery.gpu_matrix import PEER, find, gpu_index
from bridgehead.discovery.nvidia import FAILURE_YIELDS, head_lines, printed_note, state_failure, unfinished_line
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "nvidia-smi-topo-p2p"


def recognises(head: bytes) -> bool:
    """A heading of GPUs alone, and a row with words that only this matrix has."""
    found = find(head_lines(head))
    if found is None or found[0].titles or any(gpu_index(name) is None for name in found[0].devices):
        return False
    words = {word for row in found[1] for word in row.text.split()[:600] if word not in ("X", row.name)}
    return bool(words) and all(PEER.fullmatch(word) for word in words)


def parse(capture: Capture) -> Parsed:
    """State of each pair, for the GPU that comes first; both rows must agree."""
    say = Statements(_TOOL, capture)
    lines, cut = capture.lines, unfinished_line(capture)
    found = find(lines)
    for number, text in enumerate(lines[: found[0].line if found else len(lines)], 1):
        state_failure(say, text, line=number)
    if found is None or found[0].line == cut:
        say.skip(1, "no heading with the names of GPUs, or it is cut")
        return say.done()
    heading, rows = found
    if len(rows) < len(heading.devices) and not any(text.strip() for text in lines[rows[-1].line if rows else len(lines) :]):
        cut = cut or (rows[-1].line if rows else 0)
    states: dict[tuple[str, str], str] = {}
    places = {row.name: row.line for row in rows}
    for row in rows:
        words = row.text.split()
        words = words[1:] if words[:1] == [row.name] else words
        words = words[:-1] if row.line == cut else words
        own = heading.devices.index(row.name)
        if own < len(words) and words[own] == "X" and (row.line == cut or len(words) == len(heading.devices)):
            states.update(((row.name, other), word) for other, word in zip(heading.devices, words, strict=False))
        if len(words) != len(heading.devices) or (own < len(words) and words[own] != "X"):
            say.skip(row.line, f"row {row.name} has {len(words)} of {len(heading.devices)} cells, or they are displaced")
    for one, other in combinations(heading.devices, 2):
        subject, attribute = f"{say.node}/gpu:{gpu_index(one)}", f"peer-access-to:gpu:{gpu_index(other)}"
        here, there = states.get((one, other)), states.get((other, one))
        word, line = (here, places.get(one, 1)) if here is not None else (there, places.get(other, 1))
        if word is None:
            continue  # the row is named in what was skipped
        if here is not None and there is not None and here != there:
            say.conflict(subject, attribute, here, line=line, note=f"row {one} says {here}, row {other} says {there}")
        elif PEER.fullmatch(word) is None or word == "U":
            say.unknown(subject, attribute, line=line, note=printed_note(word))
        else:
            note = "" if here is not None else f"from row {other}: row {one} does not say it"
            say.known(subject, attribute, word, line=line, note=note)
    if missing := [name for name in heading.devices if name not in places]:
        say.skip(len(lines), f"the output is incomplete: rows {', '.join(missing[:40])} are missing")
    return say.done()


PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi topo -p2p r",
    recognises=recognises,
    marks=(b"gpu",),
    parse=parse,
    yields=(
        Yield("node:*/gpu:*", "peer-access-to:gpu:*", "", "OK, or why not: CNS chipset, GNS GPU, TNS topology, NS not supported"),
        *FAILURE_YIELDS,
    ),
)
