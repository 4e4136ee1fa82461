"""Firmware, driver and BIOS: drift among siblings, against the source and the golden set, with what it blocks (M5.1; rules section 10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import by_class, few, judged_nodes
from bridgehead.assess.scope import Scope
from bridgehead.assess.version import older, plain
from bridgehead.model.finding import Finding, Origin, Severity
from bridgehead.model.policy import Golden

_READ: Final = (
    "read model, firmware, driver and BIOS versions of each node, adapter and switch (nvidia-smi -q, ibv_devinfo, flint, dmidecode)"
)

COLLECTIVES: Final = frozenset(
    {"driver", "vbios", "nic", "ofed", "nccl", "cuda", "fabric-manager", "fabricmanager", "nvswitch", "switch", "gpu"}
)
"""Components whose drift breaks NVLink or collectives."""
COSMETIC: Final = frozenset({"bmc", "lcd", "cpld", "psu", "fan"})
"""Components whose drift changes nothing that jobs see."""
# Everything else, BIOS included, may change PCIe behaviour or not: drift in it is unknown.


class Part(msgspec.Struct, frozen=True):
    """One thing with a version: whose it is, what it is, and among which it should be alike."""

    owner: str
    path: str
    kind: str
    component: str
    version: str


def parts(scope: Scope) -> tuple[Part, ...]:
    """All versions of what has to work at the target; a component that any node names is asked of each GPU node."""
    nodes = [placed for placed in judged_nodes(scope) if placed.node.gpus]
    asked = sorted({"driver", *(name for placed in nodes for name in placed.node.firmware)})
    found: list[Part] = []
    for placed in nodes:
        node, subject = placed.node, placed.subject
        for name in asked:
            kind = node.gpu_model if name in COLLECTIVES else node.model
            found.append(Part(subject, f"{placed.path}.firmware.{name}", kind, name, node.firmware.get(name, "")))
        found += [
            Part(f"{subject}/nic:{nic.id}", f"{placed.path}.nics.{nic.id}.firmware", nic.model, "nic", nic.firmware) for nic in node.nics
        ]
    for switch in scope.target.switches:
        path = f"sites.{scope.target.id}.switches.{switch.id}.firmware"
        found.append(Part(f"{scope.target.id}/switch:{switch.id}", path, switch.model, "switch", switch.firmware))
    return tuple(found)


def _groups(scope: Scope) -> dict[tuple[str, str], list[Part]]:
    found: defaultdict[tuple[str, str], list[Part]] = defaultdict(list)
    for part in parts(scope):
        found[part.component, part.kind].append(part)
    return dict(sorted(found.items()))


def _drift(scope: Scope) -> Iterator[Finding]:
    groups = _groups(scope)
    for (component, kind), group in groups.items():
        if component in COLLECTIVES:
            case = Case(DRIFT, scope.target.id, state=_state(component, kind))
            yield _alike(case, component, group, classed=(component, "") not in groups)


def _state(component: str, kind: str) -> str:
    return f"{component} of {kind or 'unknown models'}"


def _other_drift(scope: Scope) -> Iterator[Finding]:
    groups = _groups(scope)
    for (component, kind), group in groups.items():
        if component in COLLECTIVES:
            continue
        case = Case(OTHER, scope.target.id, state=_state(component, kind))
        versions = {plain(part.version) for part in group} - {""}
        if component in COSMETIC:
            yield case.holds(True, f"{component}: {few(versions) or 'not known'}; drift in it is cosmetic", remedy="")
        elif len(versions) > 1:
            text = f"{component} differs ({few(versions)}), and nobody knows what that does"
            yield case.unknown(text, measurement=f"compare collectives on nodes with each {component} version, or make them alike")
        else:
            yield _alike(case, component, group, classed=(component, "") not in groups)


def _alike(case: Case, component: str, group: list[Part], *, classed: bool) -> Finding:
    classes = by_class({part.owner: plain(part.version) for part in group})
    known = {version: owners for version, owners in classes.items() if version}
    case.take("versions", ", ".join(sorted(known)) or None, "", group[0].path)
    if len(known) > 1 and group[0].kind:
        (usual, many), *others = known.items()
        odd = "; ".join(f"{version} at {few(owners)}" for version, owners in others)
        blocks = "; that can break NVLink or collectives" if component in COLLECTIVES else ""
        text = f"{component} differs: {usual} at {len(many)} of {len(group)}, {odd}{blocks}"
        return case.holds(False, text, remedy=f"bring all to one {component} version before the acceptance tests")
    if len(known) < len(classes):
        return case.unknown(f"{component} is not known at {few(classes[''])}", measurement=_READ)
    if not classed:
        return case.unknown(f"not all models are known, so that {component} cannot be compared in classes", measurement=_READ)
    return case.holds(True, f"{component} is {next(iter(known))} at all {len(group)}", remedy="")


def _restore(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    sources: dict[str, str] = {node.id: node.firmware.get("driver", "") for node in scope.source.nodes if node.gpus}
    targets = {placed.subject: placed.node.firmware.get("driver", "") for placed in judged_nodes(scope) if placed.node.gpus}
    if not sources or not targets:
        return
    case = Case(RESTORE, scope.target.id)
    had, has = by_class(sources), by_class(targets)
    case.take("drivers of the source", ", ".join(sorted(had)) or None, "", f"sites.{scope.source.id}.nodes.*", origin=Origin.DERIVED)
    case.take("drivers of the target", ", ".join(sorted(has)) or None, "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
    unknown = "" in had or "" in has
    for before in sorted(had):
        for after in sorted(has):
            behind = older(after, before)
            if before and after and behind:
                text = f"driver {after} at {few(has[after])} is older than {before}, with which checkpoints are written"
                yield case.holds(False, text, remedy=f"bring the driver to {before} or later")
                return
            unknown = unknown or behind is None
    if unknown:
        yield case.unknown("not all driver versions are known and comparable", measurement=_READ)
    else:
        yield case.holds(True, f"no driver is older than {few(had)}", remedy="")


def right(golden: Golden, version: str) -> bool | None:
    """Whether a version is in the golden set; None when it is not known or not comparable."""
    if not plain(version):
        return None
    if golden.allowed and plain(version) in {plain(one) for one in golden.allowed}:
        return True
    bounded = bool(golden.at_least or golden.below)
    if not bounded:
        return not golden.allowed
    low = older(version, golden.at_least) if golden.at_least else False
    high = older(version, golden.below) if golden.below else True
    if low or high is False:
        return False
    return None if low is None or high is None else True


def _golden(scope: Scope) -> Iterator[Finding]:
    found: defaultdict[str, list[Part]] = defaultdict(list)
    for part in parts(scope):
        found[part.component].append(part)
    gpu_nodes = [placed for placed in judged_nodes(scope) if placed.node.gpus]
    for golden in sorted(scope.policy.firmware, key=lambda one: one.id):
        case = Case(GOLDEN, scope.target.id, state=golden.id)
        group = found.get(golden.id) or [Part(one.subject, f"{one.path}.firmware.{golden.id}", "", golden.id, "") for one in gpu_nodes]
        if not group:
            continue
        case.take("golden", _golden_words(golden), "", f"policy.firmware.{golden.id}")
        judged = {part.owner: right(golden, part.version) for part in group}
        versions = {part.owner: part.version for part in group}
        wrong = sorted(owner for owner, verdict in judged.items() if verdict is False)
        vague = sorted(owner for owner, verdict in judged.items() if verdict is None)
        if wrong:
            names = few(f"{owner} has {versions[owner]}" for owner in wrong)
            yield case.holds(
                False, f"{golden.id} should be {_golden_words(golden)}; {names}", remedy=f"bring {golden.id} to the golden set"
            )
        elif vague:
            yield case.unknown(f"{golden.id} is not known, or not comparable, at {few(vague)}", measurement=_READ)
        else:
            yield case.holds(True, f"{golden.id} is in the golden set at all {len(group)}", remedy="")


def _golden_words(golden: Golden) -> str:
    words = [" or ".join(golden.allowed)] if golden.allowed else []
    bounds = [f"at least {golden.at_least}"] if golden.at_least else []
    bounds += [f"below {golden.below}"] if golden.below else []
    return ", or ".join([*words, *([" and ".join(bounds)] if bounds else [])]) or "anything"


DRIFT = Check(
    "FW-COLLECTIVES",
    "Is what NVLink and collectives rest on the same everywhere?",
    ("M5.1", "P5"),
    "one version of driver, vbios, adapters, switches, NCCL, CUDA, OFED, fabric manager in each class (rules section 10)",
    _drift,
)
OTHER = Check(
    "FW-OTHER",
    "Is other firmware the same everywhere?",
    ("M5.1",),
    "one version in each class; BMC, CPLD and the like are cosmetic, what others do is unknown (rules section 10)",
    _other_drift,
    Severity.WARNING,
)
RESTORE = Check(
    "FW-RESTORE",
    "Is no driver older than at the checkpoint?",
    ("M5.1",),
    "oldest driver of the target >= newest driver of the source (rules section 10)",
    _restore,
)
GOLDEN = Check(
    "FW-GOLDEN",
    "Are all versions in the golden set?",
    ("M5.1",),
    "version in allowed, or at_least <= version < below (policy.firmware, rules section 10)",
    _golden,
)
CHECKS = (DRIFT, OTHER, RESTORE, GOLDEN)
