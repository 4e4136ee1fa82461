"""Slurm's topology, ``topology.conf`` and ``topology.yaml``: trees of switches and blocks of nodes (M2, M3).

Names of switches and blocks repeat between topologies, so that each is a part of its topology; that of ``topology.conf`` has no name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Yield
from bridgehead.discovery.slurm_facts import SlurmFacts
from bridgehead.discovery.tables import Table, path_part, yaml_document

_TOOL: Final = "slurm-topology"
_CONF: Final = re.compile(
    rb"^[ \t]*(?:SwitchName=\S+[ \t]+(?:Nodes|Switches|LinkSpeed)=|BlockName=\S+[ \t]+Nodes=|BlockSizes=\d)", re.MULTILINE | re.IGNORECASE
)
_YAML: Final = re.compile(rb"^-[ \t]+topology:[^\n]*$", re.MULTILINE)
_PART: Final = re.compile(rb"^[ \t]+(?:tree|block|flat):", re.MULTILINE)
_FIELD: Final = re.compile(r"(?<!\S)([A-Za-z]{1,40})=(\S+)")
_NAME: Final = re.compile(r"\s*([\w.-]{1,100})=([\w.:/-]{1,100})\s*", re.ASCII)
_CUT: Final = "the file is cut off"
_NAMELESS: Final = "slurm-topology:default"


def recognises(head: bytes) -> bool:
    """Lines of switches or blocks, or a list of topologies with a tree, blocks or nothing (flat)."""
    return _CONF.search(head) is not None or (_YAML.search(head) is not None and _PART.search(head) is not None)


def parse(capture: Capture) -> Parsed:
    """All topologies of the file."""
    say = SlurmFacts(_TOOL, capture)
    if _YAML.search(capture.data[: 64 << 10]) is not None:
        _parse_yaml(say, capture)
    else:
        _parse_conf(say, capture)
    return say.done()


class _Tree:
    """Switches of one topology, until all are known: then each gets its parent, and the rest of the tree is told."""

    def __init__(self, say: SlurmFacts, topology: str) -> None:
        self._say, self._topology = say, topology
        self._lines: dict[str, int] = {}
        self._children: dict[str, tuple[str, ...]] = {}

    def switch(self, name: str, nodes: Any, children: Any, *, line: int) -> None:
        """One switch, of which ``nodes`` hang on it and ``children`` are below it."""
        if name in self._lines:
            self._say.skip(line, f"switch {name!r} is defined again; it stands in line {self._lines[name]}")
            return
        self._lines[name] = line
        subject = f"{self._topology}/switch:{path_part(name)}"
        if nodes:
            found = self._say.hosts(subject, "nodes", nodes, line=line)
            if found:
                self._say.known(subject, "node-count", len(found), line=line)
        if children:
            self._children[name] = self._say.hosts(subject, "children", children, line=line)
        if not nodes and not children:
            self._say.skip(line, f"switch {name!r} has neither nodes nor switches")

    def close(self, names: Mapping[str, str], *, cut: bool) -> None:
        """Parents and the counts, when every switch has been read; no counts where the end is cut off."""
        _state_names(self._say, f"{self._topology}/switch", self._lines, names)
        above: dict[str, str] = {}
        for name, children in self._children.items():
            for child in children:
                subject = f"{self._topology}/switch:{path_part(child)}"
                line = self._lines.get(child, self._lines[name])
                if child not in self._lines:
                    self._say.skip(self._lines[name], f"switch {child!r} below {name!r} is not defined")
                elif child in above:
                    note = f"it is below {above[child]} and below {name}"
                    self._say.conflict(subject, "parent", name, line=line, note=note)
                else:
                    self._say.known(subject, "parent", name, line=line)
                above.setdefault(child, name)
        if self._lines:
            first = min(self._lines.values())
            self._say.known(self._topology, "kind", "tree", line=first)
            if cut:
                self._say.unknown(self._topology, "switch-count", line=first, note=_CUT)
                return
            self._say.known(self._topology, "switch-count", len(self._lines), line=first)
            roots = tuple(name for name in self._lines if name not in above)
            self._say.known(self._topology, "roots", roots, line=first)


class _Blocks:
    """Blocks of one topology."""

    def __init__(self, say: SlurmFacts, topology: str) -> None:
        self._say, self._topology = say, topology
        self._lines: dict[str, int] = {}

    def block(self, name: str, nodes: Any, *, line: int) -> None:
        """One block."""
        if name in self._lines:
            self._say.skip(line, f"block {name!r} is defined again; it stands in line {self._lines[name]}")
            return
        self._lines[name] = line
        subject = f"{self._topology}/block:{path_part(name)}"
        found = self._say.hosts(subject, "nodes", nodes, line=line)
        if found:
            self._say.known(subject, "node-count", len(found), line=line)

    def sizes(self, words: list[str], *, line: int) -> None:
        """How many nodes a job may get in one piece."""
        if words and all(re.fullmatch(r"\d{1,7}", word, re.ASCII) for word in words):
            self._say.known(self._topology, "block-sizes", tuple(words), line=line)
        else:
            self._say.unknown(self._topology, "block-sizes", line=line, note=f"the file says {','.join(words)[:80]!r}")

    def close(self, names: Mapping[str, str], *, cut: bool) -> None:
        """The count; none where the end is cut off."""
        _state_names(self._say, f"{self._topology}/block", self._lines, names)
        if self._lines:
            first = min(self._lines.values())
            self._say.known(self._topology, "kind", "block", line=first)
            if cut:
                self._say.unknown(self._topology, "block-count", line=first, note=_CUT)
            else:
                self._say.known(self._topology, "block-count", len(self._lines), line=first)


def _state_names(say: SlurmFacts, subject: str, lines: Mapping[str, int], names: Mapping[str, str]) -> None:
    """Names that comments in front of a line give to what stands in it: ``# rack11=nvl-1-1``."""
    for name in [one for one in lines if one in names]:
        say.known(f"{subject}:{path_part(name)}", "name", names[name], line=lines[name], note="from a comment")


