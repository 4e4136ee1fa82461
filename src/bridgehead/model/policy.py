"""Move policy: what a move must respect (M5.3, M7.3, M10.1; R1, R2). Files are read by ``read_policy``."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Annotated, Any

import msgspec

from bridgehead.kernel.decode import Decoder
from bridgehead.kernel.document import dump, read_document, to_file
from bridgehead.kernel.ids import Person, SiteId
from bridgehead.kernel.located import Mark, Path
from bridgehead.kernel.moment import Moment
from bridgehead.kernel.phrase import nearest
from bridgehead.kernel.quantity import BitsPerSecond, Seconds, Share, format_quantity
from bridgehead.kernel.schema import json_schema
from bridgehead.kernel.shape import Keyed, shape_of
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import ObjectiveId
from bridgehead.model.fabric import AtLeastOne
from bridgehead.model.logistics import BridgeheadShare, Logistics, PhaseLengths, Precopy, Prices, Spares, Weights
from bridgehead.model.power import Fraction
from bridgehead.model.site_map import SiteMap, check_site_map

Part = Annotated[Share, msgspec.Meta(ge=0, lt=1)]
Positive = Annotated[Seconds, msgspec.Meta(gt=0)]


class Period(msgspec.Struct, frozen=True):
    """A time span.

    Attributes:
        begins_s: first moment.
        ends_s: the moment after the last.
        reason: why.
    """

    begins_s: Moment
    ends_s: Moment
    reason: str = ""


class Limits(msgspec.Struct, frozen=True):
    """How much at once.

    Attributes:
        concurrent_moves: workloads that may be on their way at the same time.
        rate_bps: bandwidth that the move may take; production keeps the rest (M8.4).
    """

    concurrent_moves: AtLeastOne = 1
    rate_bps: BitsPerSecond | None = None


class Canary(msgspec.Struct, frozen=True):
    """How traffic goes over (M7.3).

    Attributes:
        steps: shares of the traffic at the target, growing, the last one 100 %.
        soak_s: time at each step before the next.
    """

    steps: Annotated[tuple[Fraction, ...], msgspec.Meta(min_length=1)] = (0.05, 0.25, 0.5, 1.0)
    soak_s: Seconds = 600.0


class Approval(msgspec.Struct, frozen=True):
    """Who must agree to something.

    Attributes:
        id: what they agree to ("cut-over").
        approvers: the people who may.
        quorum: how many of them must.
        expires_s: after this long without an answer it counts as refused.
    """

    id: str
    approvers: Annotated[tuple[Person, ...], msgspec.Meta(min_length=1)]
    quorum: AtLeastOne = 1
    expires_s: Positive = 14_400.0


class Objective(msgspec.Struct, frozen=True):
    """What must hold after a disaster.

    Attributes:
        rpo_s: how much work may be lost; 0 for none.
        rto_s: how long it may take until it serves again.
    """

    id: ObjectiveId
    rpo_s: Seconds
    rto_s: Positive


class LossBudget(msgspec.Struct, frozen=True):
    """How much compute a move may cost (M1).

    Attributes:
        per_workload_s: time from the source's last step to the target's next new step.
        gpu_hours: of all workloads together.
    """

    per_workload_s: Seconds | None = None
    gpu_hours: Annotated[float, msgspec.Meta(ge=0)] | None = None


class Golden(msgspec.Struct, frozen=True):
    """Which versions of a component are right (rules section 10).

    Attributes:
        id: the component, as ``firmware`` of nodes names it (``driver``, ``vbios``), or ``switch``, or ``nic``.
        allowed: versions that are equally right.
        at_least: the oldest version that is right.
        below: the first version that is no longer right.
    """

    id: str
    allowed: tuple[str, ...] = ()
    at_least: str = ""
    below: str = ""


class RiskEstimate(msgspec.Struct, frozen=True):
    """What people say of one risk (M5.4).

    Attributes:
        id: the code of the findings that it is drawn from, or the name of a risk that every move has, as ``assess --risks`` shows it.
        owner: who answers for it.
        probability: share of moves like this one in which it happens.
        cost: what it would cost, in the policy's currency.
        mitigation: what is done about it, where that is another thing than what is proposed.
    """

    id: str
    owner: Person = Person("")
    probability: Annotated[Share, msgspec.Meta(ge=0, le=1)] | None = None
    cost: Annotated[float, msgspec.Meta(ge=0)] | None = None
    mitigation: str = ""


class Policy(msgspec.Struct, frozen=True):
    """A move from one site to another.

    Attributes:
        name: its name.
        source: the site that is left.
        target: the site that is moved to.
        hardware: whether the nodes themselves are carried over; without it, they are when the target has none.
        windows: when things may move; without any, always.
        blackouts: when nothing may move.
        reserve: spare capacity at both sites during the move (M10.1).
        margin: how much more than needed the target must offer (M5.3).
        compute_loss: how much compute the move may cost.
        firmware: the versions that are right; without it, versions are only compared with each other.
        currency: of all costs, as its three letters.
        risks: who owns which risk, and what it is estimated at.
        begins_s: the first day of the first phase; a plan needs it.
        ends_s: everything has gone over by then; without it, as early as it can.
        phases: how long the phases last at least.
        bridgehead: how much capacity stands at the target before anything swings.
        logistics: crews, vehicles and times; a plan that carries hardware needs it.
        precopy: what is assumed of pre-copying.
        weights: what a plan is judged by.
        prices: what things cost.
        spares: parts that stand ready.
        stays: racks at the source that are not carried over (ids, ``*`` stands for any text).
        mapping: what things are called at each site, so that job scripts of one become those of the other.
    """

    name: str = msgspec.field(name="policy")
    source: SiteId
    target: SiteId
    hardware: bool | None = None
    windows: tuple[Period, ...] = ()
    blackouts: tuple[Period, ...] = ()
    limits: Limits = Limits()
    reserve: Part = 0.1
    margin: Part = 0.2
    canary: Canary = Canary()
    approvals: Annotated[tuple[Approval, ...], Keyed("approval")] = ()
    objectives: Annotated[tuple[Objective, ...], Keyed("objective")] = ()
    compute_loss: LossBudget = LossBudget()
    firmware: Annotated[tuple[Golden, ...], Keyed("component")] = ()
    currency: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")] = "EUR"
    risks: Annotated[tuple[RiskEstimate, ...], Keyed("risk")] = ()
    begins_s: Moment | None = None
    ends_s: Moment | None = None
    phases: PhaseLengths = PhaseLengths()
    bridgehead: BridgeheadShare = BridgeheadShare()
    logistics: Logistics | None = None
    precopy: Precopy = Precopy()
    weights: Weights = Weights()
    prices: Prices = Prices()
    spares: Spares = Spares()
    stays: tuple[str, ...] = ()
    mapping: SiteMap | None = None


def read_policy(text: str, *, file: str, sites: Collection[str] | None = None) -> Policy:
    """Read a policy file. Raises BadFile (BAD_INPUT) with every fault.

    Args:
        sites: the sites of the estate that it is for; None leaves ``source`` and ``target`` unchecked.
    """

    return read_policy_with_places(text, file=file, sites=sites)[0]


def read_policy_with_places(text: str, *, file: str, sites: Collection[str] | None = None) -> tuple[Policy, Mapping[Path, Mark]]:
    """As ``read_policy``, and where each part stands in the file."""

    def check(policy: Policy, decoder: Decoder) -> None:
        _check_ends(policy, decoder, sites)
        _check_periods(policy, decoder)
        _check_canary(policy, decoder)
        if policy.mapping is not None:
            check_site_map(policy.mapping, decoder, sites=None if sites is None else frozenset(sites))
        for approval in policy.approvals:
            people = len(set(approval.approvers))
            if approval.quorum > people:
                path = ("approvals", approval.id, "quorum")
                decoder.fault_at(path, f"{approval.quorum} must approve, but only {people} may", "expected at most the number of approvers")

    return read_document(text, Policy, file=file, what="policy", check=check)


def write_policy(policy: Policy) -> str:
    """YAML that ``read_policy`` reads as an equal policy."""
    return dump(policy_data(policy))


def policy_data(policy: Policy) -> dict[str, Any]:
    """The policy as files write it."""
    data: dict[str, Any] = to_file(policy, shape_of(Policy))
    return data


def policy_schema() -> dict[str, Any]:
    """JSON Schema of policy files, for editors."""
    return json_schema(Policy, title="Bridgehead move policy")


def _check_ends(policy: Policy, decoder: Decoder, sites: Collection[str] | None) -> None:
    if policy.source == policy.target:
        decoder.fault_at(("target",), f"source and target are both '{policy.target}'", "expected two different sites")
    for end, site in (("source", policy.source), ("target", policy.target)):
        if sites is not None and site not in sites:
            decoder.fault_at((end,), f"the estate has no site '{site}'", nearest(site, sites))


def _check_periods(policy: Policy, decoder: Decoder) -> None:
    for kind, periods in (("windows", policy.windows), ("blackouts", policy.blackouts)):
        for number, period in enumerate(periods):
            if period.ends_s <= period.begins_s:
                decoder.fault_at((kind, f"[{number}]", "ends"), "it ends before it begins", "expected a later moment than 'begins'")


def _check_canary(policy: Policy, decoder: Decoder) -> None:
    steps = policy.canary.steps
    path = ("canary", "steps")
    for number, (before, after) in enumerate(itertools.pairwise(steps), start=1):
        if after <= before:
            shown = f"{format_quantity(after, Dimension.SHARE)} after {format_quantity(before, Dimension.SHARE)}"
            decoder.fault_at((*path, f"[{number}]"), f"found {shown}", "expected growing shares")
    if steps and steps[-1] != 1.0:
        decoder.fault_at((*path, f"[{len(steps) - 1}]"), "the last step leaves traffic at the source", "expected 100 % at the end")
