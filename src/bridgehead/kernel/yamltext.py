"""YAML for people: block style, keys in their order, no aliases, short lists of words in one line.

What PyYAML writes, byte for byte, in a tenth of its time: the files of large estates have a million scalars, and most of them many times.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import yaml

_FLOW_WIDTH: Final = 80
_WIDTH: Final = 120
_INDENT: Final = 2
_SAFE_WIDTH: Final = 115
"""Lines up to here are not folded."""


class _Dumper(yaml.SafeDumper):
    """Block style, lists indented under their key; short lists of words in one line."""

    def short_list(self, data: list[Any]) -> yaml.SequenceNode:
        """In brackets when it is short."""
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=_is_short(data))

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Never write a list at the indent of its key."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, _data: Any) -> bool:
        """Repeat values instead of naming them."""
        return True


_Dumper.add_representer(list, _Dumper.short_list)


class _Uncommon(Exception):
    """Something whose form depends on more than itself: PyYAML decides."""


def yaml_text(data: Any) -> str:
    """The document."""
    try:
        lines: list[str] = []
        if not isinstance(data, dict) or not data:
            raise _Uncommon
        _mapping(data, 0, lines)
        return "\n".join([*lines, ""])
    except _Uncommon:
        return _by_pyyaml(data)


def _by_pyyaml(data: Any) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=False)


def _is_short(data: list[Any]) -> bool:
    return all(not isinstance(item, list | dict) for item in data) and sum(len(str(item)) + 2 for item in data) <= _FLOW_WIDTH


def _mapping(data: dict[Any, Any], indent: int, lines: list[str]) -> None:
    """``data`` is not empty."""
    for key, value in data.items():
        if not isinstance(key, str):
            raise _Uncommon
        head = f"{' ' * indent}{_scalar(key, True)}:"
        if isinstance(value, dict):
            lines.append(head if value else f"{head} {{}}")
            _mapping(value, indent + _INDENT, lines)
        elif isinstance(value, list):
            _list(value, head, indent + _INDENT, lines)
        else:
            lines.append(f"{head} {_placed(value, len(head) + 1)}")


def _list(data: list[Any], head: str, indent: int, lines: list[str]) -> None:
    """A list below the key that ``head`` ends with."""
    if _is_short(data):
        line = f"{head} [{', '.join(_in_brackets(item, type(item).__name__) for item in data)}]"
        if len(line) > _SAFE_WIDTH:
            raise _Uncommon
        lines.append(line)
        return
    lines.append(head)
    for item in data:
        if isinstance(item, dict) and item:
            first = len(lines)
            _mapping(item, indent + _INDENT, lines)
            lines[first] = f"{' ' * indent}- {lines[first][indent + _INDENT :]}"
        elif isinstance(item, dict | list):
            raise _Uncommon
        else:
            lines.append(f"{' ' * indent}- {_placed(item, indent + _INDENT)}")


def _placed(value: Any, column: int) -> str:
    text = _scalar(value, False, type(value).__name__)
    if column + len(text) > _SAFE_WIDTH and (" " in text or text[0] in "\"'"):
        raise _Uncommon  # it may be folded
    return text


@lru_cache(maxsize=1 << 16)
def _scalar(value: Any, key: bool, _kind: str = "str") -> str:
    """A scalar in block style, as a key or a value. The type is part of the cache's key: 1 equals True."""
    if isinstance(value, str) and len(value) > 100:
        raise _Uncommon  # keys of that length have another form, and quoted texts are folded
    text = _by_pyyaml({value: 0} if key else {"k": value})
    one = text.removesuffix(": 0\n") if key else text.removeprefix("k: ").removesuffix("\n")
    if "\n" in one or (key and one.startswith("? ")):
        raise _Uncommon
    return one


@lru_cache(maxsize=1 << 16)
def _in_brackets(value: Any, _kind: str) -> str:
    return _by_pyyaml([value]).removeprefix("[").removesuffix("]\n")