def _parse_conf(say: SlurmFacts, capture: Capture) -> None:
    tree, blocks = _Tree(say, _NAMELESS), _Blocks(say, _NAMELESS)
    lines = capture.lines
    pending, names, cut = "", dict[str, str](), False
    for number, line in enumerate(lines, 1):
        text, _, comment = line.partition("#")
        text = pending + text.strip()
        if called := _NAME.fullmatch(comment):
            names[called[1]] = called[2]
        pending = ""
        if not text:
            continue
        if text.endswith("\\"):
            pending = text[:-1] + " "
            continue
        if number == len(lines):
            say.skip(number, f"the last line has no end and may be cut off: {text[:80]!r}")
            cut = True
            continue
        fields = {found[1].lower(): found[2].strip('"') for found in _FIELD.finditer(text[:1_000_000])}
        if "switchname" in fields:
            tree.switch(fields["switchname"], fields.get("nodes", ""), fields.get("switches", ""), line=number)
            if speed := fields.get("linkspeed"):
                say.amount(f"{_NAMELESS}/switch:{path_part(fields['switchname'])}", "link-speed", speed, line=number)
        elif "blockname" in fields:
            blocks.block(fields["blockname"], fields.get("nodes", ""), line=number)
        elif "blocksizes" in fields:
            blocks.sizes(fields["blocksizes"].split(","), line=number)
        else:
            say.skip(number, f"no line of a topology: {text[:80]!r}")
    tree.close(names, cut=cut)
    blocks.close(names, cut=cut)


def _parse_yaml(say: SlurmFacts, capture: Capture) -> None:
    document = yaml_document(capture)
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
        return
    for one in document if isinstance(document, list) else []:
        if not isinstance(one, Table) or not one.text("topology"):
            say.skip(one.line if isinstance(one, Table) else 1, "an entry without a topology")
            continue
        subject = f"slurm-topology:{path_part(one.text('topology'))}"
        if isinstance(one.get("cluster_default"), bool):
            say.known(subject, "default", one["cluster_default"], line=one.at("cluster_default"))
        if "flat" in one:
            say.known(subject, "kind", "flat", line=one.at("flat"))
        tree, blocks = _Tree(say, subject), _Blocks(say, subject)
        for switch in one.table("tree").tables("switches"):
            tree.switch(switch.text("switch") or "?", switch.text("nodes"), switch.text("children"), line=switch.at("switch"))
        held = one.table("block")
        for block in held.tables("blocks"):
            blocks.block(block.text("block") or "?", block.text("nodes"), line=block.at("block"))
        sizes = held.get("block_sizes")
        if isinstance(sizes, list):
            blocks.sizes([str(size) for size in sizes], line=held.at("block_sizes"))
        tree.close({}, cut=False)
        blocks.close({}, cut=False)


PARSER = Parser(
    tool=_TOOL,
    command="cat topology.conf; cat topology.yaml",
    recognises=recognises,
    marks=(
        b"switchname=",
        b"blockname=",
        b"blocksizes=",
        b"topology:",
    ),
    parse=parse,
    yields=(
        Yield("slurm-topology:*", "kind", "", "tree, block or flat"),
        Yield("slurm-topology:*", "default", "", "whether it is the cluster's default"),
        Yield("slurm-topology:*", "switch-count", "", "switches of the tree"),
        Yield("slurm-topology:*", "roots", "", "switches that are below no other"),
        Yield("slurm-topology:*", "block-count", "", "blocks"),
        Yield("slurm-topology:*", "block-sizes", "", "sizes of pieces, in nodes, that jobs may get"),
        Yield("slurm-topology:*/switch:*", "name", "", "its real name, from a comment"),
        Yield("slurm-topology:*/block:*", "name", "", "its real name, from a comment"),
        Yield("slurm-topology:*/switch:*", "nodes", "", "nodes on the switch"),
        Yield("slurm-topology:*/switch:*", "node-count", "", "how many"),
        Yield("slurm-topology:*/switch:*", "children", "", "switches below it"),
        Yield("slurm-topology:*/switch:*", "parent", "", "switch above it"),
        Yield("slurm-topology:*/switch:*", "link-speed", "", "a number without unit, as configured"),
        Yield("slurm-topology:*/block:*", "nodes", "", "nodes of the block"),
        Yield("slurm-topology:*/block:*", "node-count", "", "how many"),
    ),
)
