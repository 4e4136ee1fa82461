"""Judging: everything that a workload needs at a site, one finding or more for each (issue 6; J14). Implements ``ports.preflight``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.site_preflight import checks
from bridgehead.app.site_preflight.judge_contents import (
    judge_datasets,
    judge_endpoints,
    judge_images,
    judge_modules,
    judge_paths,
    judge_variables,
)
from bridgehead.app.site_preflight.judge_gpus import judge_gpus
from bridgehead.app.site_preflight.judge_slurm import case_of, judge_slurm, other_names
from bridgehead.app.site_preflight.place import Place
from bridgehead.app.site_preflight.slurm import Cluster
from bridgehead.kernel.ids import SiteId
from bridgehead.model.finding import Finding
from bridgehead.model.login import SshOptions
from bridgehead.model.site_needs import SiteNeeds


class _Way(msgspec.Struct, frozen=True):
    """The options of a scheduler that say how its site is reached."""

    ssh: SshOptions | None = None
    prefix: tuple[str, ...] = ()
    conf: str = ""


class SitePreflight:
    """Looks at the sites of an estate.

    Args:
        connections: as ``wiring.connect`` takes them.
        captured: folders with captured output of Slurm's commands, by site; they are used in place of asking.
    """

    def __init__(self, connections: Mapping[str, Any], *, captured: Mapping[SiteId, Path] = {}) -> None:
        self._sites: Mapping[SiteId, Mapping[str, Any]] = connections["sites"]
        self._captured = captured

    def judge(self, needs: SiteNeeds) -> tuple[Finding, ...]:
        """See the port."""
        place, slurm = self._places(needs.target)
        cluster = Cluster(slurm)
        images, said = judge_images(needs, place)
        return (
            self._covered(needs),
            *judge_slurm(needs, cluster, slurm),
            *judge_gpus(needs, cluster, place, said),
            *images,
            *judge_paths(needs, place),
            *judge_datasets(needs, place),
            *judge_modules(needs, place),
            *judge_endpoints(needs, place),
            *judge_variables(needs, place),
            *other_names(needs, cluster),
        )

    def _covered(self, needs: SiteNeeds) -> Finding:
        case = case_of(checks.MAP, needs, f"job:{needs.workload}")
        text = "; ".join(needs.uncovered) or "every word of the job is covered, or the job is the site's own"
        return case.holds(not needs.uncovered, text, remedy="add rows to the mapping; bridgehead recover map shows all")

    def _places(self, site: SiteId) -> tuple[Place, Place]:
        """Where to look at files and the like, and where to ask Slurm: nowhere, at a site that another scheduler runs."""
        from bridgehead.app.wiring import shell_at

        connection = self._sites.get(site, {}).get("scheduler")
        captured = self._captured.get(site)
        if connection is None:
            return Place(None), Place(None, captured=captured)
        way = msgspec.convert({key: value for key, value in connection.items() if key in ("ssh", "prefix", "conf")}, _Way)
        env = {"SLURM_CONF": way.conf} if way.conf else {}
        shell = partial(shell_at, way.ssh, prefix=way.prefix)
        place = Place(shell, env=env)
        if captured is not None:
            return place, Place(shell, env=env, captured=captured)
        return place, place if connection["driver"] == "slurm" else Place(None)
