"""Models of topograph: switches, blocks of nodes on them, and the NVLink domain of each block (M2, M3)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.hostlist import Hostlists
from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import Table, path_part, yaml_document

_TOOL: Final = "topograph-model"
_SWITCHES: Final = re.compile(rb"^switches:[ \t]*\r?$", re.MULTILINE)
_BLOCKS: Final = re.compile(rb"^blocks:[ \t]*\r?$", re.MULTILINE)
_SWITCH: Final = re.compile(rb"^- switch:|^  - switch:|^[ \t]{2,}switches:[ \t]*\r?$", re.MULTILINE)
_SIZES: Final = re.compile(r"#\s*[Ss]upported block sizes?:\s*(\d{1,6}(?:\s*,\s*\d{1,6}){0,20})\s*")
_DOMAIN: Final = "/domain"
_ROOT: Final = "topology-model:default"  # models have no name


def recognises(head: bytes) -> bool:
    """The two mappings of the outermost level, and a switch in one of them."""
    return (
        _SWITCHES.search(head) is not None
        and _SWITCH.search(head) is not None
        and (_BLOCKS.search(head) is not None or len(head) >= 60_000)
    )


def parse(capture: Capture) -> Parsed:
    """The tree, the blocks and the domains. The last line must have an end: else the last block may be cut."""
    say = Statements(_TOOL, capture)
    document = yaml_document(capture)
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
        return say.done()
    if not isinstance(document, Table):
        say.skip(1, "the document is no mapping")
        return say.done()
    _switches(say, document.table("switches"))
    lists = Hostlists(size_bytes=len(capture.data))
    domains: dict[str, tuple[list[str], int]] = {}
    cut = capture.data.rstrip(b" \t")[-1:] not in (b"\n", b"\r")
    blocks = document.tables("blocks")
    for number, block in enumerate(blocks):
        if cut and number == len(blocks) - 1:
            say.skip(block.line, "the last line has no end, and the last block may be cut off")
            continue
        _block(say, block, lists, domains)
    for domain, (nodes, line) in domains.items():
        subject = f"{_ROOT}/domain:{path_part(domain)}"
        say.known(subject, "nodes", tuple(nodes), line=line)
        say.known(subject, "node-count", len(nodes), line=line)
    if domains and not cut:
        line = document.at("blocks")
        say.known(_ROOT, "domain-count", len(domains), line=line)
        say.known(_ROOT, "node-count", len({node for nodes, _ in domains.values() for node in nodes}), line=line)
    for number, line_text in enumerate(capture.lines, 1):
        if len(line_text) < 500 and (sizes := _SIZES.fullmatch(line_text.strip())):
            say.known(_ROOT, "block-sizes", tuple(re.split(r"\s*,\s*", sizes[1])), line=number, note="from a comment")
    return say.done()


def _switches(say: Statements, switches: Table) -> None:
    parents: dict[str, str] = {}
    for name, held in switches.items():
        subject = f"{_ROOT}/switch:{path_part(name)}"
        below = held.get("switches") if isinstance(held, Table) else None
        children = [child for child in below if isinstance(child, str)] if isinstance(below, list) else []
        line = switches.at(name)
        if children:
            say.known(subject, "children", tuple(children), line=line)
        for child in children:
            where = f"{_ROOT}/switch:{path_part(child)}"
            if parents.setdefault(child, name) == name:
                say.known(where, "parent", name, line=line)
            else:
                say.conflict(where, "parent", name, line=line, note=f"it is below {parents[child]} and below {name}")
        for key, value in (held.table("labels") if isinstance(held, Table) else {}).items():
            if isinstance(value, str):
                say.word(subject, f"label:{key}", value, line=held.table("labels").at(key))


def _block(say: Statements, block: Table, lists: Hostlists, domains: dict[str, tuple[list[str], int]]) -> None:
    """The nodes on a switch, which may be in one NVLink domain."""
    name = block.text("switch")
    if not name:
        say.skip(block.line, "a block without a switch")
        return
    subject, line = f"{_ROOT}/switch:{path_part(name)}", block.at("nodes")
    ranges = block.get("nodes")
    nodes: list[str] = []
    for text in ranges if isinstance(ranges, list) else []:
        found = lists.expand(str(text).strip())
        if found.fault:
            say.unknown(subject, "nodes", line=line, note=f"the host list {str(text)[:60]!r} cannot be read: {found.fault}")
            return
        nodes += found.names
    if not nodes:
        say.unknown(subject, "nodes", line=line, note="the block lists no nodes")
        return
    say.known(subject, "nodes", tuple(nodes), line=line)
    say.known(subject, "node-count", len(nodes), line=line)
    notes = block.table("annotations")
    for key, value in notes.items():
        if key.endswith(_DOMAIN) and isinstance(value, str):
            say.word(subject, "nvlink-domain", value, line=notes.at(key))
            domains.setdefault(value.strip(), ([], notes.at(key)))[0].extend(nodes)


PARSER = Parser(
    tool=_TOOL,
    command="cat MODEL.yaml",
    recognises=recognises,
    marks=(b"switches:",),
    parse=parse,
    yields=(
        Yield("topology-model:*", "domain-count", "", "NVLink domains"),
        Yield("topology-model:*", "node-count", "", "nodes of all domains"),
        Yield("topology-model:*", "block-sizes", "", "sizes of pieces that jobs may get, from a comment"),
        Yield("topology-model:*/switch:*", "children", "", "switches below it"),
        Yield("topology-model:*/switch:*", "parent", "", "switch above it"),
        Yield("topology-model:*/switch:*", "label:*", "", "label, such as the zone"),
        Yield("topology-model:*/switch:*", "nodes", "", "nodes on it"),
        Yield("topology-model:*/switch:*", "node-count", "", "how many"),
        Yield("topology-model:*/switch:*", "nvlink-domain", "", "NVLink domain of its nodes"),
        Yield("topology-model:*/domain:*", "nodes", "", "nodes of the domain"),
        Yield("topology-model:*/domain:*", "node-count", "", "how many"),
    ),
)
