"""Scene: everything that one judgement rests on, and how its findings are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, WorkloadId
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Estate, Workload, WorkloadKind
from bridgehead.model.finding import FindingStatus, Input, Origin, Severity, Value
from bridgehead.model.objective import Need
from bridgehead.recovery.traffic_place import by_traffic
from bridgehead.recovery.watch.facts import Facts, Sighted, T, TrainerFacts, VaultFacts, at
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.liveness import SiteVerdict

DAY_S: Final = 86_400.0
COMPUTES: Final = (WorkloadKind.TRAINING, WorkloadKind.BATCH)
"""Kinds of work that lose what they computed since the last copy; the others lose what was saved and not copied."""


class Protected(msgspec.Struct, frozen=True):
    """A workload, and how it is to be recovered.

    Attributes:
        home: where it runs.
        refuge: where it goes when that is lost; None: nobody said.
        objective: name of its objective; empty: none, and the numbers are those of its kind's class.
        rpo_s, rto_s: the strictest that is said; None: no time is set, or nobody said.
        jobs: its job at each site.
        services: whose model it is.
        served: the vault's name of what it serves; empty: its own.
        unplaced: why nobody can tell at which of the two it is now; empty: it is at ``home``.
    """

    workload: Workload
    home: SiteId
    refuge: SiteId | None
    objective: str = ""
    rpo_s: float | None = None
    rto_s: float | None = None
    pattern: str = ""
    jobs: dict[str, JobName] = {}
    services: tuple[ServiceId, ...] = ()
    served: WorkloadId = WorkloadId("")
    unplaced: str = ""

    @property
    def id(self) -> WorkloadId:
        """Of the workload."""
        return self.workload.id

    @property
    def kept(self) -> WorkloadId:
        """What vaults call its snapshots."""
        return self.served or self.id


class Credential(msgspec.Struct, frozen=True):
    """Something that stops working at a known time: a certificate or a token of a connection. ``expires_s`` None: it cannot be read."""

    name: str
    used_for: str
    expires_s: float | None
    happened: str = ""


class Terms(msgspec.Struct, frozen=True):
    """What the judgement goes by.

    Attributes:
        stale_s: an observation that is older is unknown.
        lead_s: a miss that is expected within it is an alarm now.
        detect_s: of the RTO, what passes until a failover begins: the grace of a silent site.
        drill_every_s: restores are tested so often (R13).
        speed_keeps_s: a measured speed of restores holds for so long.
        credential_lead_s: a credential that ends within it is to be renewed.
        skew_s: clocks of sites may differ by so much.
        reroute_s: traffic must be on another line within it (M10.2).
    """

    stale_s: float = 90.0
    lead_s: float = 900.0
    detect_s: float = 300.0
    drill_every_s: float = 7 * DAY_S
    speed_keeps_s: float = 30 * DAY_S
    credential_lead_s: float = 14 * DAY_S
    skew_s: float = 5.0
    reroute_s: float = 1.0


class Scene(msgspec.Struct, frozen=True):
    """See the module.

    Attributes:
        needs: the objective of every workload, service and data set.
        defaults: whether the numbers of a kind's class are accepted where nobody gave an objective.
        declared_s: when the estate file was written.
        witness: the third voter, with nothing but a vault; None: there is none.
        used: of each workload, lost work in seconds over the last looks, for the burn rate.
    """

    estate: Estate
    protected: tuple[Protected, ...]
    needs: tuple[Need, ...]
    facts: Facts
    verdicts: Mapping[str, SiteVerdict]
    now_s: float
    terms: Terms = Terms()
    defaults: bool = False
    declared_s: float | None = None
    credentials: tuple[Credential, ...] = ()
    used: dict[str, tuple[tuple[float, float], ...]] = {}
    witness: SiteId | None = None

    def vault(self, workload: str, site: SiteId | None) -> Sighted[VaultFacts]:
        """What is known of a workload in a site's vault."""
        return self.facts.vaults.get(at(workload, site), Sighted()) if site is not None else Sighted()

    def trainer(self, one: Protected) -> Sighted[TrainerFacts]:
        """What its trainer at home says of itself."""
        return self.facts.trainers.get(at(one.id, one.home), Sighted())

    def known(self, seen: Sighted[T]) -> T | None:
        """The value while it is fresh."""
        return seen.known(now_s=self.now_s, stale_s=self.terms.stale_s)


def placed(one: Protected, facts: Facts, *, now_s: float, stale_s: float) -> Protected:
    """The workload where it is now.

    What computes is where its fence says, for as long as that is the newest one, however long ago it was seen. What serves is where its
    traffic goes; while its proxy cannot be read it is ``unplaced``. What serves without a proxy is where its job runs.
    """
    if one.refuge is None:
        return one
    proxies = [] if one.workload.kind in COMPUTES else [service for service in one.services if service in facts.traffic]
    if proxies:
        return _by_proxies(one, one.refuge, {name: facts.traffic[name] for name in proxies}, now_s=now_s, stale_s=stale_s)
    if one.workload.kind not in COMPUTES:
        running = [site for site in (one.home, one.refuge) if _runs(one, site, facts, now_s=now_s, stale_s=stale_s)]
        return _turned(one, one.refuge) if running == [one.refuge] else one
    seen = [facts.vaults.get(at(one.kept, site), Sighted()).value for site in (one.home, one.refuge)]
    newest = max((known for known in seen if known is not None), key=lambda known: known.epoch, default=None)
    if newest is None or newest.holder != one.refuge:
        return one
    return _turned(one, one.refuge)


