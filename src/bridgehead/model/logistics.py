"""Logistics: how hardware is carried, who does it, how long it takes and what it costs (M7.4, M10.1, M11, M12; rules section 10).

Durations and prices are inputs of the people who plan. A default is marked as a guess in every plan that rests on it.
"""

from __future__ import annotations

from typing import Annotated, NewType

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.quantity import Kilograms, Seconds, Share
from bridgehead.kernel.shape import Keyed
from bridgehead.model.fabric import AtLeastOne

CrewId = NewType("CrewId", str)
FleetId = NewType("FleetId", str)
Money = Annotated[float, msgspec.Meta(ge=0)]
Lasting = Annotated[Seconds, msgspec.Meta(gt=0)]
Part = Annotated[Share, msgspec.Meta(ge=0, le=1)]

HOUR_S = 3600.0
DAY_S = 86_400.0


class Handling(msgspec.Struct, frozen=True):
    """How long the steps of carrying a rack take (M7.4, M12). Work is of one team on one rack; waiting needs no team.

    Attributes:
        pack_s: power off, disconnect, pack with sensors.
        drain_coolant_s: drain the coolant and disconnect the manifold, of a rack with liquid cooling, as well.
        load_s: onto a vehicle; unloading takes as long.
        acclimatise_s: at the dock, until nothing condenses (default 24 h, weak; the maker's minimum counts).
        inspect_s: inspect, reseat, test before it is racked.
        install_s: to its place, cables, power.
        leak_test_s: fill and leak-test, of a rack with liquid cooling, as well.
        burn_in_s: under load, before it takes work.
        join_s: from the end of burn-in until the scheduler may use it.
    """

    pack_s: Seconds = 3 * HOUR_S
    drain_coolant_s: Seconds = 2 * HOUR_S
    load_s: Seconds = HOUR_S / 2
    acclimatise_s: Seconds = 24 * HOUR_S
    inspect_s: Seconds = HOUR_S
    install_s: Seconds = 3 * HOUR_S
    leak_test_s: Seconds = 4 * HOUR_S
    burn_in_s: Seconds = 48 * HOUR_S
    join_s: Seconds = HOUR_S


class Crew(msgspec.Struct, frozen=True):
    """People who work on racks at one site.

    Attributes:
        site: where they work.
        teams: teams that work at the same time, each on one rack.
        shift_s: how long they work on a day.
        begins_s: when the shift begins, from midnight UTC.
        day_cost: of one team on one day.
    """

    id: CrewId
    site: SiteId
    teams: AtLeastOne
    shift_s: Lasting = 10 * HOUR_S
    begins_s: Seconds = 7 * HOUR_S
    day_cost: Money | None = None


class Fleet(msgspec.Struct, frozen=True):
    """Vehicles of one kind that drive between the sites (M7.4).

    Attributes:
        vehicles: how many there are.
        racks: places for racks in each.
        payload_kg: what each carries.
        insured: value that each may carry at most.
        transit_s: door to door, one way; a vehicle is back after twice as long.
        trip_cost: of one round trip, the insurance of the load included.
    """

    id: FleetId
    vehicles: AtLeastOne
    racks: AtLeastOne
    payload_kg: Annotated[Kilograms, msgspec.Meta(gt=0)] | None = None
    insured: Money | None = None
    transit_s: Lasting = 4 * HOUR_S
    trip_cost: Money | None = None


class Logistics(msgspec.Struct, frozen=True):
    """Everything that carrying hardware needs.

    Attributes:
        crews: who works where; both sites need one.
        fleet: the vehicles.
        dock_places: racks that can stand at the target's dock at the same time, from arrival until they are installed.
        handling: how long the steps take.
        gpu_values: what one GPU of a model is insured for, its share of the rest of the node included.
    """

    crews: Annotated[tuple[Crew, ...], Keyed("crew")]
    fleet: Fleet
    dock_places: AtLeastOne | None = None
    handling: Handling = Handling()
    gpu_values: dict[str, Money] = {}


class PhaseLengths(msgspec.Struct, frozen=True):
    """How long phases last at least that are not bound by the number of workloads or racks (M7.1, M7.2, M7.5).

    Attributes:
        bridgehead_s: core network, storage, management, first capacity, failover test.
        services_s: critical services are replicated and validated from both sites.
        decommission_s: capacity at the source falls step by step after everything has gone over.
        keep_link_s: the lines between the sites are kept that long after the end.
    """

    bridgehead_s: Seconds = 14 * DAY_S
    services_s: Seconds = 14 * DAY_S
    decommission_s: Seconds = 14 * DAY_S
    keep_link_s: Seconds = 30 * DAY_S


class BridgeheadShare(msgspec.Struct, frozen=True):
    """How much of the capacity stands at the target before the first workload goes over (M7.1)."""

    least: Part = 0.1
    most: Part = 0.2


class Precopy(msgspec.Struct, frozen=True):
    """What is assumed of pre-copying training state (design section 6).

    Attributes:
        delta_share: stored bytes of a snapshot against one that is a few steps older, as a share of the whole; the vault's bench
            measured 0.21 for one step and 0.56 for ten.
        release_s: fence, release of the standby and its first new step.
    """

    delta_share: Part = 0.25
    release_s: Seconds = 5.0


class Weights(msgspec.Struct, frozen=True):
    """What a plan is judged by: lost GPU-hours (each times 1 + the workload's priority), then days, then money.

    The score is the sum of all three. The defaults keep that order for moves of ordinary size; it is less the better.

    Attributes:
        lost_gpu_hour: of one GPU-hour of priority 0.
        day: of one day from the first day to the last join.
        money: of one unit of the policy's currency.
    """

    lost_gpu_hour: Money = 1.0
    day: Money = 1.0
    money: Money = 1e-6


class Prices(msgspec.Struct, frozen=True):
    """What things cost, in the policy's currency (M11, P22). What nobody gave is a guess and shown as one.

    Attributes:
        gpu_hour: of one GPU that stands idle or whose work is lost.
        target_site_day: rent and fixed cost of the target, a day.
        source_site_day: rent and fixed cost of the source, a day.
        link_day: of the lines between the sites, a day.
        courier_trip: of one trip of a courier with drives.
        planning_hour: of preparation (M6).
        insurance_share: premium as a share of the value that is carried.
        outage_hour: what an hour of unplanned outage costs.
        saved_year: what a year at the target saves against a year at the source, energy left out.
    """

    gpu_hour: Money | None = None
    target_site_day: Money | None = None
    source_site_day: Money | None = None
    link_day: Money | None = None
    courier_trip: Money | None = None
    planning_hour: Money | None = None
    insurance_share: Part | None = None
    outage_hour: Money | None = None
    saved_year: Money | None = None


class Spares(msgspec.Struct, frozen=True):
    """Spare parts that stand ready (M10.1; rules section 7).

    Attributes:
        floor: share of the units that stands ready at least.
        target: probability that the spares last through the move.
        gpu_hours_per_fault: GPU-hours between two faults that need a part; one published run had 82,944.
    """

    floor: Part = 0.1
    target: Annotated[Share, msgspec.Meta(gt=0, lt=1)] = 0.95
    gpu_hours_per_fault: Annotated[float, msgspec.Meta(gt=0)] | None = None
