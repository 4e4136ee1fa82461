"""Estate and policy files as the command line takes them: alone, or together so that what one says of the other is checked too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bridgehead.app.runbook_files import read_text
from bridgehead.app.wiring import driver_options
from bridgehead.kernel.located import BadFile, Fault, Mapping, compose
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import read_estate
from bridgehead.model.policy import Policy, read_policy

Kind = Literal["estate", "policy"]


class Checked(msgspec.Struct, frozen=True):
    """One file that was checked; ``content`` is None when it has faults."""

    file: str
    kind: Kind
    content: Estate | Policy | None
    faults: tuple[Fault, ...] = ()


def load_estate(path: Path) -> Estate:
    """Read an estate. Raises BAD_INPUT with every fault."""
    return read_estate(read_text(path, what="estate"), file=str(path), drivers=driver_options())


def check_files(paths: Sequence[Path]) -> list[Checked]:
    """Check every file; a policy beside estates is checked against their sites, and their objectives against the policy.

    Raises BAD_INPUT for a file that cannot be opened.
    """
    texts = {path: read_text(path, what="file") for path in paths}
    checked = {path: _checked(path, text) for path, text in texts.items()}
    policies = [one.content for one in checked.values() if isinstance(one.content, Policy)]
    estates = [one.content for one in checked.values() if isinstance(one.content, Estate)]
    objectives: set[str] | None = {objective.id for policy in policies for objective in policy.objectives} if policies else None
    sites: set[str] | None = {site.id for estate in estates for site in estate.sites} if estates else None
    return [_checked(path, text, objectives=objectives, sites=sites) for path, text in texts.items()]


def _checked(path: Path, text: str, *, objectives: set[str] | None = None, sites: set[str] | None = None) -> Checked:
    kind: Kind = "estate"
    try:
        node = compose(text, file=str(path), what="file")
        kind = "policy" if isinstance(node, Mapping) and node.get("policy") is not None else "estate"
        if kind == "policy":
            return Checked(str(path), kind, read_policy(text, file=str(path), sites=sites))
        return Checked(str(path), kind, read_estate(text, file=str(path), drivers=driver_options(), objectives=objectives))
    except BadFile as error:
        return Checked(str(path), kind, None, error.faults)
