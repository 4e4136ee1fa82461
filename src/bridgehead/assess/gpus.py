"""GPU checks: whether each site has the GPUs for its workloads, by model, with the spare capacity of the policy (M5.3, M10.1, P1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.power_math import spares
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Site, Workload
from bridgehead.model.finding import Finding, Origin


def _gpus(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        here = scope.workloads if site is scope.target else [one for one in scope.workloads if one.site == site.id]
        nodes = (*site.nodes, *(scope.incoming if site is scope.target else ()))
        yield from _site(scope, site, nodes, [one for one in here if one.gpus])


def _site(scope: Scope, site: Site, nodes: Iterable[Node], workloads: Iterable[Workload]) -> Iterator[Finding]:
    have = Counter[str]()
    for node in nodes:
        have[node.gpu_model] += node.gpus
    need, doubtful = Counter[str](), defaultdict[str, list[str]](list)
    for workload in workloads:
        models = [workload.gpu_model] if workload.gpu_model else _perhaps(scope, workload.site)
        if not models:
            yield _case(site, f"workload {workload.id}").unknown(
                f"nobody said which GPU model {workload.id} needs, and its site has none", measurement=asking.GPU_MODEL
            )
        for model in models:
            # A workload that may need any of several models counts for each of them: more is never promised than there is.
            need[model] += workload.gpus
            if len(models) > 1 or (not workload.gpu_model and not have[model]):
                doubtful[model].append(workload.id)
    for model in sorted(need):
        yield _model(scope, site, model, need[model], have[model], doubtful[model])


def _perhaps(scope: Scope, home: SiteId) -> list[str]:
    """The models on which a workload may be running now; that it needs one of them is as good as certain."""
    return sorted({node.gpu_model for site in scope.estate.sites if site.id == home for node in site.nodes if node.gpus and node.gpu_model})


def _case(site: Site, what: str) -> Case:
    return Case(GPUS, f"{site.id}/gpus:{what}")


def _model(scope: Scope, site: Site, model: str, need: int, have: int, doubtful: list[str]) -> Finding:
    case = _case(site, model)
    case.take("needed", need, "", "workloads.*.gpus", origin=Origin.DERIVED)
    case.take("there", have, "", f"sites.{site.id}.nodes.*.gpus", origin=Origin.DERIVED)
    reserve = case.take("reserve", scope.policy.reserve, "1", "policy.reserve") or 0.0
    spare = spares(need, share=reserve)
    text = f"{site.id} has {have} {model}; its workloads use {need}, and {spare} more should be spare"
    if doubtful and have < need + spare:
        names = ", ".join(sorted(doubtful)[:5])
        return case.unknown(f"{text}; it is not known whether {names} need this model", measurement=asking.GPU_MODEL)
    return case.at_least(have, need + spare, "", text, remedy="bring more GPUs of this model, or shrink or pause workloads (M13)")


GPUS = Check(
    "PLACE-GPUS",
    "Does each site have the GPUs for its workloads, by model, and the spare capacity?",
    ("M5.3", "M10.1", "P1"),
    "Σ GPUs of nodes of the model >= Σ GPUs of workloads + ceil(reserve · that) (rules section 7, M10.1)",
    _gpus,
)
CHECKS: tuple[Check, ...] = (GPUS,)
