"""Figures: the numbers that requirements R2, R3, R11 and R17 give, worked out again from their inputs; wrong ones are said to be wrong."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from bridgehead.model.objective import CLASSES, YEAR_S, DataClass
from bridgehead.model.recovery import Pattern
from bridgehead.recovery.objectives.book import Book


class Outcome(enum.StrEnum):
    """What came of working it out."""

    HOLDS = "holds"
    ASSUMES = "holds with assumptions"
    WRONG = "wrong"
    OPEN = "cannot be checked"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One printed number.

    Attributes:
        requirement: where it is printed.
        claim: what it says.
        formula: with its inputs.
        printed: its number; None where it is words.
        worked: what comes out; None where nothing does.
        unit: of both.
        text: one sentence.
    """

    requirement: str
    claim: str
    formula: str
    printed: float | None
    worked: float | None
    unit: str
    outcome: Outcome
    text: str


TB: Final = 1e12
HOUR_S: Final = 3600.0
STATE_BYTES: Final = 840e9
"""SZ2: 70 B parameters at 12 bytes."""


def rate_for(size_bytes: float, *, rpo_s: float) -> float:
    """bit/s that move all of it within the time (MV5)."""
    return 8 * size_bytes / rpo_s


def slowdown(delta_bytes: float, *, rate_bps: float, step_s: float) -> float:
    """Share of training speed that waiting for the other site at each step costs: wait / (wait + step), wait = 8 * delta / rate."""
    wait_s = 8 * delta_bytes / rate_bps
    return wait_s / (wait_s + step_s)


def rate_of_slowdown(delta_bytes: float, *, share: float, step_s: float) -> float:
    """bit/s at which ``slowdown`` is ``share``."""
    return 8 * delta_bytes / (step_s * share / (1 - share))


def downtime_s(availability: float) -> float:
    """Seconds a year that an availability allows (CO5)."""
    return YEAR_S * (1 - availability)


def events_a_year(kind: DataClass, availability: float) -> float | None:
    """Disasters a year that a class can have and keep the availability; None when no time is set."""
    return None if kind.rto_s is None else downtime_s(availability) / kind.rto_s


def effective_gain(*, dedup: float, compression: float) -> float:
    """How much more a line carries when ``dedup`` of the bytes need not travel and the rest is compressed ``compression`` times."""
    return compression / (1 - dedup)


def figures(book: Book) -> tuple[Figure, ...]:
    """All of them."""
    return (*_of_r3(book), *_of_r2(), *_of_r11(book), _of_r17(book))


def _of_r3(book: Book) -> list[Figure]:
    rate = rate_for(100 * TB, rpo_s=HOUR_S) / 1e9
    month = rate * book.price("link_gbps_month")
    quick = book.seconds("detect") + book.seconds("decide") + book.term(Pattern.ACTIVE_PASSIVE, "provision")
    both = book.seconds("detect") + book.seconds("shift")
    step_s, delta = book.seconds("step"), STATE_BYTES * book.plain("delta_share")
    low, high = (rate_of_slowdown(delta, share=share, step_s=step_s) / 1e12 for share in (0.20, 0.15))
    at_100 = slowdown(delta, rate_bps=100e9, step_s=step_s)
    doubles = Outcome.ASSUMES if both <= 900 < quick else Outcome.WRONG
    return [
        Figure(requirement="R3", claim="1 h RPO on 100 TB takes 200 Gb/s", formula="8 · 100 TB / 3,600 s", printed=200.0, worked=rate,
               unit="Gb/s", outcome=Outcome.WRONG, text=f"{rate:.1f} Gb/s, if all of it changes every hour; 200 would take 67 minutes"),
        Figure(requirement="R3", claim="that costs about 50,000 a month", formula=f"{rate:.1f} Gb/s · price of 1 Gb/s", printed=50_000.0,
               worked=month, unit="/month", outcome=Outcome.ASSUMES,
               text=f"{month:,.0f} at {book.price('link_gbps_month'):,.0f} for 1 Gb/s; the default price is made from this very figure"),
        Figure(requirement="R3", claim="15 min RTO doubles the infrastructure", formula="detect + decide + provision > 15 min",
               printed=900.0, worked=quick, unit="s", outcome=doubles,
               text=f"a standby that grows takes {quick / 60:.0f} min before it restores anything; one that runs takes {both / 60:.1f} min"
                    f"{'' if both <= 900 else ', which is too long as well'}"),
        Figure(requirement="R3", claim="RPO 0 costs 15 to 20 % of training speed", formula="wait / (wait + step), wait = 8 · delta / rate",
               printed=0.175, worked=at_100, unit="", outcome=Outcome.ASSUMES,
               text=f"70 B parameters and {step_s:.0f} s a step: {at_100:.0%} at 100 Gb/s; 15 to 20 % take {low:.2f} to {high:.2f} Tb/s"),
        Figure(requirement="R3", claim="4 h and 4 h were one lab's optimum", formula="none given", printed=None, worked=None, unit="",
               outcome=Outcome.OPEN, text="no inputs are given; the optimum of this estate is the set above"),
    ]  # fmt: skip


