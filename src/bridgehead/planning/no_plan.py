"""NoPlan: what the planner answers when there is no plan."""

from __future__ import annotations

import msgspec

from bridgehead.planning.demand import Demand
from bridgehead.planning.grid import Yard
from bridgehead.planning.places import Unplaced


class NoPlan(msgspec.Struct, frozen=True):
    """There is no plan, or none was found in time.

    Attributes:
        demand, yard: what was asked, for the search of a conflict.
        unplaced: racks for which the target has no place.
    """

    demand: Demand
    yard: Yard | None
    services_s: float
    ready_s: float
    unplaced: tuple[Unplaced, ...] = ()
