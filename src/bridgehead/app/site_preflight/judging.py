"""Judging: everything that a workload needs at a site, one finding or more for each (issue 6; J14). Implements ``ports.preflight``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.shells import shell_at
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
from bridgehead.app.site_preflight.slurm import QUERIES, Cluster
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, NotFound
from bridgehead.kernel.ids import SiteId
from bridgehead.model.finding import Finding
from bridgehead.model.login import SshOptions
from bridgehead.model.site_needs import SiteNeeds
from bridgehead.ports.shell import Shell
from bridgehead.vault import Vault


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

    Raises BAD_INPUT for a folder that is not there: every question would be left open, and nobody would know why.
    """

    def __init__(self, connections: Mapping[str, Any], *, captured: Mapping[SiteId, Path] = {}) -> None:
        self._sites: Mapping[SiteId, Mapping[str, Any]] = connections["sites"]
        self._captured = captured
        for folder in captured.values():
            if not folder.is_dir():
                raise BridgeheadError(
                    ErrorCode.BAD_INPUT,
                    tried="look at captured output",
                    subject="--captured",
                    happened=f"there is no folder {folder}",
                    remedy=f"Name the folder that holds {', '.join(list(QUERIES)[:3])} and so on.",
                )

    def judge(self, needs: SiteNeeds) -> tuple[Finding, ...]:
        """See the port."""
        place, slurm = self._places(needs.target)
        cluster = Cluster(slurm)
        images, said = judge_images(needs, place)
        return (
            self.covered(needs),
            *judge_slurm(needs, cluster, slurm),
            *judge_gpus(needs, cluster, place, said),
            *images,
            *judge_paths(needs, place),
            *judge_datasets(needs, place, vault=partial(self._vault, needs.target)),
            *judge_modules(needs, place),
            *judge_endpoints(needs, place),
            *judge_variables(needs, place),
            *other_names(needs, cluster),
        )

    def covered(self, needs: SiteNeeds) -> Finding:
        """Whether the mapping has a word for everything."""
        case = case_of(checks.MAP, needs, f"job:{needs.workload}")
        text = "; ".join(needs.uncovered) or "every word of the job is covered, or the job is the site's own"
        return case.holds(not needs.uncovered, text, remedy="add rows to the mapping; bridgehead recover map shows all")

    def _vault(self, site: SiteId) -> Vault:
        from bridgehead.app import wiring

        connection = self._sites.get(site, {}).get("vault")
        if connection is None:
            raise NotFound("the estate connects no vault there", tried="open a vault", subject=site)
        return wiring.opened(wiring.store_at(connection))

    def _places(self, site: SiteId) -> tuple[Place, Place]:
        """Where to look at files and the like, and where to ask Slurm: nowhere, at a site that another scheduler runs."""
        ports = self._sites.get(site, {})
        captured = self._captured.get(site)
        scheduler = ports.get("scheduler")
        way = msgspec.convert({key: value for key, value in (scheduler or {}).items() if key in ("ssh", "prefix", "conf")}, _Way)
        env = {"SLURM_CONF": way.conf} if way.conf else {}
        place = Place(partial(_shell_of, site, ports, way) if "shell" in ports or scheduler is not None else None, env=env)
        asked = scheduler is not None and scheduler["driver"] == "slurm"
        slurm = Place(partial(_shell_of, site, {}, way) if asked else None, env=env, captured=captured)
        return place, slurm


def _shell_of(site: SiteId, ports: Mapping[str, Any], way: _Way) -> Shell:
    """The site's own shell, where the estate connects one, else the way of its scheduler."""
    from bridgehead.app import wiring

    given = ports.get("shell")
    if given is None:
        return shell_at(way.ssh, prefix=way.prefix)
    driver = wiring.DRIVERS["shell"][given["driver"]]()
    options = {key: value for key, value in given.items() if key != "driver"}
    shell: Shell = driver.make(site, wiring.read_options(options, driver.options))
    return shell
