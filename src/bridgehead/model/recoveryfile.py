"""Recovery files: YAML to ``Recovery`` and back, with checks that need more than one field. Every fault is located."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from bridgehead.kernel.decode import Decoder
from bridgehead.kernel.document import dump, read_document, to_file
from bridgehead.kernel.ids import WorkloadId
from bridgehead.kernel.located import Mark, Path
from bridgehead.kernel.phrase import nearest
from bridgehead.kernel.schema import json_schema
from bridgehead.kernel.shape import shape_of
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Protected, Recovery


def read_recovery(text: str, *, file: str, objectives: Collection[str] | None = None) -> Recovery:
    """Read a recovery file. Raises BadFile (BAD_INPUT) with every fault, each with line, column and field.

    Args:
        objectives: ids that are defined; None leaves ``objective`` unchecked.
    """
    return read_recovery_with_places(text, file=file, objectives=objectives)[0]


def read_recovery_with_places(text: str, *, file: str, objectives: Collection[str] | None = None) -> tuple[Recovery, Mapping[Path, Mark]]:
    """As ``read_recovery``, and where each part stands in the file."""

    def check(recovery: Recovery, decoder: Decoder) -> None:
        _check_sites(recovery, decoder)
        _check_people(recovery, decoder)
        for one in recovery.workloads:
            _check_workload(one, recovery, decoder)
            if objectives is not None and one.objective is not None and one.objective not in objectives:
                path = ("workloads", one.id, "objective")
                decoder.fault_at(path, f"there is no objective '{one.objective}'", nearest(one.objective, objectives))
        _check_needs(recovery, decoder)

    return read_document(text, Recovery, file=file, what="recovery file", check=check)


def write_recovery(recovery: Recovery) -> str:
    """YAML that ``read_recovery`` reads as an equal value."""
    return dump(recovery_data(recovery))


def recovery_data(recovery: Recovery) -> dict[str, Any]:
    """The recovery as files write it."""
    data: dict[str, Any] = to_file(recovery, shape_of(Recovery))
    return data


def recovery_schema() -> dict[str, Any]:
    """JSON Schema of recovery files, for editors."""
    return json_schema(Recovery, title="Bridgehead recovery")


def _check_sites(recovery: Recovery, decoder: Decoder) -> None:
    if len(set(recovery.sites)) < len(recovery.sites):
        decoder.fault_at(("sites",), "a site is named twice", "expected each site once")
    if recovery.witness in recovery.sites:
        decoder.fault_at(
            ("witness",), f"'{recovery.witness}' is one of the sites", "expected a third place that is not lost together with either"
        )

    for number, site in enumerate(recovery.archives):
        if site in recovery.sites:
            decoder.fault_at(("archives", f"[{number}]"), f"'{site}' is one of the sites", "expected another place with a vault")


def _check_people(recovery: Recovery, decoder: Decoder) -> None:
    approvers = recovery.approvers
    if approvers is not None and approvers.quorum > len(set(approvers.people)):
        found = f"{approvers.quorum} must approve, but only {len(set(approvers.people))} may"
        decoder.fault_at(("approvers", "quorum"), found, "expected at most the number of people")


def _check_workload(one: Protected, recovery: Recovery, decoder: Decoder) -> None:
    path = ("workloads", one.id)
    for end, site in (("home", one.home), ("refuge", one.refuge)):
        if site not in recovery.sites:
            decoder.fault_at((*path, end), f"'{site}' is none of the sites", nearest(site, recovery.sites))
    if one.home == one.refuge:
        decoder.fault_at((*path, "refuge"), f"home and refuge are both '{one.home}'", "expected two different sites")
    there = {job.site for job in one.jobs}
    for site in sorted(there - {one.home, one.refuge}):
        decoder.fault_at((*path, "jobs", site), f"'{site}' is neither its home nor its refuge", nearest(site, [one.home, one.refuge]))
    for site in (one.home, one.refuge):
        if site not in there and site in recovery.sites:
            decoder.fault_at((*path, "jobs"), f"there is no job at '{site}'", "expected one at its home and one at its refuge")
    if one.kind is WorkloadKind.INFERENCE and one.service is None:
        decoder.fault_at(path, "inference without a service", "expected 'service', so that its traffic can be shifted")
    if one.snapshot is not None and one.computes:
        decoder.fault_at((*path, "snapshot"), "what computes goes on from its newest verified snapshot", "expected no snapshot here")


def _check_needs(recovery: Recovery, decoder: Decoder) -> None:
    ring = _ring({one.id: one.needs for one in recovery.workloads})
    if ring:
        way = " needs ".join(f"'{name}'" for name in [*ring, ring[0]])
        decoder.fault_at(("workloads", ring[0], "needs"), f"it waits for itself: {way}", "expected needs without a cycle")


def _ring(needs: Mapping[WorkloadId, Iterable[WorkloadId]]) -> list[WorkloadId]:
    """A cycle, or nothing. What has no unfinished need is finished, until nothing is left or the rest goes round."""
    left = {name: set(wanted) & set(needs) for name, wanted in needs.items()}
    while ready := [name for name, wanted in left.items() if not wanted & set(left)]:
        for name in ready:
            del left[name]
    if not left:
        return []
    way = [next(iter(left))]
    while way[-1] not in way[:-1]:
        way.append(next(name for name in needs if name in left[way[-1]] & set(left)))
    return way[way.index(way[-1]) : -1]
