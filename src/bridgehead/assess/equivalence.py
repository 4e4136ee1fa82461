"""Topology equivalence: the target beside the source by classes of GPU, adapter and switch, never by names (M2, M3; rules section 5)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import PURPOSES, counted, counting, fabric_subject, fabrics_for, few, shown
from bridgehead.assess.scope import Scope
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Site
from bridgehead.model.fabric import Fabric, FabricId, FabricPurpose, Switch, SwitchRole
from bridgehead.model.finding import Finding, Origin, Severity

_MODELS = "read adapters, NVLinks and GPU model of each node at both sites (nvidia-smi -q, nvidia-smi topo -m)"
_SWITCHES = "describe the switches of each fabric at both sites: ports, rates, uplinks (ibnetdiscover)"


def node_class(node: Node, fabrics: dict[FabricId, Fabric]) -> str:
    """What a node is, whatever its name: GPUs, their links, and per GPU the adapters beside it; order and indices do not count."""
    beside: defaultdict[int | None, list[str]] = defaultdict(list)
    for nic in node.nics:
        fabric = fabrics.get(nic.fabric)
        if fabric is not None and fabric.purpose is FabricPurpose.COMPUTE:
            beside[nic.gpu].append(f"{fabric.kind} {shown(nic.rate_bps, Dimension.RATE)}")
    rails = Counter("+".join(sorted(kinds)) for gpu, kinds in beside.items() if gpu is not None)
    loose = Counter(beside.get(None, ()))
    links = Counter(str(count) for count in node.gpu_links)
    parts = [f"{node.gpus} {node.gpu_model or 'GPUs of unknown model'}"]
    parts += [f"{count} GPUs beside {kinds}" for kinds, count in sorted(rails.items())]
    parts += [f"{count} x {kind} beside no GPU" for kind, count in sorted(loose.items())]
    parts += [f"{count} GPUs with {number} NVLinks" for number, count in sorted(links.items())]
    return ", ".join(parts)


def fabric_class(switches: tuple[Switch, ...]) -> dict[str, str]:
    """What a fabric is, whatever the names of its switches: tiers, planes, kinds of leaves. Values as texts, for comparison."""
    leaves = [one for one in switches if one.role is SwitchRole.LEAF]
    kinds = Counter(_leaf_class(leaf) for leaf in leaves)
    return {
        "tiers": str(len({one.role for one in switches})),
        "planes": str(len({leaf.plane for leaf in leaves if leaf.plane is not None}) or 1),
        "leaves": "; ".join(sorted(kinds)),
    }


def _leaf_class(leaf: Switch) -> str:
    rate = shown(leaf.port_rate_bps, Dimension.RATE) if leaf.port_rate_bps else "?"
    up = Counter[str]()
    for uplink in leaf.uplinks:
        up[shown(uplink.rate_bps, Dimension.RATE)] += uplink.count
    return f"{leaf.ports} ports of {rate}, upwards {counted(up)}"


def _fabrics(site: Site) -> dict[FabricId, Fabric]:
    return {fabric.id: fabric for fabric in site.fabrics}


def _compared(scope: Scope) -> tuple[list[Node], list[Node]] | None:
    """GPU nodes of source and target, when the target has its own and both are to be compared."""
    if scope.source is None or scope.incoming:
        return None
    source, target = ([node for node in site.nodes if node.gpus] for site in (scope.source, scope.target))
    return (source, target) if source and target else None


def _nodes(scope: Scope) -> Iterator[Finding]:
    pair = _compared(scope)
    if pair is None or scope.source is None:
        return
    had = Counter(node_class(node, _fabrics(scope.source)) for node in pair[0])
    has = Counter(node_class(node, _fabrics(scope.target)) for node in pair[1])
    case = Case(NODES, scope.target.id)
    case.take("source", counted(had), "", f"sites.{scope.source.id}.nodes.*", origin=Origin.DERIVED)
    case.take("target", counted(has), "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
    vague = [[node.id for node in nodes if _unclassed(node)] for nodes in pair]
    sure = [
        Counter(node_class(node, _fabrics(site)) for node in nodes if not _unclassed(node))
        for site, nodes in zip((scope.source, scope.target), pair, strict=True)
    ]
    lacking = sure[0] - sure[1]
    if lacking.total() > len(vague[1]):
        yield case.holds(
            False, _lacking(lacking, had, has), remedy="mend the nodes that differ, add nodes of this kind, or plan for the difference"
        )
    elif any(vague):
        names = {name for side in vague for name in side}
        yield case.unknown(
            f"the class of {counting(len(vague[0]) + len(vague[1]), 'node')} is not known: {few(names)}", measurement=_MODELS
        )
    else:
        yield case.holds(True, f"each class of node of the source is there: {counted(had)}", remedy="")


def _lacking(lacking: Counter[str], had: Counter[str], has: Counter[str]) -> str:
    """``2 of 64 nodes are not there that have 8 H100, ...``, kind by kind."""
    each = [
        f"it lacks {count} of {counting(had[kind], 'node')} with {kind} (it has {has[kind]})" for kind, count in sorted(lacking.items())
    ]
    return "; ".join(each)


def _unclassed(node: Node) -> bool:
    return not node.gpu_model or not node.gpu_links or not node.nics or any(nic.gpu is None for nic in node.nics)


def _per_gpu(nodes: list[Node], fabrics: dict[FabricId, Fabric]) -> dict[str, float]:
    """Least compute bandwidth beside a GPU, by GPU model."""
    least: dict[str, float] = {}
    for node in nodes:
        rates = [
            nic.rate_bps for nic in node.nics if (found := fabrics.get(nic.fabric)) is not None and found.purpose is FabricPurpose.COMPUTE
        ]
        least[node.gpu_model] = min(least.get(node.gpu_model, float("inf")), sum(rates) / node.gpus)
    return least


def _rails(scope: Scope) -> Iterator[Finding]:
    pair = _compared(scope)
    if pair is None or scope.source is None:
        return
    had, has = _per_gpu(pair[0], _fabrics(scope.source)), _per_gpu(pair[1], _fabrics(scope.target))
    floor = min(has.values())
    for model in sorted(had):
        case = Case(RAILS, scope.target.id, state=model)
        case.take("source", had[model], "bit/s", f"sites.{scope.source.id}.nodes.*", origin=Origin.DERIVED)
        case.take("target", floor, "bit/s", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
        if had[model] == 0 or floor == 0 or any(not node.gpu_model for nodes in pair for node in nodes):
            yield case.unknown("the model or the adapters of some nodes are not known", measurement=_MODELS)
            continue
        now = has.get(model, floor)
        text = (
            f"at its weakest node each GPU has {shown(now, Dimension.RATE)} of adapters; each {model} of the source has "
            f"{shown(had[model], Dimension.RATE)}"
        )
        yield case.at_least(
            now,
            had[model],
            "bit/s",
            text,
            remedy="mend or add adapters at the weakest node, or expect slower collectives and say so in the plan",
        )


def _fabric(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    for purpose in PURPOSES:
        pair = (fabrics_for(scope.source, purpose), fabrics_for(scope.target, purpose))
        if not all(pair):
            continue
        case = Case(FABRIC, fabric_subject(scope.target, pair[1]))
        described = [_switches(site, fabrics) for site, fabrics in zip((scope.source, scope.target), pair, strict=True)]
        had, has = (fabric_class(switches) for switches in described)
        for side, site, found in (("source", scope.source, had), ("target", scope.target, has)):
            for name, value in found.items():
                case.take(f"{name} of the {side}", value, "", f"sites.{site.id}.switches.*", origin=Origin.DERIVED)
        if any(not switches or any(_vague(one) for one in switches) for switches in described):
            yield case.unknown(f"the switches of the {purpose} fabrics are not all described", measurement=_SWITCHES)
            continue
        kinds = [{fabric.kind.value for fabric in fabrics} for fabrics in pair]
        other = [f"{name}: {has[name]}, at the source {had[name]}" for name in had if had[name] != has[name]]
        other += [f"kind: {'+'.join(sorted(kinds[1]))}, at the source {'+'.join(sorted(kinds[0]))}"] if kinds[0] != kinds[1] else []
        text = "; ".join(other) if other else f"same tiers, planes and kinds of leaves as the source's {purpose} fabric"
        yield case.holds(not other, text, remedy="measure collectives at full scale before trusting it")


def _switches(site: Site, fabrics: tuple[Fabric, ...]) -> tuple[Switch, ...]:
    ids = {fabric.id for fabric in fabrics}
    return tuple(sorted((one for one in site.switches if one.fabric in ids), key=lambda one: one.id))


def _vague(switch: Switch) -> bool:
    return switch.role is SwitchRole.LEAF and (switch.ports is None or switch.port_rate_bps is None or switch.plane is None)


NODES = Check(
    "TOP-NODES",
    "Has the target each class of node of the source?",
    ("M2", "M3"),
    "multiset of classes (GPU model and count, adapters beside each GPU, NVLinks) of the source is part of the target's (rules section 5)",
    _nodes,
    Severity.WARNING,
)
RAILS = Check(
    "TOP-RAILS",
    "Has each GPU as much network as at the source?",
    ("M2", "M3"),
    "sum of compute adapters / GPUs, least node of a model; target >= source (rules section 5)",
    _rails,
)
FABRIC = Check(
    "TOP-FABRIC",
    "Is the fabric built like the source's?",
    ("M3",),
    "tiers, planes and multiset of leaves (ports, rate, uplinks), names left out (rules section 5)",
    _fabric,
    Severity.WARNING,
)
CHECKS = (NODES, RAILS, FABRIC)
