"""Recovery files as the command line takes them: alone, or held against the estate that connects their sites and services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bridgehead.app.runbook_files import read_text
from bridgehead.kernel.located import BadFile, Fault, Mark, path_text
from bridgehead.kernel.located import Path as Where
from bridgehead.kernel.phrase import nearest
from bridgehead.model.estate import Estate
from bridgehead.model.recovery import Recovery
from bridgehead.model.recoveryfile import read_recovery_with_places

WHAT = "recovery file"


def load_recovery(path: Path, *, estate: Estate | None = None) -> Recovery:
    """Read a recovery file. Raises BAD_INPUT with every fault, each with file, line and field.

    Args:
        estate: what it is for: each site and service that it names must be connected there.
    """
    recovery, places = read_recovery_with_places(read_text(path, what=WHAT), file=str(path))
    if estate is not None:
        faults = [_fault(path, places, *one) for one in _unconnected(recovery, estate)]
        if faults:
            raise BadFile(WHAT, file=str(path), faults=faults)
    return recovery


def _unconnected(recovery: Recovery, estate: Estate) -> Iterator[tuple[Where, str, str]]:
    """(path, what was found, what was expected) of everything that recovery needs and the estate does not connect."""
    sites = {site.id: site for site in estate.sites}
    services = {service.id: service for service in estate.services}
    named: list[tuple[Where, str]] = [(("sites", f"[{number}]"), site) for number, site in enumerate(recovery.sites)]
    named += [(("witness",), recovery.witness)] if recovery.witness is not None else []
    named += [(("archives", f"[{number}]"), site) for number, site in enumerate(recovery.archives)]
    for path, name in named:
        site = sites.get(name)  # type: ignore[call-overload]  # names are compared, whatever their type
        if site is None:
            yield path, f"the estate has no site '{name}'", nearest(name, list(sites))
            continue
        wanted = ("scheduler", "vault") if path[0] == "sites" else ("vault",)
        for port in wanted:
            if getattr(site.connections, port) is None:
                yield path, f"the estate does not connect the {port} of '{name}'", f"expected 'connections: {port}' of that site"
    for one in recovery.workloads:
        here: Where = ("workloads", one.id)
        if one.computes:
            for site_id in (one.home, one.refuge):
                site = sites.get(site_id)
                if site is not None and site.connections.training is None:
                    yield here, f"the estate does not connect 'training' of '{site_id}'", "expected 'connections: training' of that site"
        if one.service is None:
            continue
        service = services.get(one.service)
        if service is None:
            yield (*here, "service"), f"the estate has no service '{one.service}'", nearest(one.service, list(services))
            continue
        for port in ("traffic", "serving"):
            if getattr(service, port) is None:
                yield (*here, "service"), f"the estate does not connect the {port} of '{one.service}'", f"expected '{port}' of that service"


def _fault(file: Path, places: Mapping[Where, Mark], path: Where, found: str, expected: str) -> Fault:
    known = next(path[:end] for end in range(len(path), -1, -1) if path[:end] in places)
    mark = places[known]
    return Fault(str(file), mark.line, mark.column, path_text(path), found, expected)
