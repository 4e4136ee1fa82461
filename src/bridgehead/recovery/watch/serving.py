"""Serving: is each backend that gets traffic warm, and is there one at the recovery site where the pattern wants it? (R11, M7.2)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.model.finding import FindingStatus
from bridgehead.recovery.watch.facts import ServiceFacts, Sighted, at
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.scene import Code, Draft, Scene

BACKEND: Final = Code(
    "WCH-BACKEND",
    "Is a backend warm wherever traffic goes, and is another one at hand?",
    "each site with weight > 0 has a warm backend; a cold one without traffic is only said",
    ("R11", "M7.2"),
    "look at the backend; `bridgehead run` shifts traffic away from it",
)


def backends(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-BACKEND of each site of each service whose backends can be asked."""
    for service in scene.estate.services:
        if service.serving is None:
            continue
        for site in service.sites:
            seen: Sighted[ServiceFacts] = scene.facts.services.get(at(service.id, site), Sighted())
            draft = Draft(BACKEND, f"{service.id}@{site}", workload=service.workload or "", site=site)
            known = scene.known(seen)
            weights = scene.known(scene.facts.traffic.get(service.id, Sighted()))
            share = None if weights is None else weights.get(site)
            if known is None and share == 0:
                draft.measured(scene.facts.traffic[service.id])
                yield draft.made(FindingStatus.PASS, f"0 % of the traffic; it does not answer{_why(seen)}", value=0, unit="%")
                continue
            draft.measured(seen)
            if known is None:
                yield draft.unseen(f"the backend of {service.id} at {site}", seen, now_s=scene.now_s)
                continue
            words = "its share of the traffic is not known" if share is None else f"{share} % of the traffic"
            text = f"{'warm' if known.warm else 'cold'}, {words}" + (f", serving {known.snapshot}" if known.snapshot else "")
            status = FindingStatus.PASS
            if not known.warm and share != 0:
                status = FindingStatus.UNKNOWN if share is None else FindingStatus.FAIL
            yield draft.made(status, text, value=share, unit="%" if share is not None else "", measurement="read the proxy")


def _why(seen: Sighted[ServiceFacts]) -> str:
    return f" ({seen.blind})" if seen.blind else ""
