"""Scope: what is assessed, and what every check may ask of it. Pure."""

from __future__ import annotations

from functools import cached_property

from bridgehead.model.equipment import Node
from bridgehead.model.estate import Estate, Link, Site, Workload
from bridgehead.model.policy import Policy


class Scope:
    """One move, or the readiness of one site.

    Attributes:
        estate: all of it.
        policy: what the move must respect; its defaults where none was given.
        source: the site that is left; None when a single site is assessed as it stands.
        target: the site that is judged.
    """

    def __init__(self, estate: Estate, policy: Policy, *, source: Site | None, target: Site) -> None:
        self.estate = estate
        self.policy = policy
        self.source = source
        self.target = target

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites that are judged: the target, and the source that has to stand until the move is over."""
        return (self.target,) if self.source is None else (self.source, self.target)

    @cached_property
    def incoming(self) -> tuple[Node, ...]:
        """Nodes that are carried to the target: those of the source when the hardware itself moves."""
        if self.source is None:
            return ()
        moves = not self.target.nodes if self.policy.hardware is None else self.policy.hardware
        return self.source.nodes if moves else ()

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """What has to run at the target when all is done: what runs there, and what comes from the source."""
        homes = {site.id for site in self.sites}
        return tuple(workload for workload in self.estate.workloads if workload.site in homes)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The lines between source and target."""
        ends = {site.id for site in self.sites}
        return tuple(link for link in self.estate.links if set(link.between) == ends)
