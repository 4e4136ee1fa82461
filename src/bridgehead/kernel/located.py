"""Located reading: YAML text as a tree in which every value knows its line and column. No files here: text comes with its name.

Scalars stay text until a type is known that they are to have, so that a site called ``no`` or a rack ``012`` is what its author wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec
import yaml

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

MAX_DEPTH = 64
MAX_NODES = 500_000
_STANDARD = "tag:yaml.org,2002:"
_TAGS = frozenset(_STANDARD + name for name in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value"))


class Mark(msgspec.Struct, frozen=True, order=True, gc=False):
    """A place in a file, counted from 1 as editors do."""

    line: int
    column: int


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """One word. ``plain`` is True when it is written without quotes."""

    text: str
    plain: bool
    mark: Mark


class Sequence(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[Scalar | Sequence | Mapping, ...]
    mark: Mark


class Mapping(msgspec.Struct, frozen=True):
    """Keys with values, in the order of the file; no key twice."""

    entries: tuple[tuple[Scalar, Scalar | Sequence | Mapping], ...]
    mark: Mark

    def get(self, key: str) -> Scalar | Sequence | Mapping | None:
        """The value of ``key``, None when absent."""
        return next((value for name, value in self.entries if name.text == key), None)


Node = Scalar | Sequence | Mapping
_TOP = Mark(1, 1)
Path = tuple[str, ...]


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong in a file.

    Attributes:
        path: the field, such as ``sites.site-a.racks.r1.weight`` or ``steps[go].deadline``; empty for the file as a whole.
        found: what is there, as a phrase ("found 'soon'", "unknown key 'regon'").
        expected: what should be there, as a phrase.
    """

    file: str
    line: int
    column: int
    path: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: "
        return place + (f"{self.path}: " if self.path else "") + f"{self.found}; {self.expected}"


class BadFile(BridgeheadError):
    """A file with faults, all of them, in the order of the file; or several files.

    Args:
        what: the kind of document ("estate", "runbook").
        file: its name; of several files the count.
        faults: at least one.
    """

    def __init__(self, what: str, *, file: str, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(dict.fromkeys(faults), key=lambda fault: (fault.file, fault.line, fault.column, fault.path)))
        count = f"{len(self.faults)} faults" if len(self.faults) > 1 else "1 fault"
        super().__init__(
            ErrorCode.BAD_INPUT,
            tried=f"read the {what}",
            subject=file,
            happened="\n  ".join([f"it has {count}:", *map(str, self.faults)]),
            remedy="Correct the file and run the command again; nothing was changed.",
        )

    def __str__(self) -> str:
        return f"[{self.code.value}] could not {self.tried}: {self.subject}: {self.happened}\n{self.remedy}"


def path_text(path: Path) -> str:
    """A path for people: segments joined by dots, list items in brackets."""
    text = ""
    for segment in path:
        text += segment if segment.startswith("[") or not text else f".{segment}"
    return text


def node_of(data: Any) -> Node:
    """The tree of plain values, as if a file held them; everything stands at line 1."""
    match data:
        case str():  # as most are
            return Scalar(str(data), False, _TOP)
        case dict():
            return Mapping(tuple([(Scalar(str(key), True, _TOP), node_of(value)) for key, value in data.items()]), _TOP)
        case list() | tuple():
            return Sequence(tuple(map(node_of, data)), _TOP)
        case bool():
            return Scalar("true" if data else "false", True, _TOP)
        case None:
            return Scalar("null", True, _TOP)
        case _:
            return Scalar(str(data), True, _TOP)


def compose(text: str, *, file: str, what: str) -> Node | None:
    """The tree of ``text``, None when it holds nothing but comments.

    Raises BadFile: not YAML, more than one document, a key twice, a key that is no word, tags, and structures that are too deep or expand
    to too much (aliases).
    """
    reader = _Reader(file, what, most_nodes=max(MAX_NODES, len(text)))
    try:
        tree = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark(1, 1)
        reader.stop(place, f"this is no YAML: {_syntax(error, text, place)}", "look here and at the line before")
    except yaml.YAMLError as error:
        place = _position(text, getattr(error, "position", 0))
        reader.stop(place, f"this is no YAML: {getattr(error, 'reason', error)}", "remove the character")
    node = None if tree is None else reader.node(tree, (), 0)
    if reader.faults:
        raise BadFile(what, file=file, faults=reader.faults)
    return node


