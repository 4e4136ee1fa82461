"""Sites: what the verdicts on their liveness, and their clocks, mean for readiness (J01, J03)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from bridgehead.model.finding import FindingStatus
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


def clocks(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-CLOCK of each site that has written something."""
    ahead: dict[str, float] = {}
    for one in scene.protected:
        vault, trainer = scene.known(scene.vault(one.kept, one.home)), scene.known(scene.trainer(one))
        times = [point.created_s for point in vault.points[:1]] if vault is not None else []
        times += [trainer.reported_s] if trainer is not None else []
        for time_s in times:
            ahead[one.home] = max(ahead.get(one.home, 0.0), time_s - scene.now_s)
    for site, ahead_s in sorted(ahead.items()):
        draft = Draft(CLOCK, site, site=site)
        draft.dated(scene.now_s)
        limit_s = scene.terms.skew_s
        if ahead_s > limit_s:
            yield draft.fails(f"what it writes is {shown_s(ahead_s)} ahead of this observer", value=ahead_s, limit=limit_s, unit="s")
        else:
            yield draft.passes("nothing that it writes lies in the future", value=ahead_s, limit=limit_s, unit="s")
