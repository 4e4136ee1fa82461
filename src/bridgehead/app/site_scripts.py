"""Job scripts and mappings as the command line takes them."""

from __future__ import annotations

from pathlib import Path

from bridgehead.app.runbook_files import read_text
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.phrase import nearest
from bridgehead.model.policy import read_policy
from bridgehead.model.site_map import Kind, SiteMap
from bridgehead.recovery.site_mapping import Mapped, map_script


def load_site_map(policy: Path) -> SiteMap:
    """The mapping of a policy file. Raises BAD_INPUT with every fault, and when it has none."""
    found = read_policy(read_text(policy, what="policy"), file=str(policy)).mapping
    if found is None:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read the mapping",
            subject=str(policy),
            happened="the policy has no 'mapping'",
            remedy="Say under 'mapping' what things are called at each site; docs/how-to/map-a-job-to-another-site.md shows how.",
        )
    return found


def mapped_script(script: Path, mapping: SiteMap, *, source: SiteId, target: SiteId) -> Mapped:
    """What a job script becomes. Raises BAD_INPUT when it cannot be read, BAD_USAGE for a site of which the mapping says nothing."""
    known = sites_of(mapping)
    for site in (source, target):
        if site not in known:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="map a job script",
                subject=str(script),
                happened=f"the mapping says nothing of site '{site}'",
                remedy=f"Name one of its sites: {nearest(site, sorted(known))}",
            )
    return map_script(read_text(script, what="job script"), mapping, source=source, target=target, file=str(script))


def sites_of(mapping: SiteMap) -> frozenset[SiteId]:
    """The sites that its rows name."""
    return frozenset(site for kind in Kind for _, row in mapping.rows(kind) for site in row)
