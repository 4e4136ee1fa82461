"""Interconnect health: GPUs, NVLinks and adapters of each node against what it was built with, and against its siblings (M2, F05, D09)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import Placed, counting, few, judged_nodes
from bridgehead.assess.scope import Scope
from bridgehead.model.fabric import FabricPurpose, Nic, NicId
from bridgehead.model.finding import Finding, Origin

_BUILT: Final = "give the number of GPUs that each node was built with (data sheet, or gpus_expected)"
_LINKS: Final = "count the active NVLinks of each GPU (nvidia-smi nvlink --status), and say how many it was built with"
_MODELS: Final = "give the model of each node and of its GPUs, so that siblings can be compared"
_STATE: Final = "read the state of each compute adapter (ibstat, ethtool)"

_NVLINKS: Final = (
    (re.compile(r"\b(H100|H200|H20)\b.*\b(SXM\d?|HBM3e?)\b|\b(B200|B300|GB200|GB300)\b"), 18),
    (re.compile(r"\b(H800|A800)\b.*\bSXM\d?\b"), 8),
    (re.compile(r"\bA100\b.*\bSXM\d?\b"), 12),
    (re.compile(r"\bV100\b.*\bSXM\d?\b"), 6),
)
"""NVLinks of GPUs on SXM boards, from the makers' data sheets (an input with a default: ``gpu_links_expected`` goes before it)."""


def links_by_model(gpu_model: str) -> int | None:
    """NVLinks of a GPU model as its data sheet says; None where the model alone does not tell, as with cards for PCIe slots."""
    return next((count for pattern, count in _NVLINKS if pattern.search(gpu_model)), None)


def _siblings(nodes: Iterable[Placed]) -> dict[tuple[str, str], list[Placed]]:
    """By model and GPU model, the nodes that should be alike; one whose GPU model nobody knows may be like any of its model."""
    found: defaultdict[str, defaultdict[str, list[Placed]]] = defaultdict(lambda: defaultdict(list))
    for placed in nodes:
        if placed.node.model:
            found[placed.node.model][placed.node.gpu_model].append(placed)
    groups: dict[tuple[str, str], list[Placed]] = {}
    for model, kinds in sorted(found.items()):
        for kind, own in sorted(kinds.items()):
            others = [one for name, held in kinds.items() if (not kind or not name) and name != kind for one in held]
            groups[model, kind] = [*own, *others]
    return groups


def _with_gpus(scope: Scope) -> tuple[Placed, ...]:
    return tuple(placed for placed in judged_nodes(scope) if placed.node.gpus or placed.node.gpus_expected)


def _missing_addresses(placed: Placed, siblings: Sequence[Placed]) -> list[str]:
    """PCI addresses that most siblings have and this node has not (D09)."""
    lists = [sibling.node.gpu_addresses for sibling in siblings if sibling is not placed and sibling.node.gpu_addresses]
    if not lists or not placed.node.gpu_addresses:
        return []
    counts = Counter(address.casefold() for addresses in lists for address in set(addresses))
    own = {address.casefold() for address in placed.node.gpu_addresses}
    return sorted(address for address, count in counts.items() if count * 2 > len(lists) and address not in own)


def _gpus(scope: Scope) -> Iterator[Finding]:
    nodes = _with_gpus(scope)
    if not nodes:
        return
    siblings = _siblings(nodes)
    failed = False
    for placed in nodes:
        others = siblings.get((placed.node.model, placed.node.gpu_model), [placed])
        expected = placed.node.gpus_expected
        most = max(max(one.node.gpus, one.node.gpus_expected or 0) for one in others) if expected is None else expected
        if placed.node.gpus >= most:
            continue
        failed = True
        case = Case(GPUS, placed.subject)
        case.take("GPUs", placed.node.gpus, "", f"{placed.path}.gpus")
        case.take("expected", most, "", f"{placed.path}.gpus_expected", origin=Origin.DERIVED if expected is None else Origin.DECLARED)
        gone = _missing_addresses(placed, others)
        where = f"; the one at {', '.join(gone)} is missing" if gone else ""
        text = f"it has {placed.node.gpus} of {counting(most, 'GPU')}{where}"
        yield case.at_least(placed.node.gpus, most, "", text, remedy="reseat or replace the GPU before the node is counted")
    vague = [placed.node.id for placed in nodes if placed.node.gpus_expected is None]
    yield from _rest(GPUS, scope, "all their GPUs", failed, unknown=vague, of=len(nodes), ask=_BUILT)