def _of_r2() -> list[Figure]:
    most = downtime_s(0.9995)
    kinds = [(kind, events_a_year(kind, 0.9995)) for kind in CLASSES if kind.id in ("training", "inference", "registry", "development")]
    words = ", ".join(f"{kind.id} {events:.2g}" for kind, events in kinds if events is not None)
    quick = next(most / kind.aims_rto_s for kind in CLASSES if kind.aims_rto_s is not None)
    return [
        Figure(requirement="R2", claim="tiers of RTO reach 99.95 %", formula="8,760 h · 0.05 % / RTO", printed=0.9995,
               worked=most / HOUR_S, unit="h/year", outcome=Outcome.WRONG,
               text=f"{most / HOUR_S:.2f} h a year; losses a year that leave it: {words} (training at 4 h: {quick:.2g})"),
    ]  # fmt: skip


def _of_r11(book: Book) -> list[Figure]:
    ahead = book.seconds("detect") + book.seconds("decide")
    share = book.term(Pattern.ACTIVE_PASSIVE, "standby")
    less_all, less_second = 1 - (1 + share) / 2, 1 - share
    grown, lit = ahead + book.term(Pattern.ACTIVE_PASSIVE, "provision"), ahead + book.term(Pattern.PILOT_LIGHT, "provision")
    rate = book.rate_bps("restore") / 8
    second = 1 + book.term(Pattern.ACTIVE_ACTIVE, "standby")
    both = book.seconds("detect") + book.seconds("shift")
    return [
        Figure(requirement="R11", claim="active-active costs 2×", formula="1 + standby share", printed=2.0, worked=second, unit="×",
               outcome=Outcome.HOLDS if second == 2 else Outcome.ASSUMES, text="of GPUs; lines, copies and labour come on top"),
        Figure(requirement="R11", claim="active-active has RTO 0", formula="detect + shift", printed=0.0, worked=both, unit="s",
               outcome=Outcome.WRONG, text=f"{both:.0f} s: traffic goes over after somebody has noticed"),
        Figure(requirement="R11", claim="active-passive: 20 % standby, 60 % cheaper than active-active", formula="1 - (1 + 0.2) / (1 + 1)",
               printed=0.60, worked=less_all, unit="", outcome=Outcome.WRONG,
               text=f"{less_all:.0%} of all, {less_second:.0%} of the second side; 60 % is neither, unless data and lines cost 20 % more"),
        Figure(requirement="R11", claim="active-passive: RTO 4 h", formula="detect + decide + provision + restore", printed=4 * HOUR_S,
               worked=grown, unit="s", outcome=Outcome.ASSUMES,
               text=f"{grown / 60:.0f} min, then {(4 * HOUR_S - grown) * rate / TB:.0f} TB fit into the 4 h at {rate / 1e9:.0f} GB/s"),
        Figure(requirement="R11", claim="pilot light: 20 % of the cost, RTO 2 h", formula="detect + decide + provision + restore",
               printed=2 * HOUR_S, worked=lit, unit="s", outcome=Outcome.WRONG,
               text=f"as cheap as the 20 % standby of active-passive and twice as quick cannot both be; {lit / 60:.0f} min, then "
                    f"{(2 * HOUR_S - lit) * rate / TB:.0f} TB fit into 2 h"),
        Figure(requirement="R11", claim="cross-cloud: 15 % more for complexity", formula="none given", printed=0.15,
               worked=book.term(Pattern.CROSS_CLOUD, "overhead"), unit="", outcome=Outcome.OPEN,
               text="an input that nothing is derived from; it is used as it is given"),
    ]  # fmt: skip


def _of_r17(book: Book) -> Figure:
    low, high = effective_gain(dedup=0.6, compression=3.0), effective_gain(dedup=0.8, compression=3.0)
    own = 1 / book.plain("delta_share") if book.plain("delta_share") else float("inf")
    return Figure(requirement="R17", claim="10 Gb/s effective on a line of 1 Gb/s", formula="3 / (1 - 60..80 %)", printed=10.0, worked=low,
                  unit="Gb/s", outcome=Outcome.ASSUMES,
                  text=f"{low:.1f} to {high:.1f} with the printed gains; what is new in a snapshot alone makes it {own:.2f}")  # fmt: skip
