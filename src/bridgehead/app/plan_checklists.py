"""What people do in a wave and sign off: checklists with their evidence, and the way back (M7.4, M12; design section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import msgspec

from bridgehead.model.fabric import RackId
from bridgehead.model.plan import Plan, Task, TaskKind, Transfer, Wave
from bridgehead.model.policy import Policy


class Checklist(msgspec.Struct, frozen=True):
    """Items that are signed off each with its evidence, and what is done when a rollback passes through."""

    title: str
    items: tuple[str, ...]
    undo: tuple[str, ...] = ()


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def wave_checklist(wave: Wave, task: Task, plan: Plan, *, liquid: Mapping[RackId, bool], policy: Policy) -> Checklist:
    """The checklist of one task of a wave; waiting has none (ValueError).

    Args:
        liquid: racks in which a node is cooled by liquid.
    """
    racks = _listed(wave.racks)
    wet = _listed(tuple(rack for rack in wave.racks if liquid.get(rack, False))) or racks
    source, target = plan.source, plan.target
    items: tuple[str, ...]
    match task.id:
        case TaskKind.DRAIN:
            items = (
                f"scheduler of {source}: nodes of {racks} are drained and closed",
                "no job and no open file is left on them (evidence)",
            )
            return Checklist(f"{wave.id}: drain {racks}", items, (f"open the nodes of {racks} to the scheduler again",))
        case TaskKind.PACK:
            items = (
                f"{racks}: serial numbers, cabling and ports photographed", f"{racks}: shut down, power off, disconnected",
                f"{racks}: packed; numbers of the shock, tilt and humidity sensors",
                "drives locked or removed; custody begins (name, time)",
            )  # fmt: skip
            return Checklist(f"{wave.id}: pack {racks}", items, (f"{racks}: unpack, connect as photographed, power on",))
        case TaskKind.DRAIN_COOLANT:
            items = (f"{wet}: coolant drained (litres), manifold disconnected", f"{wet}: ports capped, no drop within 10 min")
            return Checklist(f"{wave.id}: drain the coolant of {wet}", items, (f"{wet}: connect the manifold, fill, leak test",))
        case TaskKind.LOAD:
            items = tuple(f"{one.id}: {_listed(one.racks)}; secured, sealed (number of the seal)" for one in wave.vehicles)
            items = (*items, "custody handed to the drivers (both names, time)", _insured(wave, policy))
            return Checklist(f"{wave.id}: load", items, (f"unload at {source}, check the seals and sensors",))
        case TaskKind.TRANSIT:
            items = tuple(f"{one.id}: arrived (time), seal whole, sensors read" for one in wave.vehicles)
            return Checklist(f"{wave.id}: drive to {target}", items, (f"drive the vehicles of {wave.id} back to {source}",))
        case TaskKind.UNLOAD:
            items = (f"{racks}: unloaded to the dock; sensors read and photographed", "custody taken over (both names, time)")
            return Checklist(f"{wave.id}: unload", items, (f"load {racks} again",))
        case TaskKind.INSPECT:
            items = (
                f"{racks}: no damage seen; damage is reported with photographs",
                f"{racks}: cards and cables reseated, powered up on test",
            )
            return Checklist(f"{wave.id}: inspect and reseat", items)
        case TaskKind.INSTALL:
            places = {one.id: one.place for one in plan.placements}
            items = tuple(f"{rack} at {places.get(rack, 'its place')}: racked, cabled, both feeds live" for rack in wave.racks)
            return Checklist(f"{wave.id}: install", items, (f"{racks}: power off, disconnect, back to the dock",))
        case TaskKind.LEAK_TEST:
            items = (f"{wet}: filled, pressure held for the time of the maker (values)", f"{wet}: leak test signed (name)")
            return Checklist(f"{wave.id}: fill and leak-test {wet}", items, (f"{wet}: drain the coolant",))
        case TaskKind.JOIN:
            items = (f"{racks}: burn-in passed on every GPU (report)", "links, collectives and storage as accepted (report)",
                     f"nodes joined to the scheduler of {target}")  # fmt: skip
            return Checklist(f"{wave.id}: join", items, (f"take the nodes of {racks} out of the scheduler of {target}",))
        case TaskKind.ACCLIMATISE | TaskKind.BURN_IN:
            raise ValueError(f"{task.id} is waiting, not work")
        case _:
            assert_never(task.id)


def _insured(wave: Wave, policy: Policy) -> str:
    values = [f"{one.id} {one.value:,.0f} {policy.currency}" for one in wave.vehicles if one.value is not None]
    return f"cover of the insurance is in force for {_listed(tuple(values))}" if values else "cover of the insurance is in force"


def transfer_checklist(transfer: Transfer, plan: Plan) -> Checklist:
    """The copy of one data set, by line or by courier."""
    size_tb = transfer.size_bytes / 1e12
    if transfer.courier:
        items = (
            f"{transfer.id}: drives filled at {plan.source}, sealed packs with a signed manifest",
            "custody: handed over and taken over (names, times, seals)",
            f"{transfer.id}: unloaded at {plan.target}, every block verified (report)",
        )
        return Checklist(f"courier {transfer.courier}: {transfer.id}, {size_tb:.3g} TB", items)
    items = (
        f"{transfer.id}: replicated to {plan.target}, {size_tb:.3g} TB, shaped to {transfer.rate_bps / 1e9:.3g} Gb/s",
        f"{transfer.id}: verified at {plan.target} (counts and hashes)",
        "changes are followed until the last user has gone over"
        if transfer.sync_bps
        else "nothing changes any more, or changes were copied",
    )
    return Checklist(f"copy {transfer.id} by line", items)
