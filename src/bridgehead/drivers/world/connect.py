"""Connect: all ports of a simulated world, as actions get them."""

from __future__ import annotations

from bridgehead.drivers.world.admission import WorldAdmission
from bridgehead.drivers.world.bubbles import WorldBubbles
from bridgehead.drivers.world.calls import Calls
from bridgehead.drivers.world.databases import WorldCaptures, WorldHooks, WorldQuiesce
from bridgehead.drivers.world.machines import WorldMachines
from bridgehead.drivers.world.services import WorldMetrics, WorldServing, WorldTraffic
from bridgehead.drivers.world.sites import WorldScheduler, WorldTrainingControl
from bridgehead.drivers.world.vaults import WorldVaults
from bridgehead.model.recovery import DatabaseEngine
from bridgehead.ports.switchboard import Switchboard


def connect(calls: Calls) -> Switchboard:
    """Every site's scheduler, training control and vault, every service's proxy, health and counters."""
    world = calls.world
    traffic, serving = WorldTraffic(calls), WorldServing(calls)
    return Switchboard(
        schedulers={site: WorldScheduler(site, calls) for site in world.vaults},
        trainings={site: WorldTrainingControl(site, calls) for site in world.vaults},
        traffics=dict.fromkeys(world.proxies, traffic),
        servings=dict.fromkeys(world.proxies, serving),
        metrics=WorldMetrics(calls),
        vaults=WorldVaults(calls),
        bubbles=WorldBubbles(calls),
        rooms={site: WorldMachines(site, calls) for site in world.rooms},
        databases=dict.fromkeys(DatabaseEngine, WorldQuiesce(calls)),
        hooks=WorldHooks(calls),
        captures=WorldCaptures(),
        admissions={site: WorldAdmission(site, calls) for site in world.vaults},
    )
