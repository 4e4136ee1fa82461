"""What if: one value of an estate or policy, or the same value of many things, is another one (M5.3). The file stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, Final

import yaml

from bridgehead.app.declared_merge import is_pattern
from bridgehead.app.wiring import driver_options
from bridgehead.kernel.document import dump
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.located import BadFile
from bridgehead.kernel.phrase import nearest
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data, read_estate
from bridgehead.model.policy import Policy, policy_data, read_policy

POLICY = "policy."
"""How the path of a policy's value begins."""
_SHOWN: Final = 5


def changed(estate: Estate, policy: Policy | None, assumption: str) -> tuple[Estate, Policy | None]:
    """Estate and policy with one value changed.

    Args:
        assumption: ``PATH=VALUE``, with the path as findings name their inputs, and the value as the file would write it; an empty value
            takes it away, so that it is unknown: ``sites.b.circuits.a1.continuous=100 %``, ``policy.margin=10 %``. A name of the path may
            have ``*``, ``?`` or ``[``: the value is that of all things that it matches, ``sites.b.nodes.gpu*.power=9 kW``.

    Raises BAD_INPUT: there is no such path, a pattern matches nothing, or the value does not fit there.
    """
    path, equals, text = assumption.partition("=")
    path = path.strip()
    if not equals or not path:
        raise _bad(assumption, "it is not PATH=VALUE", "Write it like 'sites.site-b.circuits.a1.continuous=100 %'.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _bad(assumption, f"the value cannot be read: {error}", "Write the value as the file would.") from error
    if path.startswith(POLICY):
        if policy is None:
            raise _bad(assumption, "there is no policy", "Give --policy.")
        data = policy_data(policy)
        _put(data, path.removeprefix(POLICY), value, assumption)
        with _faults_of(assumption):
            return estate, read_policy(dump(data), file=assumption, sites={site.id for site in estate.sites})
    data = estate_data(estate, drivers=driver_options())
    _put(data, path, value, assumption)
    with _faults_of(assumption):
        return read_estate(dump(data), file=assumption, drivers=driver_options()), policy


@contextmanager
def _faults_of(assumption: str) -> Iterator[None]:
    """Faults without lines: there is no file in which they stand."""
    try:
        yield
    except BadFile as error:
        alike: dict[str, list[str]] = {}
        for fault in error.faults:
            alike.setdefault(f"{fault.found}; {fault.expected}", []).append(fault.path)
        said = [f"{path}{f' and {len(more)} more' if more else ''}: {text}" for text, (path, *more) in alike.items()]
        raise _bad(assumption, "; ".join(said), "Correct the assumption; the files are as they were.") from error


def _put(data: dict[str, Any], path: str, value: Any, assumption: str) -> None:
    """Change it everywhere that the path leads to; with patterns that may be many places, and must be one at least."""
    places = list(_places(data, path))
    if not places:
        raise _lost(data, path, assumption)
    for place, key in places:
        if value is None:
            place.pop(key, None)
        else:
            place[key] = value


def _places(place: dict[str, Any], path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Mapping and key of each value. Ids may hold dots, so at each mapping the longest key counts that the path begins with; and of a
    pattern the shortest part that matches something."""
    inside = [key for key, below in place.items() if isinstance(below, Mapping) and path.startswith(f"{key}.")]
    if inside:
        key = max(inside, key=len)
        yield from _places(place[key], path[len(key) + 1 :])
        return
    for head, rest in _heads(path):
        if found := [key for key, below in place.items() if isinstance(below, Mapping) and fnmatchcase(key, head)]:
            for key in found:
                yield from _places(place[key], rest)
            return
    if is_pattern(path):
        yield from ((place, key) for key in list(place) if fnmatchcase(key, path))
    elif "." not in path or path in place:
        yield place, path


def _heads(path: str) -> Iterator[tuple[str, str]]:
    """Each beginning of a path that ends at a dot and holds a pattern, with the rest."""
    parts = path.split(".")
    for count in range(1, len(parts)):
        head = ".".join(parts[:count])
        if is_pattern(head):
            yield head, ".".join(parts[count:])


def _lost(place: Mapping[str, Any], path: str, assumption: str) -> BridgeheadError:
    """Where a path that leads nowhere leaves what there is."""
    done: list[str] = []
    while True:
        inside = [key for key, below in place.items() if isinstance(below, Mapping) and path.startswith(f"{key}.")]
        if not inside:
            break
        key = max(inside, key=len)
        done.append(key)
        place, path = place[key], path[len(key) + 1 :]
    where = ".".join(done) or "the file"
    known = [str(key) for key in place]
    part = path.partition(".")[0]
    if not is_pattern(path):
        return _bad(assumption, f"there is no '{part}' in {where}", nearest(part, known) or "Check the path.")
    some = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
    if is_pattern(part) and not any(fnmatchcase(key, part) for key in known):
        happened = f"'{part}' matches nothing in {where}" + (f", which has {some}" if known else ", which is empty")
        return _bad(assumption, happened, "Write a pattern of names that are there, such as 'gpu*' for all that begin so.")
    return _bad(assumption, f"nothing that '{path}' matches in {where} has such a value", "Check the part of the path behind the pattern.")


def _bad(assumption: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="assume", subject=assumption, happened=happened, remedy=remedy)
