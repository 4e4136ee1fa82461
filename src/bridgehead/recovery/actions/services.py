"""Inference goes over: start warm, shift traffic, drain (M7.3; G04, G10)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.scheduler import JobRunning, JobSpec
from bridgehead.ports.serving import ServingHealth
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.jobs import POLL_S, free_for_start, is_running, take_away
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending

SETTLE_S = 5.0
"""A proxy that does not show new weights after this long has not taken them."""


class StartServiceParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``service.start``: the backend's job; ``like`` is the site whose model it must have. An undo waits for open streams ``drain_s``."""

    service: ServiceId
    site: SiteId
    job: JobSpec
    like: SiteId
    drain_s: float = 30.0


class StartService:
    """Start a backend and wait until it is warm with the same model as the site that serves now. Undo stops it."""

    name = "service.start"
    params_type = StartServiceParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: StartServiceParams, call: Call) -> Outcome:
        """The job's name is free, and the serving side says which model it must be."""
        health = self._ports.serving(params.service).health(params.service, params.like)
        if not health.warm or not health.model_hash:
            return Failed(f"{params.service} at {params.like} is not warm itself", "There is nothing to compare the new backend with.")
        free = free_for_start(self._ports, params.site, params.job)
        return Done({"model_hash": health.model_hash}) if isinstance(free, Done) else free

    def apply(self, params: StartServiceParams, call: Call) -> Outcome:
        """Start it."""
        self._ports.scheduler(params.site).start(params.job, stamp=call.stamp)
        return Done()

    def verify(self, params: StartServiceParams, call: Call) -> Outcome:
        """Warm, with the right model."""
        running = is_running(self._ports.scheduler(params.site).observe(params.job.name), params.site)
        if not isinstance(running, Done):
            return running
        health = seen_health(self._ports, params.service, params.site)
        if health is None or not health.warm:
            return Pending(POLL_S, {"waiting_for": f"{params.service} at {params.site} to be warm"})
        if health.model_hash != call.recorded["model_hash"]:
            return Failed(
                f"{params.service} at {params.site} serves model {health.model_hash[:12]}, {params.like} serves "
                f"{call.recorded['model_hash'][:12]}",
                "Replicate the served model and start the backend with it.",
            )
        return Done({"model_hash": health.model_hash, "snapshot": health.snapshot})

    def undo(self, params: StartServiceParams, call: Call) -> Outcome:
        """It is seen to have ended; streams that are still open at it come to their end first, within ``drain_s``."""
        running = isinstance(self._ports.scheduler(params.site).observe(params.job.name), JobRunning)
        if running and call.now_s - call.since_s < params.drain_s:
            open_now = self._ports.traffic(params.service).in_flight(params.service, params.site)
            if open_now:
                return Pending(POLL_S, {"waiting_for": "open requests to end", "open": open_now})
        return take_away(self._ports, params.site, params.job.name, grace_s=params.drain_s + params.job.grace_s, call=call)


class ShiftParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``traffic.shift``: percent for every site of the service, adding up to 100."""

    service: ServiceId
    weights: dict[SiteId, int]


class ShiftTraffic:
    """Set the weights and read them back from the proxy. Undo restores the weights that were in force before (G04)."""

    name = "traffic.shift"
    params_type = ShiftParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ShiftParams, call: Call) -> Outcome:
        """Record the weights in force; every site that is to get traffic is warm, all with the same model."""
        before = self._ports.traffic(params.service).read(params.service)
        models: dict[str, SiteId] = {}
        for site, weight in params.weights.items():
            if weight == 0:
                continue
            health = seen_health(self._ports, params.service, site)
            if health is None or not health.warm:
                return Pending(POLL_S, {"waiting_for": f"{params.service} at {site} to be warm"})
            models.setdefault(health.model_hash, site)
        if len(models) > 1:
            served = ", ".join(f"{site} serves {model[:12]}" for model, site in models.items())
            return Failed(f"the sites do not serve the same model: {served}", "Start the target with the source's model.")
        return Done({"weights": dict(before)})

    def apply(self, params: ShiftParams, call: Call) -> Outcome:
        """Ask for the new weights."""
        self._ports.traffic(params.service).write(params.service, params.weights, stamp=call.stamp)
        return Done({"asked_s": call.now_s})

    def verify(self, params: ShiftParams, call: Call) -> Outcome:
        """They are in force."""
        return self._in_force(params.service, params.weights, call)

    def undo(self, params: ShiftParams, call: Call) -> Outcome:
        """The recorded weights are in force again, and will stay.

        They are asked for even when they are in force: the weights of apply may still be on their way, and a repeat of that call by a
        driver that is no more must find a newer epoch. For the same reason nothing that builds on them is undone before the time is over
        that a proxy may take.
        """
        before = {SiteId(site): int(weight) for site, weight in call.recorded["weights"].items()}
        traffic = self._ports.traffic(params.service)
        in_force = traffic.read(params.service)
        for site, weight in before.items():
            health = seen_health(self._ports, params.service, site) if weight > in_force.get(site, 0) else None
            if weight > in_force.get(site, 0) and (health is None or not health.warm):
                # Sending more to a side that cannot answer would be worse than waiting; the undo's deadline bounds it.
                return Pending(POLL_S, {"waiting_for": f"{params.service} at {site} to be warm again"})
        traffic.write(params.service, before, stamp=call.stamp)
        if in_force == before and call.now_s - call.applied.get("asked_s", call.since_s) >= SETTLE_S:
            return Done({"weights": before})
        return Pending(POLL_S, {"waiting_for": f"weights {before} to be in force again"})

    def _in_force(self, service: ServiceId, wanted: dict[SiteId, int], call: Call) -> Outcome:
        seen = self._ports.traffic(service).read(service)
        if seen == wanted:
            return Done({"weights": seen, "in_force_s": call.now_s})
        if "asked_s" in call.applied and call.now_s - call.since_s < SETTLE_S:
            return Pending(POLL_S, {"waiting_for": f"weights {wanted}", "in_force": seen})
        return Failed(f"the proxy has {seen} in force, not {wanted}", "Look at the proxy's log and configuration.")


class DrainParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``traffic.drain``: the step's deadline is how long open streams may take."""

    service: ServiceId
    site: SiteId


class DrainTraffic:
    """Wait until a site of weight 0 has no request or stream open. Changes nothing, so there is nothing to undo."""

    name = "traffic.drain"
    params_type = DrainParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: DrainParams, call: Call) -> Outcome:
        """The site gets no new sessions."""
        weight = self._ports.traffic(params.service).read(params.service).get(params.site)
        if weight != 0 and call.now_s - call.since_s < SETTLE_S:
            # A proxy that has just forgotten its weights gets them back within a moment (G09).
            return Pending(POLL_S, {"waiting_for": f"{params.site} to have weight 0", "weight": weight})
        if weight != 0:
            return Failed(f"{params.site} has weight {weight}: it would never be empty", "Shift the traffic away first.")
        return Done()

    def apply(self, params: DrainParams, call: Call) -> Outcome:
        """Wait."""
        open_now = self._ports.traffic(params.service).in_flight(params.service, params.site)
        return Pending(POLL_S, {"waiting_for": "open requests to end", "open": open_now}) if open_now else Done()

    def verify(self, params: DrainParams, call: Call) -> Outcome:
        """Still nothing open."""
        open_now = self._ports.traffic(params.service).in_flight(params.service, params.site)
        return Failed(f"{open_now} requests are open", "Drain again.") if open_now else Done({"open": 0})

    def undo(self, params: DrainParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()


def seen_health(ports: Switchboard, service: ServiceId, site: SiteId) -> ServingHealth | None:
    """The backend's report; None while it does not answer, as one that is starting does not."""
    try:
        return ports.serving(service).health(service, site)
    except (Transient, NotFound):
        return None