def _turned(one: Protected, refuge: SiteId) -> Protected:
    return msgspec.structs.replace(one, home=refuge, refuge=one.home)


def _by_proxies(
    one: Protected, refuge: SiteId, proxies: Mapping[str, Sighted[dict[SiteId, int]]], *, now_s: float, stale_s: float
) -> Protected:
    """By the last readings; when one of them is old, nobody can tell whether that still holds."""
    weights: Counter[SiteId] = Counter()
    for seen in proxies.values():
        weights.update(seen.value or {})
    here = _turned(one, refuge) if by_traffic(weights, home=one.home, refuge=refuge) == refuge else one
    for name, seen in proxies.items():
        if seen.known(now_s=now_s, stale_s=stale_s) is None:
            why = f"the proxy of {name} is not known: {seen.blind or 'nobody has looked since'}"
            return msgspec.structs.replace(here, unplaced=f"where {one.id} is cannot be told: {why}")
    return here


def _runs(one: Protected, site: SiteId, facts: Facts, *, now_s: float, stale_s: float) -> bool:
    job = facts.jobs.get(at(one.jobs.get(str(site), ""), site), Sighted()).known(now_s=now_s, stale_s=stale_s)
    return job is not None and job.state == "running"


class Code(msgspec.Struct, frozen=True):
    """One kind of finding: what it asks, how it is computed, which requirements it serves, and what to do when it fails."""

    code: str
    title: str
    formula: str
    requirement: tuple[str, ...]
    remedy: str
    severity: Severity = Severity.BLOCKING


class Draft:
    """One finding in the making: collects inputs and the time of the oldest."""

    def __init__(self, code: Code, subject: str, *, workload: str = "", site: str = "", state: str = "") -> None:
        self._code, self._subject, self._workload, self._site, self._state = code, subject, workload, site, state
        self._inputs: list[Input] = []
        self._measured_s: float | None = None

    def measured(self, seen: Sighted[T]) -> None:
        """The finding rests on this observation."""
        if seen.seen_s is not None:
            self.dated(seen.seen_s)

    def dated(self, at_s: float | None) -> None:
        """The finding rests on something of that time."""
        if at_s is not None:
            self._measured_s = at_s if self._measured_s is None else min(self._measured_s, at_s)

    def take(self, name: str, value: Value, unit: str, source: str, *, origin: Origin = Origin.MEASURED) -> None:
        """Note an input."""
        self._inputs.append(Input(name, value, unit, Origin.MISSING if value is None else origin, source))

    def given(self, name: str, value: Value, unit: str, source: str) -> None:
        """Note an input that somebody declared: an alarm says when it changed."""
        self.take(name, value, unit, source, origin=Origin.DECLARED)

    def made(
        self,
        status: FindingStatus,
        text: str,
        *,
        value: Value = None,
        limit: Value = None,
        unit: str = "",
        foreseen: bool = False,
        breaks_s: float | None = None,
        measurement: str = "",
        remedy: str = "",
    ) -> WatchFinding:
        """The finding. ``measurement``: what would settle it, of an unknown one."""
        margin = None
        if isinstance(value, int | float) and isinstance(limit, int | float) and limit:
            margin = 1.0 - value / limit
        troubled = status is FindingStatus.FAIL or foreseen
        return WatchFinding(
            code=self._code.code,
            subject=self._subject,
            status=status,
            severity=self._code.severity,
            text=text,
            value=value,
            limit=limit,
            margin=margin,
            unit=unit,
            state=self._state,
            formula=self._code.formula,
            inputs=tuple(self._inputs),
            requirement=self._code.requirement,
            remedy=(remedy or self._code.remedy) if troubled else "",
            measurement=measurement if status is FindingStatus.UNKNOWN else "",
            workload=self._workload,
            site=self._site,
            measured_s=self._measured_s,
            foreseen=foreseen and status is FindingStatus.PASS,
            breaks_s=breaks_s,
        )

    def passes(self, text: str, *, value: Value = None, limit: Value = None, unit: str = "") -> WatchFinding:
        """PASS."""
        return self.made(FindingStatus.PASS, text, value=value, limit=limit, unit=unit)

    def fails(self, text: str, *, value: Value = None, limit: Value = None, unit: str = "", remedy: str = "") -> WatchFinding:
        """FAIL."""
        return self.made(FindingStatus.FAIL, text, value=value, limit=limit, unit=unit, remedy=remedy)

    def unknown(self, text: str, *, measurement: str) -> WatchFinding:
        """UNKNOWN."""
        return self.made(FindingStatus.UNKNOWN, text, measurement=measurement)

    def unseen(self, what: str, seen: Sighted[T], *, now_s: float) -> WatchFinding:
        """UNKNOWN, because an observation is missing or too old."""
        self.measured(seen)
        why = seen.blind or ("it was never looked at" if seen.seen_s is None else "nobody has looked since")
        when = "" if seen.seen_s is None else f"; last seen {shown_s(now_s - seen.seen_s)} ago"
        return self.unknown(f"{what} is not known: {why}{when}", measurement=f"make {what} reachable for this observer")


def shown_s(seconds: float) -> str:
    """A duration for people."""
    rounded = round(seconds) if abs(seconds) >= 10 else round(seconds, 1)
    return format_quantity(rounded, Dimension.DURATION)


def shown_age(now_s: float, then_s: float) -> str:
    """How long ago, for people."""
    return shown_s(max(0.0, now_s - then_s))
