"""Settings of fabrics: purpose, MTU, partitions, subnet managers, free addresses (M5.3, P5; rules section 5)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import PURPOSES, counting, fabric_subject, fabrics_for, few
from bridgehead.assess.scope import Scope
from bridgehead.model.estate import Site
from bridgehead.model.fabric import Fabric, FabricKind, FabricPurpose
from bridgehead.model.finding import Finding

_MANAGERS = 2
Fabrics = tuple[Fabric, ...]


def _purposes(scope: Scope) -> Iterator[Finding]:
    wanted = {FabricPurpose.COMPUTE} if scope.source is None else {fabric.purpose for fabric in scope.source.fabrics}
    unsaid = [(site, fabric) for site in scope.sites for fabric in site.fabrics if fabric.purpose is FabricPurpose.UNKNOWN]
    for site, fabric in sorted(unsaid, key=lambda pair: (pair[0].id, pair[1].id)):
        case = Case(PURPOSE, f"{site.id}/fabric:{fabric.id}")
        yield case.unknown("nobody said what it is for", measurement="say of each fabric whether it is for compute, storage or management")
    for purpose in PURPOSES:
        if purpose not in wanted:
            continue
        case = Case(PURPOSE, scope.target.id, state=purpose.value)
        case.take("fabrics", len(scope.target.fabrics), "", f"sites.{scope.target.id}.fabrics.*")
        if fabrics_for(scope.target, purpose):
            yield case.holds(True, f"it has a {purpose} fabric", remedy="")
        elif not scope.target.fabrics or any(site is scope.target for site, _ in unsaid):
            yield case.unknown(f"no {purpose} fabric of it is described", measurement="describe the fabrics of the target")
        else:
            yield case.holds(False, f"it has no {purpose} fabric", remedy=f"build a {purpose} fabric")


def _mtu_of(case: Case, site: Site, purpose: FabricPurpose, *, least: bool) -> int | None:
    values = [case.take("MTU", fabric.mtu, "bytes", f"sites.{site.id}.fabrics.{fabric.id}.mtu") for fabric in fabrics_for(site, purpose)]
    known = [value for value in values if value is not None]
    if least:
        return min(known, default=None)
    return max(known, default=None)


def _both(scope: Scope) -> Iterator[tuple[FabricPurpose, tuple[Site, Fabrics], tuple[Site, Fabrics]]]:
    """Each purpose for which both sites have fabrics, with those of the source and of the target."""
    home = scope.source
    if home is None:
        return
    for purpose in PURPOSES:
        source, target = fabrics_for(home, purpose), fabrics_for(scope.target, purpose)
        if source and target:
            yield purpose, (home, source), (scope.target, target)


def _mtu(scope: Scope) -> Iterator[Finding]:
    for purpose, (source, _), (_, target) in _both(scope):
        case = Case(MTU, fabric_subject(scope.target, target))
        has, had = _mtu_of(case, scope.target, purpose, least=True), _mtu_of(case, source, purpose, least=False)
        ask = "read the MTU of each fabric at both sites"
        if has is None or had is None:
            yield case.unknown("the MTU of a fabric is not known", measurement=ask)
            continue
        yield case.at_least(
            has,
            had,
            "bytes",
            f"the {purpose} fabric takes packets of {has} bytes, at the source {had}",
            remedy=f"set the MTU of the whole path to {had}, adapters and switches included",
            measurement=ask,
        )


def _partitions(scope: Scope) -> Iterator[Finding]:
    for purpose, (home, source), (_, target) in _both(scope):
        case = Case(PARTITIONS, fabric_subject(scope.target, target))
        ask = "list partition keys and VLANs of each fabric at both sites"
        for site, fabrics in ((home, source), (scope.target, target)):
            for fabric in fabrics:
                text = None if fabric.partitions is None else ", ".join(sorted(fabric.partitions))
                case.take("partitions", text, "", f"sites.{site.id}.fabrics.{fabric.id}.partitions")
        has = {key.casefold() for fabric in target for key in fabric.partitions or ()}
        lacking = sorted({key for fabric in source for key in fabric.partitions or () if key.casefold() not in has})
        if lacking and any(fabric.partitions is None for fabric in target):
            yield case.unknown(f"the partitions of the {purpose} fabric are not known", measurement=ask)
        else:
            text = f"it lacks {few(lacking)}" if lacking else f"it has each partition of the source's {purpose} fabric"
            yield case.holds(not lacking, text, remedy=f"add {few(lacking)} before anything moves", measurement=ask)


def _managers(scope: Scope) -> Iterator[Finding]:
    for fabric in sorted(scope.target.fabrics, key=lambda one: one.id):
        if fabric.kind is not FabricKind.INFINIBAND:
            continue
        case = Case(MANAGERS, f"{scope.target.id}/fabric:{fabric.id}")
        path = f"sites.{scope.target.id}.fabrics.{fabric.id}.subnet_managers"
        count = case.take("subnet managers", fabric.subnet_managers, "", path)
        if count is None:
            yield case.unknown("its subnet managers are not known", measurement="count the subnet managers of each fabric (sminfo)")
        else:
            yield case.at_least(
                count,
                _MANAGERS,
                "",
                f"it has {counting(count, 'subnet manager')}, of which one is in charge",
                remedy="run a second subnet manager on standby",
            )


def _addresses(scope: Scope) -> Iterator[Finding]:
    if scope.source is None or not scope.incoming:
        return
    for purpose in PURPOSES:
        target = fabrics_for(scope.target, purpose)
        ids = {fabric.id for fabric in fabrics_for(scope.source, purpose)}
        needed = sum(1 for node in scope.incoming for nic in node.nics if nic.fabric in ids)
        if not target or not needed:
            continue
        case = Case(ADDRESSES, fabric_subject(scope.target, target))
        case.take("needed", needed, "", f"sites.{scope.source.id}.nodes.*")
        found = [
            case.take("free", fabric.free_addresses, "", f"sites.{scope.target.id}.fabrics.{fabric.id}.free_addresses") for fabric in target
        ]
        free = sum(value for value in found if value is not None)
        if any(value is None for value in found):
            yield case.unknown(
                f"addresses are needed for {counting(needed, 'adapter')}, and nobody counted the free ones",
                measurement="count the free addresses of each fabric of the target",
            )
        else:
            yield case.at_least(
                free,
                needed,
                "",
                f"addresses are needed for {counting(needed, 'adapter')}; {free} free",
                remedy="enlarge the subnet",
            )


PURPOSE = Check(
    "FAB-PURPOSE",
    "Has the target a fabric for each purpose?",
    ("M5.3",),
    "compute, storage and management are kept apart (rules section 5, F01)",
    _purposes,
)
MTU = Check(
    "FAB-MTU",
    "Do packets of the source's size fit?",
    ("M5.3", "P5"),
    "least MTU of the target >= greatest of the source (rules section 5)",
    _mtu,
)
PARTITIONS = Check(
    "FAB-PARTITIONS",
    "Has the target each partition of the source?",
    ("M5.3",),
    "partitions of the source are among the target's (rules section 5)",
    _partitions,
)
MANAGERS = Check(
    "FAB-MANAGERS",
    "Can a second subnet manager take over?",
    ("M5.3", "M10.2"),
    "subnet managers >= 2 (InfiniBand; rules section 5)",
    _managers,
)
ADDRESSES = Check(
    "FAB-ADDRESSES",
    "Are there addresses for all that comes?",
    ("M5.3",),
    "free addresses >= adapters that come (rules section 5)",
    _addresses,
)
CHECKS = (PURPOSE, MTU, PARTITIONS, MANAGERS, ADDRESSES)
