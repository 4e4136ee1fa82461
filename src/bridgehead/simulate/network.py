"""Network: which sites the controller reaches, and the link over which snapshots travel."""

from __future__ import annotations

from bridgehead.kernel.ids import SiteId

EDGE = SiteId("edge")
"""Where the proxies stand: cut off on its own."""


class Network:
    """Reachability changes only by calls of this class; ``refused`` counts what each cut stopped, so that a cut nobody noticed is seen."""

    def __init__(self, *, rate_bps: float) -> None:
        self.rate_bps = rate_bps
        self._cut_off: dict[SiteId, int] = {}
        self._link_cuts = 0
        self.refused: dict[SiteId, int] = {}
        self.refused_transfers = 0
        self._free_s: dict[frozenset[SiteId], float] = {}
        self.carried_bytes: dict[frozenset[SiteId], float] = {}
        """Between two sites, so far."""

    def waiting_s(self, source: SiteId, target: SiteId, *, now_s: float) -> float:
        """How long what is handed in now waits for what was handed in before: all transfers between two sites share one line."""
        return max(0.0, self._free_s.get(frozenset((source, target)), now_s) - now_s)

    def carry(self, size_bytes: float, source: SiteId, target: SiteId, *, now_s: float) -> float:
        """Seconds until ``size_bytes`` have passed."""
        line = frozenset((source, target))
        took_s = self.waiting_s(source, target, now_s=now_s) + size_bytes / self.rate_bps
        self._free_s[line] = now_s + took_s
        self.carried_bytes[line] = self.carried_bytes.get(line, 0.0) + size_bytes
        return took_s

    def cut_off(self, site: SiteId) -> None:
        """The controller and the other sites no longer reach ``site``."""
        self._cut_off[site] = self._cut_off.get(site, 0) + 1

    def join(self, site: SiteId) -> None:
        """One cut of ``site`` is healed."""
        self._cut_off[site] -= 1

    def cut_link(self) -> None:
        """Sites no longer reach each other; the controller still reaches them."""
        self._link_cuts += 1

    def join_link(self) -> None:
        """One cut of the link is healed."""
        self._link_cuts -= 1

    def reaches(self, site: SiteId) -> bool:
        """Can the controller talk to ``site`` now?"""
        if not self._cut_off.get(site, 0):
            return True
        self.refused[site] = self.refused.get(site, 0) + 1
        return False

    def transfers(self, source: SiteId, target: SiteId) -> bool:
        """Can bytes travel from ``source`` to ``target`` now?"""
        if not self._link_cuts and not self._cut_off.get(source, 0) and not self._cut_off.get(target, 0):
            return True
        if self._link_cuts:
            self.refused_transfers += 1
        for site in (source, target):
            if self._cut_off.get(site, 0):
                self.refused[site] = self.refused.get(site, 0) + 1
        return False
