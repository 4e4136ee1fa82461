"""Stretched fabrics: overlay and classes of traffic, compared at both sites (M8.1, M8.2; rules section 6, WN4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import PURPOSES, counting, fabrics_for, shown
from bridgehead.assess.scope import Scope
from bridgehead.assess.wan_math import failover_s
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Site
from bridgehead.model.fabric import Fabric, FabricKind
from bridgehead.model.finding import Finding, Origin

_FAILOVER_S: Final = 0.05
"""M8.1: failover under 50 ms."""
_OVERLAY_BYTES: Final = 50
"""VXLAN over IPv4 puts 14 + 8 + 8 + 20 bytes around a packet."""
_SETTINGS: Final = "read VXLAN, EVPN, ECMP and BFD from the switch configurations of both sites"
_CLASSES: Final = "read PFC, ECN and DSCP maps from the switch configurations of both sites"
_TIMES: Final = "measure the time from detection to traffic on the other path at both sites"


class Pair(msgspec.Struct, frozen=True):
    """A fabric of the source and the one of the target that continues it."""

    source: Site
    source_fabric: Fabric
    target: Site
    target_fabric: Fabric

    @property
    def sides(self) -> tuple[tuple[Site, Fabric], tuple[Site, Fabric]]:
        """Both sites with their fabric, the source first."""
        return ((self.source, self.source_fabric), (self.target, self.target_fabric))

    @property
    def subject(self) -> str:
        """Of findings about the pair."""
        return f"{self.target.id}/fabric:{self.target_fabric.id}"


def pairs(scope: Scope) -> tuple[Pair, ...]:
    """Ethernet fabrics of both sites that belong together: of one purpose, and of several with the same name first."""
    if scope.source is None:
        return ()
    found: list[Pair] = []
    for purpose in PURPOSES:
        left, right = (
            {fabric.id: fabric for fabric in fabrics_for(site, purpose) if fabric.kind is not FabricKind.INFINIBAND}
            for site in (scope.source, scope.target)
        )
        same = sorted(left.keys() & right.keys())
        rest = zip(sorted(left.keys() - right.keys()), sorted(right.keys() - left.keys()), strict=False)
        for one, other in [*((name, name) for name in same), *rest]:
            found.append(Pair(scope.source, left[one], scope.target, right[other]))
    return tuple(found)


def _stretched(pair: Pair) -> bool | None:
    """Whether it carries an overlay; None when nobody said."""
    vnis = [fabric.stretch.vnis for _, fabric in pair.sides]
    if any(vnis):
        return True
    return None if None in vnis else False


def _overlay(scope: Scope) -> Iterator[Finding]:
    for pair in pairs(scope):
        yield from _same(OVERLAY, pair, "vnis", "VXLAN identifiers", _SETTINGS)
        if _stretched(pair) is False:
            continue
        for name, words in (("evpn", "EVPN"), ("loop_prevention", "stopping of addresses that flap")):
            yield _both_on(pair, name, words)
        yield _ecmp(pair)
        yield from _same(OVERLAY, pair, "bfd_interval_s", "BFD interval", _SETTINGS)
        yield from _same(OVERLAY, pair, "bfd_multiplier", "BFD multiplier", _SETTINGS)


def _words(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return ", ".join(f"{point}: {priority}" for point, priority in sorted(value.items())) or "none"
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in sorted(set(value))) or "none"
    return str(value)


def _same(check: Check, pair: Pair, name: str, words: str, ask: str) -> Iterator[Finding]:
    """One finding: the setting is the same at both sites; a mismatch names both values."""
    case = Case(check, pair.subject, state=words)
    group = "qos" if name in ("pfc", "ecn", "dscp") else "stretch"
    values = []
    for site, fabric in pair.sides:
        value = _words(getattr(getattr(fabric, group), name))
        field = name.removesuffix("_s")
        values.append(case.take(f"{words} at {site.id}", value, "", f"sites.{site.id}.fabrics.{fabric.id}.{group}.{field}"))
    had, has = values
    if had is None or has is None:
        at = pair.source.id if had is None else pair.target.id
        yield case.unknown(f"{words} at {at} is not known", measurement=ask)
        return
    text = f"{words}: {has} at {pair.target.id}, {had} at {pair.source.id}"
    yield case.holds(had == has, text, remedy="set both sites alike before traffic goes over", value=has, limit=had)


def _both_on(pair: Pair, name: str, words: str) -> Finding:
    case = Case(OVERLAY, pair.subject, state=words)
    values = [
        case.take(f"{words} at {site.id}", getattr(fabric.stretch, name), "", f"sites.{site.id}.fabrics.{fabric.id}.stretch.{name}")
        for site, fabric in pair.sides
    ]
    off = [site.id for (site, _), value in zip(pair.sides, values, strict=True) if value is False]
    if not off and None in values:
        return case.unknown(f"whether {words} is on is not known", measurement=_SETTINGS)
    text = f"{words} is off at {' and '.join(off)}" if off else f"{words} is on at both sites"
    return case.holds(not off, text, remedy=f"switch {words} on at both sites", measurement=_SETTINGS)


def _ecmp(pair: Pair) -> Finding:
    case = Case(OVERLAY, pair.subject, state="ECMP")
    values = [
        case.take(f"ECMP at {site.id}", fabric.stretch.ecmp, "", f"sites.{site.id}.fabrics.{fabric.id}.stretch.ecmp")
        for site, fabric in pair.sides
    ]
    known = [value for value in values if value is not None]
    had, has = values
    if known and min(known) < 2:
        return case.at_least(
            min(known),
            2,
            "",
            f"ECMP uses {counting(min(known), 'path')} only",
            remedy="use all equal paths at both sites",
            measurement=_SETTINGS,
        )
    if had is None or has is None:
        return case.unknown("the number of equal paths is not known", measurement=_SETTINGS)
    text = f"ECMP: {has} paths at {pair.target.id}, {had} at {pair.source.id}"
    return case.holds(has == had, text, remedy="use all equal paths at both sites", value=has, limit=had)


def _failover(scope: Scope) -> Iterator[Finding]:
    for pair in pairs(scope):
        if _stretched(pair) is False:
            continue
        for site, fabric in sorted(pair.sides, key=lambda side: side[0].id):
            case = Case(FAILOVER, f"{site.id}/fabric:{fabric.id}")
            path = f"sites.{site.id}.fabrics.{fabric.id}.stretch"
            interval = case.take("interval", fabric.stretch.bfd_interval_s, "s", f"{path}.bfd_interval")
            multiplier = case.take("multiplier", fabric.stretch.bfd_multiplier, "", f"{path}.bfd_multiplier")
            reroute = case.take("re-route", fabric.stretch.reroute_s, "s", f"{path}.reroute")
            case.take("limit", _FAILOVER_S, "s", "requirement M8.1", origin=Origin.DEFAULT)
            least = failover_s(interval or 0.0, multiplier=multiplier or 1, reroute_s=reroute or 0.0)
            if least < _FAILOVER_S and (interval is None or multiplier is None or reroute is None):
                yield case.unknown(
                    "the time from a failed path to traffic on another one is not known; a BFD timer alone is no failover time",
                    measurement=f"{_SETTINGS}; {_TIMES}",
                )
                continue
            text = f"a failed path is left after {shown(least, Dimension.DURATION)}, less than 50 ms are wanted"
            yield case.holds(
                least < _FAILOVER_S, text, remedy="shorten the BFD interval and re-routing", value=least, limit=_FAILOVER_S, unit="s"
            )


def _packets(scope: Scope) -> Iterator[Finding]:
    for pair in pairs(scope):
        if _stretched(pair) is False:
            continue
        for link in sorted(scope.links, key=lambda one: one.id):
            case = Case(PACKETS, f"link:{link.id}", state=pair.target_fabric.id)
            has = case.take("MTU of the line", link.mtu, "bytes", f"links.{link.id}.mtu")
            sizes = [
                case.take(f"MTU at {site.id}", fabric.mtu, "bytes", f"sites.{site.id}.fabrics.{fabric.id}.mtu")
                for site, fabric in pair.sides
            ]
            inner = max((size for size in sizes if size is not None), default=None)
            ask = "read the MTU of each line, and of each fabric at both sites"
            if has is None or inner is None:
                yield case.unknown("whether stretched packets fit through the line is not known", measurement=ask)
                continue
            case.take("overlay", _OVERLAY_BYTES, "bytes", "VXLAN over IPv4", origin=Origin.DEFAULT)
            limit = inner + _OVERLAY_BYTES
            text = f"stretched packets of {inner} bytes need {limit} on the line, which takes {has}"
            yield case.at_least(has, limit, "bytes", text, remedy="raise the MTU of the line, or lower it at the edge", measurement=ask)


def _qos(scope: Scope) -> Iterator[Finding]:
    for pair in pairs(scope):
        lossless = any(fabric.kind is FabricKind.ROCE for _, fabric in pair.sides)
        for name, words in (("pfc", "lossless priorities (PFC)"), ("ecn", "marked priorities (ECN)"), ("dscp", "DSCP map")):
            given = any(getattr(fabric.qos, name) is not None for _, fabric in pair.sides)
            if lossless or given:
                yield from _same(QOS, pair, name, words, _CLASSES)


OVERLAY = Check(
    "STR-OVERLAY",
    "Is the overlay set alike at both sites?",
    ("M8.1",),
    "same VNIs and BFD timers, EVPN and loop prevention on, at least 2 equal paths; 'vnis: []' says that nothing is stretched (M8.1)",
    _overlay,
)
FAILOVER = Check(
    "STR-FAILOVER",
    "Is a failed path left in less than 50 ms?",
    ("M8.1",),
    "BFD interval · multiplier + re-route < 50 ms (rules section 6)",
    _failover,
)
PACKETS = Check(
    "STR-MTU",
    "Do stretched packets fit through each line?",
    ("M8.1", "P5"),
    "MTU of the line >= greatest MTU of the fabric + 50 (VXLAN over IPv4, RFC 7348; M8.1)",
    _packets,
)
QOS = Check(
    "QOS-CLASSES",
    "Are classes of traffic treated alike at both sites?",
    ("M8.2",),
    "lossless priorities, marked priorities and DSCP map are equal; a mismatch degrades silently (M8.2)",
    _qos,
)
CHECKS = (OVERLAY, FAILOVER, PACKETS, QOS)
