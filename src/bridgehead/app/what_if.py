"""What if: one value of an estate or policy is another one (M5.3). The file stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml

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


def changed(estate: Estate, policy: Policy | None, assumption: str) -> tuple[Estate, Policy | None]:
    """Estate and policy with one value changed.

    Args:
        assumption: ``PATH=VALUE``, with the path as findings name their inputs, and the value as the file would write it; an empty value
            takes it away, so that it is unknown: ``sites.b.circuits.a1.continuous=100 %``, ``policy.margin=10 %``.

    Raises BAD_INPUT: there is no such path, or the value does not fit there.
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
        said = "; ".join(f"{fault.path}: {fault.found}; {fault.expected}" for fault in error.faults)
        raise _bad(assumption, said, "Correct the assumption; the files are as they were.") from error


def _put(data: dict[str, Any], path: str, value: Any, assumption: str) -> None:
    """Walk down. Ids may hold dots, so at each mapping the longest key counts that the path begins with."""
    place, rest = data, path
    while True:
        inside = [key for key, below in place.items() if isinstance(below, Mapping) and rest.startswith(f"{key}.")]
        if not inside:
            break
        key = max(inside, key=len)
        place, rest = place[key], rest[len(key) + 1 :]
    if "." in rest and rest not in place:
        known = [str(key) for key in place]
        raise _bad(assumption, f"there is no '{rest.partition('.')[0]}' there", nearest(rest.partition(".")[0], known) or "Check the path.")
    if value is None:
        place.pop(rest, None)
    else:
        place[rest] = value


def _bad(assumption: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="assume", subject=assumption, happened=happened, remedy=remedy)
