"""Carriage: what is to be brought over, within which time, at which rate; shared by the checks of lines and of data. Pure."""

from __future__ import annotations

from bridgehead.assess.checking import Case
from bridgehead.assess.checkpoint_math import checkpoint_bytes
from bridgehead.assess.scope import Scope
from bridgehead.assess.wan_math import LINE_EFFICIENCY
from bridgehead.model.estate import Link, Workload, WorkloadKind
from bridgehead.model.finding import Origin

RATES = "measure the received rate of each link between the sites (iperf3 -R, several flows), and what production takes at its busiest"
SIZES = "give the size of one checkpoint of each workload (0 B where it keeps none)"

KEEPS_STATE = (WorkloadKind.TRAINING, WorkloadKind.BATCH, WorkloadKind.INFERENCE)
"""Kinds of work with bytes that must be at the target: checkpoints, or the weights that are served."""


def moved(scope: Scope) -> tuple[Workload, ...]:
    """Workloads that go over, by name."""
    if scope.source is None:
        return ()
    return tuple(sorted((one for one in scope.workloads if one.site == scope.source.id), key=lambda one: one.id))


def size_bytes(case: Case, workload: Workload) -> float | None:
    """Size of one checkpoint; from parameters it is a guess (SZ1); None when it is missing."""
    path = f"workloads.{workload.id}"
    known = workload.total_checkpoint_bytes
    if known is None and workload.parameters is not None and workload.bytes_per_parameter is not None:
        guessed = checkpoint_bytes(workload.parameters, bytes_per_parameter=workload.bytes_per_parameter)
        return case.guess("size", None, "B", f"{path}.checkpoint", otherwise=guessed, because="parameters · bytes per parameter")
    if workload.checkpoint_per_gpu_bytes is not None:
        case.take("size per GPU", workload.checkpoint_per_gpu_bytes, "B", f"{path}.checkpoint_per_gpu")
        case.take("GPUs", workload.gpus, "", f"{path}.gpus")
        return known
    return case.take("size", known, "B", f"{path}.checkpoint")


def link_rate(case: Case, link: Link) -> float:
    """What a link carries: measured as received, else a guess of 80 % of the line (rules section 6)."""
    path = f"links.{link.id}"
    if link.measured_bps is not None:
        case.take("measured", link.measured_bps, "bit/s", f"{path}.measured", origin=Origin.MEASURED)
        return link.measured_bps
    return case.guess("rate", None, "bit/s", f"{path}.measured", otherwise=link.rate_bps * LINE_EFFICIENCY, because="80 % of the line")


def free_rate(case: Case, scope: Scope) -> float:
    """What all links leave to the move: production first, and never more than the policy allows (M8.4)."""
    total = 0.0
    for link in sorted(scope.links, key=lambda one: one.id):
        rate = link_rate(case, link)
        used = case.take("used", link.used_bps, "bit/s", f"links.{link.id}.used")
        total += max(0.0, rate - (used or 0.0))
    cap = scope.policy.limits.rate_bps
    if cap is not None:
        case.take("allowed", cap, "bit/s", "policy.limits.rate")
        return min(total, cap)
    return total
