"""Registers: the vaults of sites, and of the witness, as voters (ADR 17)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.ports.registers import FenceRegister
from bridgehead.ports.vaults import Vaults


class VaultRegister(msgspec.Struct, frozen=True):
    """One site of ``Vaults`` as a voter; see ``ports.registers.FenceRegister``."""

    vaults: Vaults
    site: SiteId

    def cast(self, ballot: Ballot, *, stamp: Stamp) -> tuple[Ballot, ...]:
        """See the port."""
        return self.vaults.cast(ballot, site=self.site, stamp=stamp)

    def record(self, fence: Fence, *, stamp: Stamp) -> Fence:
        """See the port."""
        return self.vaults.fence(fence, site=self.site, stamp=stamp)

    def fences(self, workload: WorkloadId) -> tuple[Fence, ...]:
        """See the port."""
        return self.vaults.fences(workload, site=self.site)


def voters(vaults: Vaults, sites: Iterable[SiteId]) -> dict[SiteId, FenceRegister]:
    """The voters for ``quorum.raise_fence``: both sites and the witness, which the estate connects as a site with a vault alone."""
    return {site: VaultRegister(vaults, site) for site in sites}
