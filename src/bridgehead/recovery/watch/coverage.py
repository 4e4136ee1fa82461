"""Coverage: what has no objective, no snapshot, or no second copy (R1, R5, R13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.model.estate import Dataset, WorkloadKind
from bridgehead.model.finding import Severity
from bridgehead.model.objective import Part
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.scene import Code, Draft, Protected, Scene, shown_s

OBJECTIVE: Final = Code(
    "WCH-OBJECTIVE",
    "Does everything have an objective?",
    "each workload, service and data set of the estate names an objective that exists",
    ("R1", "R2", "R5"),
    "give it an objective, or one that says that it may be lost",
)
COVER: Final = Code(
    "WCH-COVER",
    "Is everything kept, and kept twice?",
    "a usable snapshot at home, and a receipt of another site",
    ("R6", "R8", "R13"),
    "save it into the vault of its site, and replicate that",
)
DATA: Final = Code(
    "WCH-DATA",
    "Is every data set at a second site, proved by a receipt?",
    "a receipt of a site other than its own, in the vault of that site, under the data set's id",
    ("R8", "R13", "M9.1"),
    "save it under its id (`bridgehead vault save --workload ID`), and replicate that",
    Severity.WARNING,
)


def objectives(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-OBJECTIVE of every workload, service and data set."""
    for need in scene.needs:
        workload = need.id if need.part is Part.WORKLOAD else ""
        draft = Draft(OBJECTIVE, f"{need.part.value}:{need.id}", workload=workload)
        draft.dated(scene.declared_s)
        name = need.objective.id if need.objective is not None else None
        draft.given("objective", name, "", f"{need.part.value}s.{need.id}.objective")
        said = ", ".join(
            f"{word} {shown_s(bound.value_s)} ({bound.source})" for word, bound in (("RPO", need.rpo), ("RTO", need.rto)) if bound
        )
        if name is None and scene.defaults and said:
            yield draft.passes(f"as its kind: {said}")
        elif name is None:
            yield draft.fails("it has no objective" + (f"; by its kind it would be {said}" if said else ""))
        else:
            yield draft.passes(f"'{name}': {said or 'no time is set'}")


def cover(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-COVER of each workload that has something to keep."""
    for one in scene.protected:
        if one.workload.kind is WorkloadKind.SERVICE:
            continue
        yield _cover(scene, one)


def _cover(scene: Scene, one: Protected) -> WatchFinding:
    draft = Draft(COVER, one.id, workload=one.id, site=one.home)
    home_seen, refuge_seen = scene.vault(one.kept, one.home), scene.vault(one.kept, one.refuge)
    home, refuge = scene.known(home_seen), scene.known(refuge_seen)
    draft.measured(home_seen)
    if home is not None and not home.usable:
        return draft.fails(f"nothing of it is kept at {one.home}", value=0, limit=1)
    draft.measured(refuge_seen)
    if refuge is not None and not refuge.copies:
        return draft.fails(f"{one.refuge} has given no receipt for any snapshot of it", value=0, limit=1)
    if home is None:
        return draft.unseen(f"the vault of {one.home}", home_seen, now_s=scene.now_s)
    if one.refuge is None:
        return draft.fails("it has no recovery site, and so no second copy")
    if refuge is None:
        return draft.unseen(f"the vault of {one.refuge}", refuge_seen, now_s=scene.now_s)
    return draft.passes(f"{home.usable} usable at {one.home}, {len(refuge.copies)} of the last proved at {one.refuge}")


def data(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-DATA of each data set of the estate."""
    for one in scene.estate.datasets:
        yield _data(scene, one)


def _data(scene: Scene, one: Dataset) -> WatchFinding:
    draft = Draft(DATA, f"dataset:{one.id}", site=one.site)
    others = [site.id for site in scene.estate.sites if site.id != one.site and site.connections.vault is not None]
    seen = [(site, scene.vault(one.id, site)) for site in others]
    holders = [(site, known) for site, what in seen if (known := scene.known(what)) is not None and known.copies]
    for _, what in seen:
        draft.measured(what)
    if holders:
        return draft.passes(f"proved at {', '.join(site for site, _ in holders)}")
    blind = [(site, what) for site, what in seen if scene.known(what) is None]
    if blind:
        return draft.unseen(f"the vault of {blind[0][0]}", blind[0][1], now_s=scene.now_s)
    return draft.fails(f"no site but {one.site} has proved that it holds it")
