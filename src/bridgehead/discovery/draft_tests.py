"""Tests of a draft: results of nccl-tests, perftest and iperf3 as acceptance of a site, and what arrived between sites (P5, M10.2). Pure.

Attributes that are read:

- ``node:*/nccl:*`` and ``cluster:?/nccl:*``: ``hosts``, ``ranks``, ``measured-bus-bandwidth-peak-*`` (B/s), ``measured-wrong-*``,
  ``measured-out-of-bounds``
- ``node:*/perftest:*``: ``measured-rate-average:*`` (bit/s)
- ``node:*/path-to:*`` and ``node:*/path-from:*``: ``measured-rate-received`` (bit/s), ``protocol``, ``measured-streams``,
  ``measured-round-trip-min`` (s)

Of a run over some hosts of several racks nobody can say at which scale it was made, so it is listed and not taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bridgehead.discovery.draft_names import Names, Place, path_of
from bridgehead.discovery.draft_notes import Notes, Part, disputed, known, number, word
from bridgehead.discovery.knowledge import AT, EVIDENCE, RATE, WRONG, Knowledge
from bridgehead.discovery.merge import natural
from bridgehead.kernel.ids import SiteId
from bridgehead.model.acceptance import Acceptance, AcceptanceId, Scale
from bridgehead.model.equipment import NodeId
from bridgehead.model.estate import Site

_NOT_IN_ID: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 63
_PERFTESTS: Final = {"rdma-write": "ib-write", "rdma-read": "ib-read", "send": "ib-send"}
_PEAKS: Final = ("measured-bus-bandwidth-peak-out-of-place", "measured-bus-bandwidth-peak-in-place")


class Crossing(msgspec.Struct, frozen=True):
    """What was received between two sites, by the best run of each direction; of two directions the slower one.

    Attributes:
        between: the sites, sorted.
        received_bps: what arrived, never what was sent.
        flows: of that run.
        delay_s: half of the shortest round trip of any run; None where none was told.
    """

    between: tuple[SiteId, SiteId]
    received_bps: float
    flows: int | None = None
    delay_s: float | None = None


class Results(msgspec.Struct, frozen=True):
    """Results by site, each sorted; and what was received between sites."""

    acceptance: Mapping[SiteId, tuple[Acceptance, ...]]
    crossings: tuple[Crossing, ...]


class _Way(msgspec.Struct, frozen=True):
    """One run from one host to another."""

    begin: Place
    end: Place
    part: Part


def results_of(told: Mapping[SiteId, Knowledge], sites: Iterable[Site], names: Names, notes: Notes) -> Results:
    """All results of all sites. The order of facts changes nothing."""
    by_site = {site.id: site for site in sites}
    found: defaultdict[SiteId, dict[AcceptanceId, Acceptance]] = defaultdict(dict)
    ways: list[_Way] = []
    for at in sorted(told):
        for subject, part in sorted(told[at].items()):
            outer, _, inner = subject.partition("/")
            kind, _, name = inner.partition(":")
            host = outer.removeprefix("node:")
            if kind == "nccl" and outer.startswith(("node:", "cluster:")):
                _take(found, _nccl(name, part, host, at, by_site, names, notes))
            elif kind == "perftest" and outer.startswith("node:"):
                _take(found, _perftest(name, part, names.place(host, at=at), notes))
            elif kind in ("path-to", "path-from"):
                way = _way(subject, part, at, names, notes)
                ways += [way] if way is not None else []
    for way in ways:
        if way.begin.site == way.end.site:
            _take(found, _iperf(way))
    acceptance = {site: tuple(some[key] for key in sorted(some, key=lambda key: (natural(key), key))) for site, some in found.items()}
    return Results(acceptance, _crossings(ways))


def _take(found: Mapping[SiteId, dict[AcceptanceId, Acceptance]], result: tuple[SiteId, Acceptance] | None) -> None:
    """Of two results of one name, as both ends of a run may print, the lower one."""
    if result is not None:
        site, one = result
        before = found[site].get(one.id)
        if before is None or (one.measured_bps or 0) < (before.measured_bps or 0):
            found[site][one.id] = one


def _named(*words: str) -> AcceptanceId:
    return AcceptanceId(_NOT_IN_ID.sub("-", "-".join(word for word in words if word)).strip("-.")[:_LONGEST])


def _result(
    name: AcceptanceId, test: str, scale: Scale, part: Part, rate_bps: float, *, nodes: int | None, wrong: int | None
) -> Acceptance:
    return Acceptance(
        id=name,
        test=test,
        scale=scale,
        nodes=nodes,
        measured_bps=float(rate_bps),
        wrong=wrong,
        at_s=number(part, AT),
        evidence=word(part, EVIDENCE),
    )


def _nccl(
    name: str, part: Part, host: str, at: SiteId, sites: Mapping[SiteId, Site], names: Names, notes: Notes
) -> tuple[SiteId, Acceptance] | None:
    test = name.partition("@")[0].partition("#")[0].removesuffix("_perf").replace("_", "-")
    label = f"nccl-{test}" + (f" on {host}" if host != "?" else "")
    if any(disputed(part, peak) for peak in _PEAKS):
        notes.lack(label, "one result of several that contradict each other", "the newest output, with its time")
        return None
    rate = next((value for peak in _PEAKS if (value := number(part, peak))), None)
    if rate is None:
        return None
    listed = known(part, "hosts")
    hosts = listed if isinstance(listed, tuple) else (host,)
    places = {names.place(one, at=at) for one in hosts}
    places_known = {place for place in places if place is not None}
    homes = {place.site for place in places_known}
    if test == "?" or None in places or len(homes) != 1 or len(places_known) != len(hosts):
        why = "which collective it was" if test == "?" else "which hosts of the estate it ran on"
        notes.lack(label, f"{why}, and so the result", "output with its heading and its list of ranks, in the folder of its host")
        return None
    [home] = homes
    scale = _scale({place.node for place in places_known}, sites[home], names.hosts_of(home))
    if scale is None:
        notes.lack(
            label, f"scale of a run on {len(hosts)} nodes, which are neither one rack nor all of {home}, and so the result", "who ran it"
        )
        return None
    where = hosts[0] if scale is Scale.NODE else scale.value
    ranks = f"{ranks:.0f}" if (ranks := number(part, "ranks")) else ""
    repeated = name.partition("#")[2]
    result = _result(
        _named("nccl", test, ranks, where, repeated), f"nccl-{test}", scale, part, rate * 8, nodes=len(hosts), wrong=_wrong(part)
    )
    return home, result


def _scale(nodes: set[NodeId], site: Site, hosts: set[NodeId]) -> Scale | None:
    """A host of which nobody knows how many GPUs it has may have some."""
    if len(nodes) == 1:
        return Scale.NODE
    if nodes >= hosts - {node.id for node in site.nodes if not node.gpus}:
        return Scale.FULL
    racks = {node.rack for node in site.nodes if node.id in nodes}
    return Scale.RACK if len(racks) == 1 and None not in racks else None


def _wrong(part: Part) -> int | None:
    """How many values were wrong; None where the test did not check all of them: it prints ``0 OK`` then, too."""
    counts = [number(part, attribute) for attribute in part if attribute.startswith(WRONG)]
    if not counts or None in counts:
        return None
    return int(max(sum(count for count in counts if count is not None), number(part, "measured-out-of-bounds") or 0))


def _perftest(name: str, part: Part, place: Place | None, notes: Notes) -> tuple[SiteId, Acceptance] | None:
    """The best size of a message. Delays are no rates, and a title that is missing names no test."""
    title, _, device = name.partition("@")
    kind = next((short for long, short in _PERFTESTS.items() if title.startswith(long)), None)
    rates = [rate for attribute in part if attribute.startswith(RATE) and (rate := number(part, attribute))]
    if not rates or title.endswith("latency"):
        return None
    if kind is None or place is None:
        notes.lack(f"perftest {title}", "its host or its kind, and so the result", "output with its title, in the folder of its host")
        return None
    both = "-both-ways" if "bidirectional" in title else ""
    test = f"{kind}-bw{both}"
    return place.site, _result(_named(test, place.node, device), test, Scale.NODE, part, max(rates), nodes=None, wrong=None)


def _way(subject: str, part: Part, at: SiteId, names: Names, notes: Notes) -> _Way | None:
    path = path_of(subject)
    rate = number(part, "measured-rate-received")
    if path is None or not rate or word(part, "protocol").upper() == "UDP":  # which sends at the rate that it was told to
        return None
    host, way, other = path
    here = names.place(host, at=at)
    # Two sites may each have a host of that name; the address is that which was reached.
    there = names.place(word(part, "remote-address"), at=at) or names.place(other, at=at)
    if here is None or there is None or here == there:
        notes.lack(
            f"iperf3 {host} {way} {other}",
            "hosts at both ends, and so the result",
            "output in the folder of its host; ip -j addr of the other one",
        )
        return None
    return _Way(here, there, part) if way == "to" else _Way(there, here, part)


def _iperf(way: _Way) -> tuple[SiteId, Acceptance]:
    rate = number(way.part, "measured-rate-received") or 0
    name = _named("iperf3", way.begin.node, way.end.node)
    return way.begin.site, _result(name, "iperf3", Scale.NODE, way.part, rate, nodes=2, wrong=None)


def _crossings(ways: Iterable[_Way]) -> tuple[Crossing, ...]:
    by_pair: defaultdict[tuple[SiteId, SiteId], defaultdict[SiteId, list[_Way]]] = defaultdict(lambda: defaultdict(list))
    for way in ways:
        if way.begin.site != way.end.site:
            one, other = sorted((way.begin.site, way.end.site))
            by_pair[one, other][way.begin.site].append(way)
    crossings = []
    for pair, directions in sorted(by_pair.items()):
        best = [max(some, key=_received) for _, some in sorted(directions.items())]
        slower = min(best, key=_received)
        trips = [trip for some in directions.values() for way in some if (trip := number(way.part, "measured-round-trip-min"))]
        flows = number(slower.part, "measured-streams")
        crossings.append(Crossing(pair, _received(slower), int(flows) if flows else None, min(trips) / 2 if trips else None))
    return tuple(crossings)


def _received(way: _Way) -> float:
    return float(number(way.part, "measured-rate-received") or 0)
