"""Fabric checks: is the network of the target, leaf by leaf and rack by rack, as good as the source's (M3, M5.3, P23; rules section 5)?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fabric_load import FabricLoad
from bridgehead.assess.fabric_math import oversubscription, two_tier
from bridgehead.assess.fleet import PURPOSES, counting, fabric_subject, fabrics_for, few, shown
from bridgehead.assess.scope import Scope
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Site
from bridgehead.model.fabric import FabricPurpose, Nic, SwitchId, SwitchRole
from bridgehead.model.finding import Finding, Origin, Severity

CABLING = "read the cabling of the fabric (ibnetdiscover, lldpctl) and give the switch of each adapter"
UPLINKS = "read the cabling of the fabric (ibnetdiscover, lldpctl) and give the uplinks of each leaf"
_PORTS = "give the number and rate of the ports of each leaf (data sheet)"
_TRAFFIC = (FabricPurpose.COMPUTE, FabricPurpose.STORAGE)


class _Share(msgspec.Struct, frozen=True):
    """GPUs of a node that comes, and its adapters in fabrics of one purpose."""

    gpus: int
    nics: tuple[Nic, ...]


def load_of(scope: Scope, site: Site, purpose: FabricPurpose) -> FabricLoad:
    """The load of all fabrics of one purpose; at the target of carried nodes each free port counts as taken."""
    return FabricLoad(site, fabrics_for(site, purpose), design=site is scope.target and bool(scope.incoming))


def _unknown_leaves(load: FabricLoad) -> tuple[str, str] | None:
    """Why the speeds of the leaves cannot be known, and what settles it."""
    if not load.leaves:
        return "no leaf of it is described", UPLINKS
    if load.without_uplinks:
        return f"nobody gave the uplinks of {few(load.without_uplinks)}", UPLINKS
    unmeasured = [leaf.switch.id for leaf in load.leaves if leaf.down_bps is None]
    if unmeasured:
        return f"nobody gave the ports of {few(unmeasured)}", _PORTS
    if load.without_topology and not load.design:
        return f"no topology is known for {few(load.without_topology)}", CABLING
    return None


def _greatest(load: FabricLoad) -> float:
    """Worst oversubscription of leaves that are known well enough; 1 where no leaf has to go upwards."""
    ratios = [(leaf.down_bps or 0.0, leaf.up_bps) for leaf in load.leaves if leaf.up_bps]
    return oversubscription(ratios).greatest if ratios else 0.0


def _topology(scope: Scope) -> Iterator[Finding]:
    for purpose in PURPOSES:
        load = load_of(scope, scope.target, purpose)
        if not load.fabrics or not load.cabled:
            continue
        case = Case(TOPOLOGY, fabric_subject(scope.target, load.fabrics))
        case.take("nodes", len(load.cabled), "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
        lost = load.without_topology
        if lost:
            case.take("no topology", ", ".join(lost), "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
            yield case.unknown(
                f"{len(lost)} of {counting(len(load.cabled), 'node')} stand without topology in the {purpose} fabric: {few(lost)}",
                measurement=CABLING,
            )
        else:
            yield case.holds(True, f"all {counting(len(load.cabled), 'node')} hang on known leaves of the {purpose} fabric", remedy="")


def _oversubscription(scope: Scope) -> Iterator[Finding]:
    for purpose in _TRAFFIC:
        load = load_of(scope, scope.target, purpose)
        if not load.fabrics:
            continue
        case = Case(OVERSUBSCRIPTION, fabric_subject(scope.target, load.fabrics))
        reason = _unknown_leaves(load)
        if reason:
            yield case.unknown(f"the oversubscription of its leaves cannot be told: {reason[0]}", measurement=reason[1])
            continue
        ratios = [(leaf.down_bps or 0.0, leaf.up_bps) for leaf in load.leaves if leaf.up_bps]
        if not ratios:
            yield case.holds(True, "each of its planes is one leaf, so nothing goes upwards", remedy="")
            continue
        spread = oversubscription(ratios)
        for name, value in (("least", spread.least), ("median", spread.median), ("greatest", spread.greatest)):
            case.take(name, value, "", f"sites.{scope.target.id}.switches.*", origin=Origin.DERIVED)
        worst = max(load.leaves, key=lambda leaf: ((leaf.down_bps or 0.0) / leaf.up_bps if leaf.up_bps else 0.0, leaf.switch.id))
        text = (
            f"leaves take in {spread.least:.3g} to {spread.greatest:.3g} times what they carry upwards"
            f" (median {spread.median:.3g}; worst {worst.switch.id})"
        )
        if scope.source is None:
            yield case.holds(True, text, remedy="", value=spread.greatest)
            continue
        before = load_of(scope, scope.source, purpose)
        why = _unknown_leaves(before)
        if not before.fabrics:
            yield case.holds(True, f"{text}; the source has no {purpose} fabric to compare with", remedy="", value=spread.greatest)
            continue
        if why:
            yield case.unknown(f"{text}, and the source's cannot be told: {why[0]}", measurement=why[1])
            continue
        # A leaf that takes in no more than it carries upwards holds nothing back, whatever the source has.
        limit = max(1.0, _greatest(before))
        case.take("source", limit, "", f"sites.{scope.source.id}.switches.*", origin=Origin.DERIVED)
        yield case.at_most(
            spread.greatest, limit, "", f"{text}; at the source at most {limit:.3g}", remedy=f"add uplinks to {worst.switch.id}"
        )


def _between_racks(load: FabricLoad, scope: Scope) -> tuple[float | None, tuple[str, str] | None]:
    """Bandwidth between racks per GPU, and why it cannot be told."""
    reason = _unknown_leaves(load)
    if reason:
        return None, reason
    if load.design:
        rates = [sum(nic.rate_bps for nic in node.nics) / node.gpus for node in _coming(scope, load) if node.gpus]
        return (min(rates) / max(1.0, _greatest(load)) if rates else None), None
    homeless = [node.id for node, _ in load.cabled if node.rack is None]
    if homeless:
        return None, (f"nobody gave the rack of {few(homeless)}", "give the rack of each node")
    return load.rack_to_rack_bps_per_gpu(), None


def _coming(scope: Scope, load: FabricLoad) -> Iterable[_Share]:
    purpose = load.fabrics[0].purpose
    ids = set() if scope.source is None else {fabric.id for fabric in fabrics_for(scope.source, purpose)}
    return [_Share(node.gpus, tuple(nic for nic in node.nics if nic.fabric in ids)) for node in scope.incoming]


def _bandwidth(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    for purpose in _TRAFFIC:
        after, before = load_of(scope, scope.target, purpose), load_of(scope, scope.source, purpose)
        if not after.fabrics or not before.fabrics:
            continue
        case = Case(BANDWIDTH, fabric_subject(scope.target, after.fabrics))
        (had, why_not), (has, why) = _between_racks(before, scope), _between_racks(after, scope)
        reason = why or why_not
        if reason:
            where = scope.target.id if why else scope.source.id
            yield case.unknown(f"the bandwidth between racks cannot be told: at {where} {reason[0]}", measurement=reason[1])
            continue
        if had is None or has is None:
            continue
        case.take("source", had, "bit/s", f"sites.{scope.source.id}.switches.*", origin=Origin.DERIVED)
        case.take("target", has, "bit/s", f"sites.{scope.target.id}.switches.*", origin=Origin.DERIVED)
        text = f"between any two racks each GPU has {shown(has, Dimension.RATE)}, at the source {shown(had, Dimension.RATE)}"
        yield case.at_least(has, had, "bit/s", text, remedy="add uplinks or spines until no pair of racks is slower than at the source")


def _ports(scope: Scope) -> Iterator[Finding]:
    if not scope.incoming or scope.source is None:
        return
    for purpose in PURPOSES:
        load = load_of(scope, scope.target, purpose)
        if not load.fabrics:
            continue
        needed = sum(len(node.nics) for node in _coming(scope, load))
        if not needed:
            continue
        case = Case(PORTS, fabric_subject(scope.target, load.fabrics))
        case.take("needed", needed, "", f"sites.{scope.source.id}.nodes.*", origin=Origin.DERIVED)
        leaves = [leaf.switch for leaf in load.leaves]
        unknown = sorted(leaf.id for leaf in leaves if leaf.ports is None)
        if not leaves or unknown:
            what = f"nobody gave the ports of {few(unknown)}" if leaves else "no leaf of it is described"
            yield case.unknown(f"ports are needed for {counting(needed, 'adapter')}, and {what}", measurement=_PORTS)
            continue
        cabled = sum(1 for _, nics in load.cabled for nic in nics if nic.switch in load.switches)
        free = sum((leaf.ports or 0) - sum(uplink.count for uplink in leaf.uplinks) for leaf in leaves) - cabled
        case.take("free", free, "", f"sites.{scope.target.id}.switches.*", origin=Origin.DERIVED)
        radix = max(leaf.ports or 0 for leaf in leaves)
        plan = two_tier(needed, radix=radix) if radix > 1 else None
        remedy = f"a fabric that holds nothing back needs {plan.leaves} leaves and {plan.spines} spines of {radix} ports" if plan else ""
        yield case.at_least(
            free,
            needed,
            "",
            f"ports are needed for {counting(needed, 'adapter')}; {free} free on the leaves",
            remedy=remedy or "add leaves",
        )


def _losses(scope: Scope) -> Iterator[Finding]:
    load = load_of(scope, scope.target, FabricPurpose.COMPUTE)
    if not load.fabrics or not any(node.gpus for node, _ in load.cabled):
        return
    case = Case(LOSS, fabric_subject(scope.target, load.fabrics))
    reason = _unknown_leaves(load)
    if not reason and load.without_topology:
        reason = f"no topology is known for {few(load.without_topology)}", CABLING
    if reason:
        yield case.unknown(f"what the loss of one switch costs cannot be told: {reason[0]}", measurement=reason[1])
        return
    cut: defaultdict[str, int] = defaultdict(int)
    only: dict[str, set[SwitchId]] = {leaf.switch.id: {uplink.id for uplink in leaf.switch.uplinks} for leaf in load.leaves}
    for node, nics in load.cabled:
        on = {str(nic.switch) for nic in nics}
        if len(on) == 1:
            cut[next(iter(on))] += node.gpus
        above = set().union(*(only[leaf] for leaf in on))
        if len(above) == 1 and all(only[leaf] for leaf in on):
            cut[str(next(iter(above)))] += node.gpus
    gpus = sum(node.gpus for node, _ in load.cabled)
    worst, lost = max(cut.items(), key=lambda entry: (entry[1], entry[0]), default=("", 0))
    case.take("GPUs", gpus, "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
    case.take("reserve", scope.policy.reserve, "1", "policy.reserve", origin=Origin.DEFAULT)
    text = f"the loss of {worst} cuts off {lost} of {gpus} GPUs" if lost else "the loss of no single switch cuts a node off"
    yield case.at_most(lost / gpus, scope.policy.reserve, "", text, remedy="cable each node to two leaves, and each leaf to two spines")


def _rails(scope: Scope) -> Iterator[Finding]:
    load = load_of(scope, scope.target, FabricPurpose.COMPUTE)
    nodes = [(node, nics) for node, nics in load.cabled if node.gpus and nics]
    if not load.fabrics or not nodes:
        return
    case = Case(RAILS, fabric_subject(scope.target, load.fabrics))
    flat = sum(1 for one in load.switches.values() if one.role is SwitchRole.LEAF) == 1
    homes: defaultdict[int, Counter[int]] = defaultdict(Counter)
    seen: list[tuple[str, int, int]] = []
    unknown: set[str] = set()
    doubled: set[str] = set()
    for node, nics in nodes:
        beside = Counter(nic.gpu for nic in nics if nic.gpu is not None)
        if node.gpus <= len(nics) == beside.total() and (len(beside) < node.gpus or len(set(beside.values())) > 1):
            doubled.add(node.id)
        for nic in nics:
            plane = 0 if flat else (load.switches[nic.switch].plane if nic.switch in load.switches else None)
            if nic.gpu is None or plane is None:
                unknown.add(node.id)
            else:
                homes[nic.gpu][plane] += 1
                seen.append((node.id, nic.gpu, plane))
    usual = {gpu: _most(planes) for gpu, planes in homes.items()}
    astray = sorted({f"{node} (GPU {gpu} on plane {plane})" for node, gpu, plane in seen if usual[gpu] != plane})
    case.take("nodes", len(nodes), "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
    if astray or doubled:
        what = [f"the adapter beside a GPU hangs on another plane than at most nodes: {few(astray)}"] if astray else []
        what += [f"adapters are not spread evenly over the GPUs: {few(doubled)}"] if doubled else []
        yield case.holds(False, "; ".join(what), remedy="cable each GPU's adapter to the plane of its rail")
    elif unknown:
        settles = "give the GPU of each adapter (nvidia-smi topo -m), and the switch and plane that it hangs on"
        yield case.unknown(f"the rail of each GPU is not known for {few(unknown)}", measurement=settles)
    else:
        yield case.holds(True, f"GPUs of the same index hang on the same plane at all {len(nodes)} nodes", remedy="")


def _most(planes: Counter[int]) -> int | None:
    """The plane of most; None when there is no such, and then all of them are suspect."""
    first, *rest = planes.most_common(2)
    return None if rest and rest[0][1] == first[1] else first[0]


TOPOLOGY = Check(
    "FAB-TOPOLOGY",
    "Does each node hang on leaves that are known?",
    ("M2", "M5.1"),
    "each adapter of the purpose names a leaf (F02: a node without topology never passes)",
    _topology,
)
OVERSUBSCRIPTION = Check(
    "FAB-OVERSUBSCRIPTION",
    "Do leaves hold back no more than at the source?",
    ("M3", "M5.3"),
    "speed down / speed up per leaf; greatest of the target <= max(1, greatest of the source) (rules section 5)",
    _oversubscription,
)
BANDWIDTH = Check(
    "FAB-BANDWIDTH",
    "Is the bandwidth between any two racks at least the source's?",
    ("M3", "M5.3"),
    "min over pairs of racks of sum over planes of min(cut, cut), per GPU; target >= source (rules section 5)",
    _bandwidth,
)
PORTS = Check(
    "FAB-PORTS",
    "Are there leaf ports for all that comes?",
    ("M5.3",),
    "ports - uplinks - cabled >= adapters that come; leaves = ceil(ports/(k/2)), spines = ceil(leaves·(k/2)/k) (rules section 5)",
    _ports,
)
LOSS = Check(
    "FAB-SWITCH-LOSS",
    "Does the loss of one switch cost no more than the reserve?",
    ("M10.2", "M10.1"),
    "GPUs whose node has all its paths through one switch / all GPUs <= reserve (rules section 2)",
    _losses,
    Severity.WARNING,
)
RAILS = Check(
    "FAB-RAILS",
    "Do GPUs of the same index share a plane?",
    ("M2", "M3"),
    "GPU -> adapter -> leaf -> plane is the same at all nodes (rules section 5)",
    _rails,
)
CHECKS = (TOPOLOGY, OVERSUBSCRIPTION, BANDWIDTH, PORTS, LOSS, RAILS)
