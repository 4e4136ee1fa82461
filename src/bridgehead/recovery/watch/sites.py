"""Sites: what the verdicts on their liveness, and their clocks, mean for readiness (J01, J03)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, assert_never

from bridgehead.model.finding import FindingStatus
from bridgehead.recovery.watch.facts import Sighted, at
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.liveness import SiteState
from bridgehead.recovery.watch.scene import Code, Draft, Scene, shown_s

SITE: Final = Code(
    "WCH-SITE",
    "Is the site alive?",
    "a sign of life that is fresh; silence is unknown until the grace is over, and never a loss (J01, J03)",
    ("R2", "P14"),
    "find out; if it is lost, raise a fence for the other site before anything is started there",
)
WITNESS: Final = Code(
    "WCH-WITNESS",
    "Does the witness answer?",
    "its vault was read lately; without it the loss of one site takes the majority away, and nothing can be promoted",
    ("R2", "P14"),
    "bring the witness back before anything else fails",
)
CLOCK: Final = Code(
    "WCH-CLOCK",
    "Do the clocks agree?",
    "how far the newest snapshot or report lies in the observer's future <= 5 s",
    ("R1",),
    "set the clocks of the sites and of this observer by one source (NTP)",
)


def liveness(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-SITE of each site that was judged."""
    for name, verdict in sorted(scene.verdicts.items()):
        draft = Draft(SITE, name, site=name)
        draft.dated(verdict.contact_s)
        text = f"{verdict.state.value}: {'; '.join(verdict.reasons)}"
        match verdict.state:
            case SiteState.ALIVE:
                trouble = verdict.first_loss_s is not None
                yield draft.made(FindingStatus.PASS, text, foreseen=trouble)
            case SiteState.LOST:
                yield draft.fails(text)
            case SiteState.SILENT if verdict.overdue:
                yield draft.fails(f"{text}; the grace is over")
            case SiteState.SILENT | SiteState.UNKNOWN:
                yield draft.unknown(text, measurement="ask somebody at the site, or look at its power out of band")
            case _:
                assert_never(verdict.state)


def witnesses(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-WITNESS, where there is one."""
    if scene.witness is None:
        return
    seen = scene.facts.witness
    draft = Draft(WITNESS, scene.witness, site=scene.witness)
    draft.measured(seen)
    if scene.known(seen) is None:
        yield draft.unseen(f"the vault of {scene.witness}", seen, now_s=scene.now_s)
    else:
        yield draft.passes("it answers")


def clocks(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-CLOCK of each site that has written something, or may have."""
    ahead: dict[str, float] = {}
    unseen: dict[str, tuple[str, Sighted[Any]]] = {}
    for one in scene.protected:
        vault, trainer = scene.vault(one.kept, one.home), scene.trainer(one)
        known, said = scene.known(vault), scene.known(trainer)
        times = [point.created_s for point in known.points[:1]] if known is not None else []
        times += [said.reported_s] if said is not None else []
        for time_s in times:
            ahead[one.home] = max(ahead.get(one.home, 0.0), time_s - scene.now_s)
        if known is None:
            unseen.setdefault(one.home, (f"the vault of {one.home}", vault))
        elif said is None and at(one.id, one.home) in scene.facts.trainers:
            unseen.setdefault(one.home, (f"the trainer of {one.id}", trainer))
    for site in sorted({*ahead, *unseen}):
        draft = Draft(CLOCK, site, site=site)
        draft.dated(scene.now_s)
        limit_s, ahead_s = scene.terms.skew_s, ahead.get(site, 0.0)
        if ahead_s > limit_s:
            yield draft.fails(f"what it writes is {shown_s(ahead_s)} ahead of this observer", value=ahead_s, limit=limit_s, unit="s")
        elif site in unseen:
            what, seen = unseen[site]
            yield draft.unseen(what, seen, now_s=scene.now_s)
        else:
            yield draft.passes("nothing that it writes lies in the future", value=ahead_s, limit=limit_s, unit="s")
