"""Capacity: what sites have anyway (M10.1, M8.4): GPUs that nobody uses, GPUs whose jobs may give way, bandwidth that production leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Estate, Link
from bridgehead.model.objectivefile import Continuity
from bridgehead.recovery.objectives.book import Book

Room = tuple[SiteId, str]
"""GPUs of one model at a site; the empty model stands for any, where the site has several."""
Way = tuple[SiteId, SiteId]
"""From one site to another."""


class Capacity(msgspec.Struct, frozen=True):
    """What is there without paying more. Missing keys: nothing.

    Attributes:
        sites: all of them.
        idle: GPUs that no workload uses.
        yielding: GPUs of pausable workloads, which give way to what recovers.
        only: the model of sites that have only one.
        free_bps: bandwidth left by production, for data.
        lines: between which sites there is a line at all, by sorted pair.
    """

    sites: tuple[SiteId, ...]
    idle: Mapping[Room, int]
    yielding: Mapping[Room, int]
    only: Mapping[SiteId, str]
    free_bps: Mapping[Way, float]
    lines: Mapping[Way, tuple[str, ...]]

    def room(self, site: SiteId, gpu_model: str) -> Room:
        """Where a thing that needs this model (empty: any) finds its GPUs."""
        return site, gpu_model or self.only.get(site, "")


def capacity_of(estate: Estate, continuity: Continuity, book: Book) -> Capacity:
    """Of an estate."""
    idle: dict[Room, int] = {}
    yielding: defaultdict[Room, int] = defaultdict(int)
    only: dict[SiteId, str] = {}
    for site in estate.sites:
        there: defaultdict[str, int] = defaultdict(int)
        for node in site.nodes:
            there[node.gpu_model] += node.gpus if node.gpus else 0
        models = {model for model, count in there.items() if count}
        only[site.id] = next(iter(models)) if len(models) == 1 else ""
        for workload in estate.workloads:
            if workload.site == site.id:
                model = workload.gpu_model or only[site.id]
                there[model] -= workload.gpus
                if workload.pausable and continuity.assumptions.preempt:
                    yielding[site.id, model] += workload.gpus
        idle |= {(site.id, model): count for model, count in there.items() if count > 0}
    free: defaultdict[Way, float] = defaultdict(float)
    names: defaultdict[Way, tuple[str, ...]] = defaultdict(tuple)
    for link in sorted(estate.links, key=lambda link: link.id):
        one, other = sorted(link.between)
        names[one, other] += (link.id,)
        for way in ((one, other), (other, one)):
            free[way] += left_bps(link, book)
    return Capacity(tuple(sorted(site.id for site in estate.sites)), idle, dict(yielding), only, dict(free), dict(names))


def left_bps(link: Link, book: Book) -> float:
    """What production leaves of a line in its busiest time: the rate that was received in a test, else a share of the line's."""
    carries = link.measured_bps if link.measured_bps is not None else link.rate_bps * book.plain("efficiency")
    return max(0.0, carries - (link.used_bps or 0.0))
