"""Tariff: what standing by for a disaster costs and how quickly things go then, as people say it (R3, R11, P22).

Every number may be given. What nobody gave is taken from ``GUESSES`` or from the terms of the pattern, and shown as a guess wherever it
is used.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from bridgehead.kernel.quantity import BitsPerSecond, Seconds, Share
from bridgehead.model.recovery import Pattern

Money = Annotated[float, msgspec.Meta(ge=0)]
Hours = Annotated[float, msgspec.Meta(ge=0)]
Rate = Annotated[BitsPerSecond, msgspec.Meta(gt=0)]
Part = Annotated[Share, msgspec.Meta(ge=0, le=1)]
Efficiency = Annotated[Share, msgspec.Meta(gt=0, le=1)]

HOURS_A_MONTH: Final = 730.0
"""8,760 hours a year by 12."""


CLOUDS: Final = frozenset({Pattern.CLOUD_BURST, Pattern.CROSS_CLOUD})
"""Patterns whose recovery site is a cloud and none of the estate's sites."""


class Terms(msgspec.Struct, frozen=True):
    """What a pattern means here.

    Attributes:
        standby: share of the needed GPUs that runs all the time.
        provision_s: from the decision until all needed GPUs are there.
        overhead: complexity, as a share on top of everything else of it.
        hours: labour for each thing that is kept like this, a month.
        fixed_hours: labour for having the pattern at all, a month: runbooks, drills, a second account.
    """

    id: Pattern
    standby: Part | None = None
    provision_s: Seconds | None = None
    overhead: Part | None = None
    hours: Hours | None = None
    fixed_hours: Hours | None = None


TERMS: Final = {
    Pattern.ACTIVE_ACTIVE: Terms(Pattern.ACTIVE_ACTIVE, 1.0, 0.0, 0.0, 4.0, 24.0),
    Pattern.ACTIVE_PASSIVE: Terms(Pattern.ACTIVE_PASSIVE, 0.2, 1800.0, 0.0, 2.0, 12.0),
    Pattern.PILOT_LIGHT: Terms(Pattern.PILOT_LIGHT, 0.0, 3600.0, 0.0, 2.0, 12.0),
    Pattern.CLOUD_BURST: Terms(Pattern.CLOUD_BURST, 0.0, 7200.0, 0.0, 2.0, 16.0),
    Pattern.CROSS_CLOUD: Terms(Pattern.CROSS_CLOUD, 0.0, 3600.0, 0.15, 3.0, 24.0),
}
"""R11 says 100 % and 20 % of standby, 30 minutes and 15 %; hours of labour, and times where nothing stands by, are guesses."""
OF_R11: Final = frozenset(
    {
        *((pattern, name) for pattern in Pattern for name in ("standby", "overhead")),
        (Pattern.ACTIVE_ACTIVE, "provision"),
        (Pattern.ACTIVE_PASSIVE, "provision"),
    }
)
"""What is no guess: R11 gives it, or it is what the pattern means."""


class LineTerms(msgspec.Struct, frozen=True):
    """What is set up on a line for recovery (R17).

    Attributes:
        id: the link, as the estate names it.
        reserved_bps: bandwidth that is kept for copies, whatever else is sent.
        tls: the version that was seen on it, such as ``1.3``; a plain text.
        gain: bytes protected for each byte sent, as measured with real checkpoints (deduplication and compression together).
    """

    id: str
    reserved_bps: BitsPerSecond | None = None
    tls: Annotated[str, msgspec.Meta(pattern=r"^1\.[0-9]$")] | None = None
    gain: Annotated[float, msgspec.Meta(ge=1)] | None = None


class Tariff(msgspec.Struct, frozen=True):
    """Prices, in the currency of the file.

    Attributes:
        gpu_month: of a GPU that stands by, its share of node, power and room included.
        on_call_gpu_month: of the right to a GPU that is switched on when it is needed.
        cloud_gpu_hour: of a rented GPU.
        store_tb_month: of 1 TB of copies.
        link_gbps_month: of 1 Gb/s between two sites, or into a cloud.
        egress_gb: of 1 GB out of a cloud.
        labour_hour: of the people who keep it ready.
    """

    gpu_month: Money | None = None
    on_call_gpu_month: Money | None = None
    cloud_gpu_hour: Money | None = None
    store_tb_month: Money | None = None
    link_gbps_month: Money | None = None
    egress_gb: Money | None = None
    labour_hour: Money | None = None


class Assumptions(msgspec.Struct, frozen=True):
    """What is assumed of a disaster and of the way back.

    Attributes:
        detect_s: until it is certain that a site is lost.
        decide_s: until people have approved.
        shift_s: until traffic has gone over, of a thing that already runs at both sites.
        restore_bps: rate at which a site restores state, all together.
        delta_share: stored bytes of a snapshot against the one before, as a share of the whole.
        copies: snapshots kept at the recovery site.
        sync_slowdown: of training that waits for the other site at every step.
        step_s: time of one training step.
        efficiency: share of a line that data gets.
        link_step_bps: lines are bought in steps of this.
        events_a_year: losses of a site.
        event_lasts_s: how long one lasts.
        preempt: whether pausable workloads at the recovery site give way.
        unset_rpo_s: what is bought where no time is set.
    """

    detect_s: Seconds | None = None
    decide_s: Seconds | None = None
    shift_s: Seconds | None = None
    restore_bps: Rate | None = None
    delta_share: Part | None = None
    copies: Annotated[int, msgspec.Meta(ge=1)] | None = None
    sync_slowdown: Annotated[Share, msgspec.Meta(ge=0, lt=1)] | None = None
    step_s: Annotated[Seconds, msgspec.Meta(gt=0)] | None = None
    efficiency: Efficiency | None = None
    link_step_bps: Rate | None = None
    events_a_year: Annotated[float, msgspec.Meta(ge=0)] | None = None
    event_lasts_s: Seconds | None = None
    preempt: bool = True
    unset_rpo_s: Annotated[Seconds, msgspec.Meta(gt=0)] | None = None


GUESSES: Final[dict[str, tuple[float, str]]] = {
    "prices.gpu_month": (1_500.0, "about 2 an hour"),
    "prices.on_call_gpu_month": (300.0, "a fifth of a GPU that runs"),
    "prices.cloud_gpu_hour": (4.0, "on demand, H100 class"),
    "prices.store_tb_month": (20.0, "object store"),
    "prices.link_gbps_month": (225.0, "R3: 50,000 a month for 222 Gb/s"),
    "prices.egress_gb": (0.08, "list prices of large providers"),
    "prices.labour_hour": (90.0, "an engineer"),
    "assumptions.detect": (120.0, "several observers agree"),
    "assumptions.decide": (600.0, "one approval, day or night"),
    "assumptions.shift": (10.0, "health checks of a proxy"),
    "assumptions.restore": (80e9, "10 GB/s"),
    "assumptions.delta_share": (0.7, "the vault's trial, 30 steps apart: 0.69"),
    "assumptions.copies": (3.0, "the newest, one before, one being written"),
    "assumptions.sync_slowdown": (0.175, "R3: 15 to 20 %"),
    "assumptions.step": (15.0, "a large model"),
    "assumptions.efficiency": (0.8, "rules section 8"),
    "assumptions.link_step": (1e9, "lines are sold in steps"),
    "assumptions.events_a_year": (0.5, "one loss of a site in two years"),
    "assumptions.event_lasts": (3 * 86_400.0, "three days until the site is back"),
    "assumptions.unset_rpo": (86_400.0, "a copy a day where no time is set"),
}
"""What is taken where the file says nothing, and why that much. Every one of them is weak: give your own."""
