"""Kinds: parcels that can be exchanged for each other, which is what keeps models of large moves small (M7.4). Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection

import msgspec

from bridgehead.planning.demand import Parcel
from bridgehead.planning.grid import Yard


class Kind(msgspec.Struct, frozen=True):
    """Parcels that can be exchanged for each other.

    Attributes:
        per_vehicle: how many of its racks a vehicle carries at most.
    """

    parcels: tuple[Parcel, ...]
    per_vehicle: int

    @property
    def racks(self) -> int:
        """Racks of one of them."""
        return len(self.parcels[0].racks)

    def gpus(self, model: str) -> int:
        """GPUs of one of them."""
        return self.parcels[0].gpus(model)


def kinds_of(parcels: Collection[Parcel], yard: Yard) -> tuple[Kind, ...]:
    """Parcels by kind, in a fixed order."""
    groups: defaultdict[str, list[Parcel]] = defaultdict(list)
    for parcel in parcels:
        groups[repr(parcel.kind)].append(parcel)
    found = []
    for _, same in sorted(groups.items()):
        heaviest = max(one.weight_kg for one in same[0].racks)
        dearest = max(one.value for one in same[0].racks)
        fits = [yard.fleet.racks]
        if yard.fleet.payload_kg is not None and heaviest > 0:
            fits.append(math.floor(yard.fleet.payload_kg / heaviest))
        if yard.fleet.insured is not None and dearest > 0:
            fits.append(math.floor(yard.fleet.insured / dearest))
        found.append(Kind(tuple(same), min(fits)))
    return tuple(found)
