"""Ramping: traffic rises at the recovery site step by step, only while it copes, so that a recovery does not cascade (R11)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.jobs import POLL_S
from bridgehead.recovery.actions.services import SETTLE_S, ShiftParams, ShiftTraffic, seen_health
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome, Pending


class RampParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``traffic.ramp``: from ``source`` to ``target``, up to all that the source has.

    Attributes:
        step_percent: by which the target's weight may rise at once.
        every_s: time between two rises.
        most_open: requests and streams open at the target above which nothing is added; None: no limit.
        errors: share of errors among the target's answers since the last rise above which nothing is added.
        patience_s: how long one of these limits may hold it up.
    """

    service: ServiceId
    source: SiteId
    target: SiteId
    step_percent: int
    every_s: float
    most_open: int | None = None
    errors: float = 0.05
    patience_s: float = 600.0


class _Climb(msgspec.Struct):
    """What this process remembers of a ramp. Forgetting it makes the ramp slower, never faster."""

    rose_s: float
    held_since_s: float | None = None
    requests: float = 0.0
    errors: float = 0.0


class RampTraffic:
    """Raise the target's weight; hold still while it is cold, full or answers with errors. Undo restores the weights before (G04)."""

    name = "traffic.ramp"
    params_type = RampParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports
        self._climbs: dict[str, _Climb] = {}

    def precheck(self, params: RampParams, call: Call) -> Outcome:
        """The target is warm. Records the weights."""
        before = self._ports.traffic(params.service).read(params.service)
        unknown = [site for site in (params.source, params.target) if site not in before]
        if unknown:
            return Failed(f"the proxy of {params.service} knows no backend at {', '.join(unknown)}", "Add it to the proxy.")
        health = seen_health(self._ports, params.service, params.target)
        if health is None or not health.warm:
            return Pending(POLL_S, {"waiting_for": f"{params.service} at {params.target} to be warm"})
        return Done({"weights": dict(before)})

    def apply(self, params: RampParams, call: Call) -> Outcome:
        """One rise, or wait."""
        traffic = self._ports.traffic(params.service)
        weights = dict(traffic.read(params.service))
        climb = self._climbs.get(call.stamp.key)
        if climb is None:
            # A driver that takes over does not know when the last rise was: it waits a whole interval. The first rise needs no wait.
            fresh = weights == {SiteId(site): int(weight) for site, weight in call.recorded["weights"].items()}
            climb = self._climbs[call.stamp.key] = _Climb(rose_s=call.now_s - params.every_s if fresh else call.now_s)
            self._count(params, climb)
        if weights[params.source] == 0:
            return Done({"asked_s": call.now_s})
        shown: Json = {"waiting_for": f"{params.service} to be at {params.target}", "percent": weights[params.target]}
        if call.now_s - climb.rose_s < params.every_s:
            return Pending(min(POLL_S * 4, params.every_s), shown)
        limit = self._limit(params, climb)
        if limit:
            climb.held_since_s = call.now_s if climb.held_since_s is None else climb.held_since_s
            if call.now_s - climb.held_since_s >= params.patience_s:
                where = f"{weights[params.target]} % of {params.service} are at {params.target}"
                return Failed(f"{where}, and no more can be added: {limit}", "Add backends there, or let it recover; then `run resume`.")
            return Pending(POLL_S * 4, shown | {"held_by": limit})
        rise = min(params.step_percent, weights[params.source])
        weights[params.source] -= rise
        weights[params.target] += rise
        traffic.write(params.service, weights, stamp=call.stamp)
        climb.rose_s, climb.held_since_s = call.now_s, None
        self._count(params, climb)
        return Pending(POLL_S, shown)

    def verify(self, params: RampParams, call: Call) -> Outcome:
        """The source has nothing any more."""
        weights = self._ports.traffic(params.service).read(params.service)
        if weights.get(params.source) == 0 and weights.get(params.target, 0) > 0:
            return Done({"weights": dict(weights), "in_force_s": call.now_s})
        if "asked_s" in call.applied and call.now_s - call.since_s < SETTLE_S:
            return Pending(POLL_S, {"waiting_for": "the last weights", "in_force": dict(weights)})
        return Failed(f"the proxy has {dict(weights)} in force", "The ramp goes on from there.")

    def undo(self, params: RampParams, call: Call) -> Outcome:
        """As ``traffic.shift``."""
        recorded = {SiteId(site): int(weight) for site, weight in call.recorded["weights"].items()}
        return ShiftTraffic(self._ports).undo(ShiftParams(params.service, recorded), call)

    def _limit(self, params: RampParams, climb: _Climb) -> str:
        """Why nothing may be added now; empty when it may."""
        health = seen_health(self._ports, params.service, params.target)
        if health is None or not health.warm:
            return f"{params.service} at {params.target} is not warm"
        if params.most_open is not None:
            open_now = self._ports.traffic(params.service).in_flight(params.service, params.target)
            if open_now > params.most_open:
                return f"{open_now} requests are open at {params.target}, {params.most_open} may be"
        counted = self._counters(params)
        if counted is None:
            return ""
        requests, errors = counted
        if requests < climb.requests or errors < climb.errors:  # the backend began again, and counts from 0
            climb.requests = climb.errors = 0.0
        asked = requests - climb.requests
        if asked > 0 and (errors - climb.errors) / asked > params.errors:
            return f"{errors - climb.errors:g} of {asked:g} answers at {params.target} were errors, {params.errors:.0%} may be"
        return ""

    def _count(self, params: RampParams, climb: _Climb) -> None:
        climb.requests, climb.errors = self._counters(params) or (climb.requests, climb.errors)

    def _counters(self, params: RampParams) -> tuple[float, float] | None:
        """Requests and errors at the target so far; None when they cannot be read.

        Silent counters stop no recovery: warmth and load are looked at. What was counted before is kept for when they speak again.
        """
        try:
            counters = self._ports.metrics.read(params.service, params.target).counters
        except PortError:
            return None
        return counters.get("requests_total", 0.0), counters.get("errors_total", 0.0)
