"""Storage: room for what comes, rate for checkpoints, and one server that everything hangs on (M4, M5.3, P23)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from bridgehead.assess.carriage import SIZES, size_bytes
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import shown
from bridgehead.assess.scope import Scope
from bridgehead.assess.workloads import SAVES, ordered
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Store, StoreKind
from bridgehead.model.estate import Site
from bridgehead.model.finding import Finding, Origin, Severity

_USED: Final = "read the bytes used on each store (df, bucket metrics)"
_RATES: Final = "measure the rates of writing and reading of each store with many clients (fio, ior)"
_SERVERS: Final = "say how each store is mounted, and count the servers behind it"


def _stores(site: Site) -> list[Store]:
    return sorted(site.stores, key=lambda store: store.id)


def _single(scope: Scope) -> Iterator[Finding]:
    for store in _stores(scope.target):
        if store.kind is not StoreKind.FILESYSTEM:
            continue
        case = Case(SINGLE, f"{scope.target.id}/store:{store.id}")
        path = f"sites.{scope.target.id}.stores.{store.id}"
        protocol = case.take("protocol", store.protocol or None, "", f"{path}.protocol")
        servers = case.take("servers", store.servers, "", f"{path}.servers")
        nfs = protocol is not None and protocol.casefold().startswith("nfs")
        if nfs and servers == 1:
            text = "one NFS server serves it: a bottleneck, and lost with it"
            yield case.at_least(1, 2, "", text, remedy="put checkpoints on a parallel file system or an object store")
        elif protocol is None or (nfs and servers is None):
            yield case.unknown("how many servers serve it is not known", measurement=_SERVERS)
        else:
            proved = Case(SINGLE, f"{scope.target.id}/store:{store.id}")
            proved.take("protocol", protocol, "", f"{path}.protocol")
            yield proved.holds(True, f"{protocol}, served by {servers or 'several'} servers", remedy="")


def _room(scope: Scope) -> Iterator[Finding]:
    if scope.source is None or not scope.source.stores:
        return
    for kind in StoreKind:
        coming = [store for store in _stores(scope.source) if store.kind is kind]
        if not coming:
            continue
        there = [store for store in _stores(scope.target) if store.kind is kind]
        case = Case(ROOM, scope.target.id, state=kind.value)
        used = [case.take("comes", one.used_bytes, "B", f"sites.{scope.source.id}.stores.{one.id}.used") for one in coming]
        taken = [case.take("taken", one.used_bytes, "B", f"sites.{scope.target.id}.stores.{one.id}.used") for one in there]
        case.take("margin", scope.policy.margin, "1", "policy.margin", origin=Origin.DEFAULT)
        if not scope.target.stores:
            yield case.unknown("no store of the target is described", measurement="describe the stores of the target")
            continue
        free = sum(store.size_bytes - (gone or 0) for store, gone in zip(there, taken, strict=True))
        total = sum(value or 0 for value in used)
        need = total * (1 + scope.policy.margin)
        text = (
            f"{shown(total, Dimension.SIZE)} come, {shown(int(need), Dimension.SIZE)} with the margin;"
            f" {shown(free, Dimension.SIZE)} are free on {kind} stores"
        )
        yield case.at_least(free, need, "B", text, remedy="add capacity, or leave cold data behind", measurement=_USED)


def _writes(scope: Scope) -> Iterator[Finding]:
    workloads = ordered(scope, *SAVES)
    if not workloads:
        return
    case = Case(WRITES, scope.target.id)
    need, whole = 0.0, True
    for workload in workloads:
        size = size_bytes(case, workload)
        every = case.take("interval", workload.checkpoint_every_s, "s", f"workloads.{workload.id}.checkpoint_every")
        if size is None or (size and not every):
            whole = False
        elif every:
            need += size * 8 / every
    case.take("margin", scope.policy.margin, "1", "policy.margin", origin=Origin.DEFAULT)
    if not scope.target.stores:
        yield case.unknown("no store of the target is described", measurement="describe the stores of the target")
        return
    rates = [
        case.take("write", store.write_bps, "bit/s", f"sites.{scope.target.id}.stores.{store.id}.write", origin=Origin.MEASURED)
        for store in _stores(scope.target)
    ]
    if None in rates:
        yield case.unknown("how fast the stores of the target write was not measured", measurement=_RATES)
        return
    has, limit = sum(rate or 0.0 for rate in rates), need * (1 + scope.policy.margin)
    text = (
        f"checkpoints write {shown(need, Dimension.RATE)} on average, {shown(limit, Dimension.RATE)} with the margin;"
        f" the stores take {shown(has, Dimension.RATE)}"
    )
    if has >= limit and not whole:
        ask = f"{SIZES}; give the interval of checkpoints"
        yield case.unknown("size or interval of some checkpoints is not known", measurement=ask)
        return
    remedy = "save less often, or write to a faster store"
    yield case.at_least(has, limit, "bit/s", text, remedy=remedy, measurement=f"{SIZES}; give the interval of checkpoints")


def _rates(scope: Scope) -> Iterator[Finding]:
    if scope.source is None or not scope.source.stores or not scope.target.stores:
        return
    for name in ("write", "read"):
        case = Case(RATES, scope.target.id, state=name)
        found: defaultdict[str, list[float | None]] = defaultdict(list)
        for site in scope.sites:
            for store in _stores(site):
                value = store.write_bps if name == "write" else store.read_bps
                path = f"sites.{site.id}.stores.{store.id}.{name}"
                found[site.id].append(case.take(name, value, "bit/s", path, origin=Origin.MEASURED))
        had, has = (sum(value or 0.0 for value in found[site.id]) for site in (scope.source, scope.target))
        if None in found[scope.target.id] or (has >= had and None in found[scope.source.id]):
            yield case.unknown(f"how fast stores {name} was not measured at both sites", measurement=_RATES)
            continue
        text = f"stores {name} {shown(has, Dimension.RATE)}, at the source {shown(had, Dimension.RATE)}"
        yield case.at_least(has, had, "bit/s", text, remedy="expect longer saves and restores, or add servers", measurement=_RATES)


SINGLE = Check(
    "STO-SINGLE",
    "Does a file system hang on one NFS server?",
    ("P23",),
    "NFS has at least 2 servers (P23: one NFS server is a bottleneck)",
    _single,
    Severity.WARNING,
)
ROOM = Check(
    "STO-ROOM", "Is there room for the data that comes?", ("M5.3", "M4"), "size - used >= used at the source · (1 + margin) (M5.3)", _room
)
WRITES = Check(
    "STO-CHECKPOINTS",
    "Do the stores take all checkpoints at their intervals?",
    ("M4", "M5.3"),
    "sum of writing rates >= sum of checkpoint · 8 / interval · (1 + margin) (rules section 7, M5.3)",
    _writes,
)
RATES = Check(
    "STO-RATES",
    "Are the stores as fast as the source's?",
    ("M4",),
    "sum of measured rates of the target >= of the source (M4)",
    _rates,
    Severity.WARNING,
)
CHECKS = (SINGLE, ROOM, WRITES, RATES)
