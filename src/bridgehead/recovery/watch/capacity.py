"""Capacity and paths: is there room at the recovery site, and do the lines to it fail one by one? (M10.1, M10.2, R17)

Both are of the estate file; what it does not say is unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Link, Site
from bridgehead.model.finding import FindingStatus, Origin
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.scene import Code, Draft, Protected, Scene, shown_s

SPARE: Final = Code(
    "WCH-SPARE",
    "Is there room for it at the recovery site, beside what is recovered before it?",
    "GPUs there of the right model - GPUs of what stays there and does not pause - GPUs of what goes there with a higher priority >= GPUs",
    ("M10.1", "R11"),
    "add GPUs there, name fewer GPUs with which it still makes sense (min_gpus), or rent capacity",
)
PATHS: Final = Code(
    "WCH-PATHS",
    "Do two lines to the recovery site share neither carrier nor path, and does traffic change over in time?",
    "two links with different carriers and no duct or building in common; failover <= 1 s (M10.2)",
    ("M10.2", "R17"),
    "order a second line of another carrier through other ducts",
)


class Room(msgspec.Struct, frozen=True):
    """What there is for one workload. None: not known.

    Attributes:
        free: GPUs that are left for it, at most.
        sure: whether all of them suit it; without a model that it names nobody can tell.
        other_model: GPUs there of another model than it names; they are not in ``free``.
    """

    free: int | None
    other_model: int = 0
    sure: bool = True


def fits(wanted: str, model: str) -> bool:
    """Whether a GPU model is the one that a workload names: all words of the name occur in it."""
    return set(wanted.casefold().replace("-", " ").split()) <= set(model.casefold().replace("-", " ").split())


def rooms(scene: Scene) -> Mapping[str, Room]:
    """For each workload with a recovery site: what is left for it when all that go there are recovered by priority."""
    sites = {site.id: site for site in scene.estate.sites}
    taken: dict[SiteId, int] = {}
    found: dict[str, Room] = {}
    for one in sorted(scene.protected, key=lambda one: (-one.workload.priority, one.id)):
        site = sites.get(one.refuge) if one.refuge is not None else None
        if site is None or one.refuge is None:
            continue
        found[one.id] = room = _room(scene, one, site, taken=taken.get(one.refuge, 0))
        least = one.workload.gpus if one.workload.min_gpus is None else one.workload.min_gpus
        takes = least if room.free is None else max(least, min(one.workload.gpus, room.free))
        taken[one.refuge] = taken.get(one.refuge, 0) + takes
    return found


def _room(scene: Scene, one: Protected, site: Site, *, taken: int) -> Room:
    if not site.nodes:
        return Room(None)
    wanted = one.workload.gpu_model
    if wanted and any(node.gpus and not node.gpu_model for node in site.nodes):
        return Room(None)
    suited = sum(node.gpus for node in site.nodes if not wanted or fits(wanted, node.gpu_model))
    stays = sum(other.gpus for other in scene.estate.workloads if other.site == site.id and not other.pausable)
    return Room(max(0, suited - stays - taken), site.gpus - suited, sure=bool(wanted))


def spare(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-SPARE of each workload with a recovery site."""
    found = rooms(scene)
    for one in scene.protected:
        if one.id not in found:
            continue
        room, need = found[one.id], one.workload.gpus
        least = need if one.workload.min_gpus is None else one.workload.min_gpus
        draft = Draft(SPARE, f"{one.id}@{one.refuge}", workload=one.id, site=str(one.refuge))
        draft.dated(scene.declared_s)
        draft.given("GPUs", need, "", f"workloads.{one.id}.gpus")
        draft.given("at least", least, "", f"workloads.{one.id}.min_gpus")
        draft.take("free", room.free, "", f"sites.{one.refuge}.nodes", origin=Origin.DERIVED)
        if not need:
            yield draft.passes("it needs no GPUs")
        elif room.free is None:
            ask = f"list the nodes of {one.refuge} with their GPUs and models in the estate file"
            yield draft.unknown(f"how many suitable GPUs {one.refuge} has is not known", measurement=ask)
        elif room.free >= least and not room.sure:
            text = f"{one.refuge} has {room.free} GPUs left for its {need}; whether they suit it is not known"
            yield draft.unknown(text, measurement=f"say which GPU {one.id} needs (gpu_model)")
        elif room.free >= least:
            fewer = f", {room.free} of them at most: it runs with fewer" if room.free < need else ""
            yield draft.made(
                FindingStatus.PASS, f"{one.refuge} has {room.free} GPUs left for its {need}{fewer}", value=need, limit=room.free
            )
        else:
            other = f", and {room.other_model} of another model" if room.other_model else ""
            text = f"it needs {least} GPUs, {one.refuge} has {room.free} left for it{other}"
            yield draft.fails(text, value=least, limit=room.free)


def paths(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-PATHS of each pair of sites between which something is recovered."""
    pairs = sorted({(str(one.home), str(one.refuge)) for one in scene.protected if one.refuge is not None})
    for home, refuge in pairs:
        links = [link for link in scene.estate.links if set(link.between) == {home, refuge}]
        draft = Draft(PATHS, f"{home}+{refuge}", site=home)
        draft.dated(scene.declared_s)
        for link in links:
            draft.given(f"{link.id} carrier", link.carrier or None, "", f"links.{link.id}.carrier")
            draft.given(f"{link.id} path", None if link.path is None else ", ".join(link.path), "", f"links.{link.id}.path")
        yield _paths(draft, links, scene.terms.reroute_s)


def shared(one: Link, other: Link) -> tuple[str, ...] | None:
    """What two lines share; None when that is not known."""
    found = {one.carrier} & {other.carrier} - {""} | set(one.path or ()) & set(other.path or ())
    complete = one.carrier and other.carrier and one.path and other.path
    return tuple(sorted(found)) if found or complete else None


def diverse(scene: Scene, home: SiteId, refuge: SiteId | None) -> int | None:
    """How many lines fail independently, at least; None: not known."""
    links = [link for link in scene.estate.links if set(link.between) == {home, refuge}]
    pairs = [shared(one, other) for one, other in itertools.combinations(links, 2)]
    if () in pairs:
        return 2
    return None if None in pairs else min(1, len(links))


def _paths(draft: Draft, links: list[Link], limit_s: float) -> WatchFinding:
    if len(links) < 2:
        lines = "there is one line" if links else "there is no line"
        return draft.fails(f"{lines} between them in the estate file")
    pairs = [(one, other, shared(one, other)) for one, other in itertools.combinations(links, 2)]
    apart = [(one, other) for one, other, both in pairs if both == ()]
    if not apart:
        if any(both is None for _, _, both in pairs):
            ask = "ask each carrier for the ducts and buildings of its path"
            return draft.unknown("whether two lines share a carrier or a path is not known", measurement=ask)
        return draft.fails("; ".join(f"{one.id} and {other.id} share {', '.join(both or ())}" for one, other, both in pairs))
    one, other = apart[0]
    text = f"{one.id} and {other.id} share neither carrier nor path"
    times = [link.failover_s for link in (one, other)]
    slow = [time for time in times if time is not None and time > limit_s]
    if slow:
        remedy = "shorten detection (BFD) until traffic changes over within a second"
        return draft.fails(
            f"{text}, but traffic takes {shown_s(max(slow))} to change over", value=max(slow), limit=limit_s, unit="s", remedy=remedy
        )
    if None in times:
        return draft.unknown(f"{text}; how soon traffic changes over was not measured", measurement="pull one line, and measure (failover)")
    return draft.passes(text, value=max(time for time in times if time is not None), limit=limit_s, unit="s")
