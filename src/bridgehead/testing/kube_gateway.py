"""A gateway of the fake cluster: takes HTTPRoutes over after a while, and says so in their status."""

from __future__ import annotations

from typing import Any

from bridgehead.testing.kube_schema import Object
from bridgehead.testing.kube_store import KubeStore

CONTROLLER = "tests.bridgehead/gateway"


class Gateway:
    """One gateway with its proxy.

    Attributes:
        lag_s: from a change of a route until it is in force.
        conditions: what it says of routes from now on, as ``{"ResolvedRefs": "False"}``; what is not ``True`` does not come into force.
        in_force: weights by route and backend.
    """

    def __init__(self, store: KubeStore, name: str = "edge", *, lag_s: float = 0.2) -> None:
        self._store, self.name, self.lag_s = store, name, lag_s
        self.conditions: dict[str, str] = {}
        self.in_force: dict[str, dict[str, int]] = {}
        self._seen: dict[str, tuple[int, float]] = {}

    def step(self, now_s: float) -> None:
        """Look at the routes that name it."""
        for route in self._store.all("HTTPRoute"):
            uid, generation = route["metadata"]["uid"], route["metadata"]["generation"]
            parents = [one for one in route["spec"].get("parentRefs", []) if one["name"] == self.name]
            if not parents:
                continue
            seen, since_s = self._seen.setdefault(uid, (generation, now_s))
            if seen != generation:
                self._seen[uid] = (generation, now_s)
            elif now_s >= since_s + self.lag_s:
                self._take_over(route, parents[0])

    def _take_over(self, route: Object, parent: Object) -> None:
        meta = route["metadata"]
        conditions: list[dict[str, Any]] = [
            {
                "type": kind,
                "status": status,
                "reason": "ByTest",
                "observedGeneration": meta["generation"],
                "lastTransitionTime": self._store.stamp(),
            }
            for kind, status in ({"Accepted": "True", "ResolvedRefs": "True"} | self.conditions).items()
        ]
        entry = {"parentRef": {**parent, "group": "gateway.networking.k8s.io"}, "controllerName": CONTROLLER, "conditions": conditions}
        others = [one for one in (route.get("status") or {}).get("parents", []) if one["parentRef"]["name"] != self.name]
        mine = [one for one in (route.get("status") or {}).get("parents", []) if one["parentRef"]["name"] == self.name]
        if mine and [{**one, "lastTransitionTime": ""} for one in mine[0]["conditions"]] == [
            {**one, "lastTransitionTime": ""} for one in conditions
        ]:
            return
        if all(status == "True" for status in self.conditions.values()):
            backends = route["spec"]["rules"][0]["backendRefs"]
            self.in_force[meta["name"]] = {one["name"]: one.get("weight", 1) for one in backends}
        self._store.set_status(route, {"parents": [*others, entry]})
