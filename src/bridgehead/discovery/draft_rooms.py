"""Rooms of a draft: racks, circuits and the panels that feed them, as NetBox has them (M5.1, M5.3). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

import msgspec

from bridgehead.discovery.draft_hosts import positive
from bridgehead.discovery.draft_notes import Notes, Part, whole, word
from bridgehead.discovery.merge import natural
from bridgehead.model.equipment import Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, SourceKind, Wiring

_WIRINGS: Final = {one.value: one for one in Wiring}
_IN_USE: Final = ("", "active", "staged")
_NO_WIRING: Final = "whether the voltage is between lines or to neutral,"


class Waiting(msgspec.Struct, frozen=True):
    """A circuit of which all is known but how its voltage is measured: without that its power cannot be told (E03).

    Attributes:
        circuit: with a wiring that stands in and must not be believed.
        rack: where it ends; empty where nobody says.
    """

    circuit: Circuit
    rack: str


class Room(msgspec.Struct, frozen=True):
    """Racks and power of one site. ``waiting``: circuits that are not among them until somebody declares their wiring."""

    racks: tuple[Rack, ...]
    circuits: tuple[Circuit, ...]
    sources: tuple[PowerSource, ...]
    waiting: tuple[Waiting, ...] = ()


def room_of(site: Mapping[str, Part], notes: Notes) -> Room:
    """What is told below a site, by path (``rack:A1``, ``panel:PP/feed:F``)."""
    feeds = {tuple(part.partition(":")[2] for part in path.split("/")): said for path, said in site.items() if _is(path, "panel", "feed")}
    uses = Counter(feed for _, feed in feeds)
    circuits: list[Circuit] = []
    waiting: list[Waiting] = []
    by_rack: defaultdict[str, list[CircuitId]] = defaultdict(list)
    for (panel, feed), said in sorted(feeds.items(), key=lambda one: ([natural(name) for name in one[0]], one[0])):
        circuit = _circuit(feed if uses[feed] == 1 else f"{panel} {feed}", panel, said, notes)
        if circuit is not None and word(said, "wiring") not in _WIRINGS:
            waiting.append(Waiting(circuit, word(said, "rack")))
        elif circuit is not None:
            circuits.append(circuit)
            by_rack[word(said, "rack")].append(circuit.id)
    names = {path.partition(":")[2] for path in site if _is(path, "rack")} | {name for name in by_rack if name}
    racks = tuple(
        _rack(name, site.get(f"rack:{name}", {}), tuple(by_rack[name]), notes)
        for name in sorted(names, key=lambda name: (natural(name), name))
    )
    panels = sorted({circuit.feed for circuit in (*circuits, *(one.circuit for one in waiting))}, key=lambda name: (natural(name), name))
    sources = tuple(PowerSource(id=SourceId(panel), kind=SourceKind.PANEL) for panel in panels)
    for panel in panels:
        notes.lack(panel, "rating, and what feeds it,", "the one-line diagram, or the electrician")
    return Room(racks, tuple(circuits), sources, tuple(waiting))


def _is(path: str, *kinds: str) -> bool:
    return [part.partition(":")[0] for part in path.split("/")] == list(kinds)


def _circuit(name: str, panel: str, said: Part, notes: Notes) -> Circuit | None:
    if word(said, "status") not in _IN_USE:
        notes.lack(name, f"use (NetBox says {word(said, 'status')}), and so the circuit itself,", "whoever runs the site")
        return None
    voltage, current = positive(said, "voltage"), positive(said, "amperage")
    wiring = _WIRINGS.get(word(said, "wiring"))
    if voltage is None or current is None:
        notes.lack(name, "voltage or current, and so the circuit itself,", "the panel schedule")
        return None
    if wiring is None:
        notes.lack(name, f"{_NO_WIRING} and so the circuit itself,", "the panel schedule, or the nameplate of the PDU")
    if not word(said, "rack"):
        notes.lack(name, "rack in which the circuit ends,", "the panel schedule")
    # What NetBox calls the maximum utilization is a threshold for planning, not what the breaker carries for hours.
    notes.lack(name, "share of the rating that may flow for hours,", "the panel schedule, and the rules of the country")
    return Circuit(
        id=CircuitId(name),
        voltage_v=voltage,
        current_a=current,
        wiring=wiring or Wiring.SINGLE_PHASE,
        feed=panel,
        fed_by=SourceId(panel),
    )


def _rack(name: str, said: Part, circuits: tuple[CircuitId, ...], notes: Notes) -> Rack:
    if not circuits:
        notes.lack(name, "circuits of the rack", "NetBox power feeds, or the panel schedule")
    limit = positive(said, "max-weight")
    if limit is None:
        notes.lack(name, "weight that rack and floor carry", "NetBox, or the site's floor plan")
    return Rack(
        id=RackId(name),
        position=word(said, "location"),
        units=whole(said, "units"),
        weight_kg=positive(said, "weight"),
        max_weight_kg=limit,
        circuits=circuits,
    )
