"""Summary: what a demo measured. ``summary.json`` is a contract: others script against its names."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import SiteId


class Split(msgspec.Struct, frozen=True):
    """Sessions that began while a weight was in force: asked against seen at the target.

    Attributes:
        sessions, at_target: counts of new sessions; a session's first request is what the proxy spreads.
        tolerance_percent: 3 standard deviations of the binomial distribution at the asked share, plus one session.
    """

    asked_percent: int
    seen_percent: float
    sessions: int
    at_target: int
    tolerance_percent: float
    begin_s: float
    end_s: float

    @property
    def within(self) -> bool:
        """The proxy did what was asked."""
        return self.sessions > 0 and abs(self.seen_percent - self.asked_percent) <= self.tolerance_percent


class Latency(msgspec.Struct, frozen=True):
    """Latency of plain (not streamed) requests in one period of the move, seconds."""

    period: str
    requests: int
    p50_s: float
    p95_s: float
    p99_s: float


class Summary(msgspec.Struct, frozen=True):
    """All numbers are measured in this run. None: not measured in this kind of run.

    Attributes:
        requests_cut: streams that ended before their last token.
        steps_lost: training steps that were computed at the source and are not in the state that counts.
        lost_compute_s_*: from the end of the source's last step that counts to the end of the target's first new step, times one GPU.
        resume_s: from the start of ``run resume`` after a kill -9 until its take-over is on stable storage, as another process sees it,
            the longest of all kills. From then on it decides; when the next effect is due depends on the step. Without a kill, the time to
            read and fold this run's journal and decide once.
        raw_bytes, stored_bytes, wire_bytes: sizes of the snapshots that reached the target, of what holds their blocks in the vault there,
            each once, and bytes that crossed the link to it.
        promises: what this kind of run promises; the exit code is 0 only when all are true.
    """

    kind: str
    proxy: str
    seed: int
    version: str
    verdict: str
    requests_sent: int
    requests_failed: int
    requests_wrong: int
    requests_cut: int
    streams: int
    steps: int
    steps_lost: int | None
    weights_identical: bool | None
    weights_hash_moved: str | None
    weights_hash_unmoved: str | None
    lost_compute_s_precopy: float | None
    lost_compute_s_stop_copy_start: float | None
    splits: list[Split]
    latencies: list[Latency]
    resume_s: float | None
    raw_bytes: int
    stored_bytes: int
    wire_bytes: int
    ledger_entries: int
    ledger_head: str
    duration_s: float
    promises: dict[str, bool]
    notes: list[str]

    @property
    def kept(self) -> bool:
        """Every promise was kept, and there was at least one."""
        return bool(self.promises) and all(self.promises.values())


class TrafficSecond(msgspec.Struct, frozen=True):
    """One second of traffic: requests that ended in it, by site, with the weight in force at its end."""

    at_s: float
    by_site: dict[SiteId, int]
    bad: int
    asked_percent: int


class StepSpan(msgspec.Struct, frozen=True):
    """One step of the runbook on the timeline, from its first intent to its end."""

    step: str
    title: str
    kind: str
    begin_s: float
    end_s: float
    state: str


class LossPoint(msgspec.Struct, frozen=True):
    """One training step."""

    step: int
    loss: float
    site: SiteId
    at_s: float


class LedgerLine(msgspec.Struct, frozen=True):
    """One entry of the ledger, shortened."""

    seq: int
    at_s: float
    hash: str
    event: str
    text: str


class Story(msgspec.Struct, frozen=True):
    """What the report page is drawn from. Times are seconds since the Unix epoch.

    Attributes:
        losses: of the moved training, both sites.
        losses_plain: of the training that was moved by stop, copy and start.
    """

    summary: Summary
    began_s: float
    spans: list[StepSpan]
    traffic: list[TrafficSecond]
    losses: list[LossPoint]
    losses_plain: list[LossPoint]
    ledger: list[LedgerLine]