class _Reader:
    def __init__(self, file: str, what: str, *, most_nodes: int) -> None:
        self.faults: list[Fault] = []
        self._file = file
        self._what = what
        self._nodes = 0
        self._most_nodes = most_nodes  # a document without aliases never has more than signs

    def stop(self, mark: Mark, found: str, expected: str) -> NoReturn:
        """Give up: what follows cannot be read."""
        raise BadFile(self._what, file=self._file, faults=[*self.faults, Fault(self._file, mark.line, mark.column, "", found, expected)])

    def node(self, tree: Any, path: Path, depth: int) -> Node:
        """Our node for one of PyYAML's."""
        mark = Mark(tree.start_mark.line + 1, tree.start_mark.column + 1)
        self._nodes += 1
        if depth > MAX_DEPTH:
            self.stop(mark, "an alias that holds itself, or more than 64 levels", "expected a flatter structure")
        if self._nodes > self._most_nodes:
            self.stop(mark, f"aliases that expand to more than {self._most_nodes} values", "expected a smaller document")
        if tree.tag not in _TAGS:
            self._fault(mark, path, f"found the tag '{tree.tag.replace(_STANDARD, '!!')}'", "tags are not used here: remove it")
        match tree:
            case yaml.ScalarNode():
                return Scalar(tree.value, tree.style == "", mark)
            case yaml.SequenceNode():
                return Sequence(tuple(self.node(item, (*path, f"[{index}]"), depth + 1) for index, item in enumerate(tree.value)), mark)
            case _:
                return self._mapping(tree, path, mark, depth)

    def _mapping(self, tree: Any, path: Path, mark: Mark, depth: int) -> Mapping:
        entries: dict[str, tuple[Scalar, Node]] = {}
        merged: dict[str, tuple[Scalar, Node]] = {}
        for key, value in tree.value:
            if not isinstance(key, yaml.ScalarNode):
                place = Mark(key.start_mark.line + 1, key.start_mark.column + 1)
                self._fault(
                    place,
                    path,
                    "found a key that is a list or a mapping",
                    "expected a word; a text that begins with a brace or bracket needs quotes",
                )
                continue
            name = self.node(key, path, depth + 1)
            assert isinstance(name, Scalar)
            if key.tag == _STANDARD + "merge":
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    for entry in self._merged(source, path, depth):
                        merged.setdefault(entry[0].text, entry)
            elif name.text in entries:
                first = entries[name.text][0].mark.line
                self._fault(name.mark, (*path, name.text), f"the key '{name.text}' is here twice", f"the first one is in line {first}")
            else:
                entries[name.text] = (name, self.node(value, (*path, name.text), depth + 1))
        return Mapping((*entries.values(), *(entry for text, entry in merged.items() if text not in entries)), mark)

    def _merged(self, source: Any, path: Path, depth: int) -> tuple[tuple[Scalar, Node], ...]:
        """The entries that ``<<`` brings in; those of the mapping itself win."""
        node = self.node(source, path, depth + 1)
        if isinstance(node, Mapping):
            return node.entries
        self._fault(node.mark, (*path, "<<"), "'<<' merges something that is no mapping", "expected an alias of a mapping")
        return ()

    def _fault(self, mark: Mark, path: Path, found: str, expected: str) -> None:
        self.faults.append(Fault(self._file, mark.line, mark.column, path_text(path), found, expected))


def _syntax(error: yaml.MarkedYAMLError, text: str, place: Mark) -> str:
    """The parser's words, and the usual cause where it is known."""
    problem = " ".join(part for part in (error.context, error.problem) if part)
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "tab" in problem or line[: place.column].endswith("\t") or line.lstrip(" ").startswith("\t"):
        return f"{problem} (indent with spaces, not with tabs)"
    if "mapping values are not allowed" in problem:
        return f"{problem} (a text that holds ': ' needs quotes)"
    return problem


def _position(text: str, position: int) -> Mark:
    before = text[:position]
    return Mark(before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)