def _rest(check: Check, scope: Scope, have: str, failed: bool, *, unknown: Sequence[str], of: int, ask: str) -> Iterator[Finding]:
    """What is said of all nodes that did not fail, together."""
    case = Case(check, scope.target.id)
    case.take("nodes", of, "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
    if unknown:
        case.take("not known", ", ".join(sorted(unknown)), "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
        yield case.unknown(
            f"it is not known of {len(set(unknown))} of {counting(of, 'node')} whether they have {have}: {few(unknown)}", measurement=ask
        )
    elif not failed:
        yield case.holds(True, f"all {counting(of, 'node')} have {have}", remedy="")


def _nvlinks(scope: Scope) -> Iterator[Finding]:
    nodes = [placed for placed in _with_gpus(scope) if placed.node.gpus]
    if not nodes:
        return
    best: defaultdict[str, int] = defaultdict(int)
    for placed in nodes:
        best[placed.node.gpu_model] = max(best[placed.node.gpu_model], *placed.node.gpu_links, 0)
    failed, unknown = False, []
    for placed in nodes:
        node = placed.node
        built = node.gpu_links_expected
        expected = built if built is not None else links_by_model(node.gpu_model)
        most = expected if expected is not None else best[node.gpu_model]
        weak = [index for index, links in enumerate(node.gpu_links) if links < most]
        if weak:
            failed = True
            yield _weak_links(placed, weak, most, declared=built is not None)
        elif expected is None or len(node.gpu_links) < node.gpus:
            unknown.append(node.id)
    yield from _rest(NVLINKS, scope, "all their NVLinks", failed, unknown=unknown, of=len(nodes), ask=_LINKS)


def _weak_links(placed: Placed, weak: list[int], most: int, *, declared: bool) -> Finding:
    node = placed.node
    case = Case(NVLINKS, placed.subject)
    least = min(node.gpu_links[index] for index in weak)
    case.take("active", least, "", f"{placed.path}.gpu_links")
    case.take("expected", most, "", f"{placed.path}.gpu_links_expected", origin=Origin.DECLARED if declared else Origin.DERIVED)
    names = [f"GPU {index}{_address(node.gpu_addresses, index)} has {node.gpu_links[index]} of {most} NVLinks" for index in weak]
    sheet = links_by_model(node.gpu_model)
    other = f" (the data sheet of its model says {sheet})" if sheet is not None and sheet != most else ""
    text = f"{few(names)}; NVLink bandwidth there is {least / most:.0%} of what it was built for{other}"
    return case.at_least(least, most, "", text, remedy="reseat the baseboard or replace the GPU, then run the acceptance tests again")


def _address(addresses: tuple[str, ...], index: int) -> str:
    return f" ({addresses[index]})" if index < len(addresses) else ""


def _compute(placed: Placed) -> list[Nic]:
    """Adapters for collectives; those for management and storage are no rails (D01)."""
    ids = {fabric.id for fabric in placed.site.fabrics if fabric.purpose is FabricPurpose.COMPUTE}
    return [nic for nic in placed.node.nics if nic.fabric in ids]


def _adapters(scope: Scope) -> Iterator[Finding]:
    nodes = _with_gpus(scope)
    if not nodes:
        return
    found = {placed.subject: _compute(placed) for placed in nodes}
    failed, unknown = False, []
    nameless = any(not placed.node.model for placed in nodes)
    for (_, kind), group in _siblings(nodes).items():
        counts = Counter(name for placed in group for name in {nic.id for nic in found[placed.subject]})
        most = max(len(found[placed.subject]) for placed in group)
        alike = [one for one in group if one.node.gpu_model == kind]
        alone = len(alike) == 1 or not kind  # one that only may be alike can show that adapters are missing, never that none is
        for placed in alike:
            nics = found[placed.subject]
            if len(nics) < most:
                failed = True
                yield _too_few(placed, nics, most, counts, len(group))
            elif alone or nameless or not nics:
                unknown.append(placed.node.id)
    unknown += [placed.node.id for placed in nodes if not placed.node.model]
    yield from _rest(ADAPTERS, scope, "all their compute adapters", failed, unknown=unknown, of=len(nodes), ask=_MODELS)


def _too_few(placed: Placed, nics: list[Nic], most: int, counts: Mapping[NicId, int], of: int) -> Finding:
    case = Case(ADAPTERS, placed.subject)
    case.take("adapters", len(nics), "", f"{placed.path}.nics.*", origin=Origin.DERIVED)
    case.take("of siblings", most, "", f"{placed.path}.nics.*", origin=Origin.DERIVED)
    own = {nic.id for nic in nics}
    gone = sorted(name for name, count in counts.items() if name not in own and count * 2 >= of)
    where = f"; missing: {few(gone)}" if gone else ""
    text = f"it has {counting(len(nics), 'compute adapter')}, its siblings have {most}{where}"
    return case.at_least(len(nics), most, "", text, remedy="reseat or replace the adapter before the node is counted")


def _link_state(scope: Scope) -> Iterator[Finding]:
    nodes = [(placed, _compute(placed)) for placed in _with_gpus(scope)]
    nodes = [(placed, nics) for placed, nics in nodes if nics]
    if not nodes:
        return
    failed, unknown = False, []
    for placed, nics in nodes:
        down = sorted(nic.id for nic in nics if nic.active is False)
        if down:
            failed = True
            case = Case(LINK_STATE, placed.subject)
            for name in down:
                case.take(f"{name} is up", False, "", f"{placed.path}.nics.{name}.active")
            yield case.holds(False, f"the link is down at {few(down)}", remedy="check cable, transceiver and switch port")
        if any(nic.active is None for nic in nics):
            unknown.append(placed.node.id)
    yield from _rest(LINK_STATE, scope, "a link at each compute adapter", failed, unknown=unknown, of=len(nodes), ask=_STATE)


GPUS = Check(
    "INT-GPUS",
    "Has each node all its GPUs?",
    ("M2", "M5.1"),
    "GPUs that the driver counts >= those that it was built with; where nobody said, those of its siblings (same model and "
    "GPU), which prove no pass (D09)",
    _gpus,
)
NVLINKS = Check(
    "INT-NVLINKS",
    "Has each GPU all its NVLinks?",
    ("M2",),
    "active NVLinks >= those that it was built with, whatever a tool's own verdict says (D13, F05)",
    _nvlinks,
)
ADAPTERS = Check(
    "INT-ADAPTERS",
    "Has each node all its compute adapters?",
    ("M2", "M5.1"),
    "compute adapters >= those of its siblings (nodes of one model with the same GPU; D01, D09)",
    _adapters,
)
LINK_STATE = Check("INT-LINKS-UP", "Are the links of all compute adapters up?", ("M2",), "each compute adapter is active (M2)", _link_state)
CHECKS = (GPUS, NVLINKS, ADAPTERS, LINK_STATE)
