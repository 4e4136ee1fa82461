"""An HTTPRoute: its weights, and whether its gateways have taken them over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from bridgehead.drivers.kubernetes.api import Object
from bridgehead.drivers.kubernetes.route_options import RouteService
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.kernel.ids import SiteId
from bridgehead.model.weights import FULL

BEFORE: Final = "bridgehead/in-force-before"
"""Annotation: the weights that were in force when a change was asked for, and the generation that the change made."""
_TRIED: Final = "read the weights in force"


class RouteView:
    """One HTTPRoute, as the spreading of one service.

    Raises Permanent when it spreads anything else.
    """

    def __init__(self, document: Object, service: RouteService) -> None:
        self.document, self._service = document, service
        self._meta = document["metadata"]
        self._subject = f"httproute {self._meta['name']}"
        self._weights = [self._of_rule(rule) for rule in self._rules()]

    def asked(self) -> dict[SiteId, int]:
        """The weights that stand in its rules, as percent. Raises Transient when its rules differ."""
        found = self._weights
        if any(one != found[0] for one in found):
            remedy = "Reconcile, or a write, makes them equal."
            raise Transient("its rules have different weights", tried=_TRIED, subject=self._subject, remedy=remedy)
        return _percent(found[0], self._subject)

    def spreads(self, wanted: Mapping[SiteId, int]) -> bool:
        """Whether every rule has these weights, or the same proportions."""
        return all(
            sum(weights.values()) > 0 and all(weights[site] * FULL == wanted[site] * sum(weights.values()) for site in wanted)
            for weights in self._weights
        )

    def in_force(self) -> dict[SiteId, int]:
        """The weights that every gateway of the route has taken over; those from before while a change is on its way.

        Raises Transient when a gateway refuses the route, or it is not known which weights it has now.
        """
        waits = self._awaited()
        if not waits:
            return self.asked()
        before = self._before()
        if before is None:
            raise Transient(waits, tried=_TRIED, subject=self._subject, remedy="Look at the route's status and at the gateway's log.")
        return before

    def with_weights(self, weights: Mapping[SiteId, int]) -> Object:
        """The change that makes them the route's; it says what is in force before, as far as that is known."""
        rules = [self._with_weights(rule, weights) for rule in self._spec_rules()]
        try:
            before: Any = json.dumps({"generation": self._meta["generation"] + 1, "weights": self.in_force()})
        except Transient:
            before = None
        return {"metadata": {"annotations": {BEFORE: before}}, "spec": {"rules": rules}}

    def _spec_rules(self) -> list[Object]:
        return list((self.document.get("spec") or {}).get("rules") or [])

    def _rules(self) -> list[Object]:
        """Those that name the backends."""
        names = {backend.name for backend in self._service.sites.values()}
        found = []
        for rule in self._spec_rules():
            named = [one.get("name") for one in rule.get("backendRefs") or []]
            if not names & set(named):
                continue
            if sorted(named) != sorted(names):
                raise self._wrong(f"a rule spreads over {', '.join(named)}, not over {', '.join(sorted(names))}")
            found.append(rule)
        if not found:
            raise self._wrong(f"no rule names {', '.join(sorted(names))}")
        return found

    def _of_rule(self, rule: Object) -> dict[SiteId, int]:
        weights = {one["name"]: int(one.get("weight", 1)) for one in rule["backendRefs"]}
        return {site: weights[backend.name] for site, backend in self._service.sites.items()}

    def _with_weights(self, rule: Object, weights: Mapping[SiteId, int]) -> Object:
        names = {backend.name: weights[site] for site, backend in self._service.sites.items()}
        if not any(one.get("name") in names for one in rule.get("backendRefs") or []):
            return rule
        return {**rule, "backendRefs": [{**one, "weight": names[one["name"]]} for one in rule["backendRefs"]]}

    def _awaited(self) -> str:
        """What hinders this generation from being in force at every gateway; "" when nothing does."""
        generation = self._meta["generation"]
        entries = (self.document.get("status") or {}).get("parents") or []
        space = self._meta.get("namespace", "")
        for parent in (self.document.get("spec") or {}).get("parentRefs") or []:
            told = [entry for entry in entries if _key(entry.get("parentRef") or {}, space) == _key(parent, space)]
            if not told:
                return f"gateway {parent.get('name')} says nothing of it"
            for entry in told:
                conditions = {one.get("type"): one for one in entry.get("conditions") or []}
                for kind in ("Accepted", "ResolvedRefs"):
                    one = conditions.get(kind)
                    if one is None or one.get("observedGeneration", 0) < generation:
                        return f"gateway {parent.get('name')} has not taken over generation {generation}"
                    if one.get("status") != "True":
                        return (
                            f"gateway {parent.get('name')}: {kind} is {one.get('status')} ({one.get('reason')}: {one.get('message', '')})"
                        )
                partly = conditions.get("PartiallyInvalid")
                if partly is not None and partly.get("status") == "True":
                    return f"gateway {parent.get('name')} takes over a part of it only ({partly.get('message', '')})"
        return "" if (self.document.get("spec") or {}).get("parentRefs") else "it belongs to no gateway"

    def _before(self) -> dict[SiteId, int] | None:
        """What the annotation says, if it speaks of this generation and nothing but time hinders that from being in force."""
        try:
            told = json.loads((self._meta.get("annotations") or {}).get(BEFORE) or "{}")
            if told.get("generation") != self._meta["generation"] or self._refused():
                return None
            return {site: int(told["weights"][site]) for site in self._service.sites}
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _refused(self) -> bool:
        """A gateway has seen this generation, and does not have it in force."""
        good = {"Accepted": "True", "ResolvedRefs": "True", "PartiallyInvalid": "False"}
        entries = (self.document.get("status") or {}).get("parents") or []
        told = [one for entry in entries for one in entry.get("conditions") or [] if one.get("type") in good]
        return any(one.get("observedGeneration") == self._meta["generation"] and one.get("status") != good[one["type"]] for one in told)

    def _wrong(self, happened: str) -> Permanent:
        remedy = "Let every rule that names one of the service's backends name them all, and nothing else."
        return Permanent(happened, tried=_TRIED, subject=self._subject, remedy=remedy)


def _key(parent: Object, space: str) -> tuple[object, ...]:
    """What tells parents apart, with the defaults of the Gateway API."""
    group, kind = parent.get("group", "gateway.networking.k8s.io"), parent.get("kind", "Gateway")
    return (group, kind, parent.get("namespace", space), parent.get("name"), parent.get("sectionName"), parent.get("port"))


def _percent(weights: dict[SiteId, int], subject: str) -> dict[SiteId, int]:
    """Weights are proportions there (G10): rounded to percent, so that they add up, and none that gets traffic is 0."""
    total = sum(weights.values())
    if total == 0:
        raise Transient("all its weights are 0: every request fails", tried=_TRIED, subject=subject, remedy="Reconcile, or write weights.")
    found = {site: max(1, weight * FULL // total) if weight else 0 for site, weight in weights.items()}
    most = max(found, key=lambda site: weights[site])
    found[most] += FULL - sum(found.values())
    return found
