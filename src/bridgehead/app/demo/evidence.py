"""Evidence: makes the summary and the story of a demo from what it left behind: journal, loss logs, load records, vaults."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

import msgspec

from bridgehead import __version__
from bridgehead.app import ledgers
from bridgehead.app.demo import files
from bridgehead.app.demo.breakages import CutNetwork
from bridgehead.app.demo.engine_process import RUN
from bridgehead.app.demo.facts import Facts, weight_at_target, weight_periods
from bridgehead.app.demo.places import SOURCE, TARGET, UNMOVED, WORKLOAD, Places
from bridgehead.app.demo.play import PLAIN_SOURCE, PLAIN_TARGET, Seen
from bridgehead.app.demo.promises import promises
from bridgehead.app.demo.records import SUMMARY_NAME, LoadSummary, Outcome, Record, first_sites, latencies_s, read_records
from bridgehead.app.demo.script import Kind, Script
from bridgehead.app.demo.summary import Latency, LedgerLine, LossPoint, Split, StepSpan, Story, Summary, TrafficSecond
from bridgehead.app.demo.trainer import LossLine
from bridgehead.app.home import Home
from bridgehead.app.views import step_view
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import JobName, SiteId, StepId, WorkloadId
from bridgehead.ports.journal import Entry
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import fold
from bridgehead.runbook.decide import decide
from bridgehead.vault import Vault
from bridgehead.vault.snapshots import blocks_of


def tell(script: Script, places: Places, seen: Seen) -> Story:
    """The whole story, with every promise judged."""
    entries = Home(places.home).journal().read(RUN)
    load = msgspec.json.decode((places.load / SUMMARY_NAME).read_bytes(), type=LoadSummary)
    records = read_records(places.load)
    losses = [*_losses(places, files.SOURCE_TRAINER), *_losses(places, files.TARGET_TRAINER)]
    facts = Facts(script, seen, entries, load, records, losses)
    summary = _summary(facts, places)
    return Story(
        summary=summary,
        began_s=seen.began_s,
        spans=spans(seen.state, entries),
        traffic=_traffic(records, entries),
        losses=losses,
        losses_plain=[*_losses(places, PLAIN_SOURCE), *_losses(places, PLAIN_TARGET)],
        ledger=[_line(entry) for entry in entries],
    )


def _summary(facts: Facts, places: Places) -> Summary:
    script, seen, entries, load, records, losses = facts.script, facts.seen, facts.entries, facts.load, facts.records, facts.losses
    moved, unmoved = _hashes(places, seen.compared_step)
    raw_bytes, stored_bytes = _copied_bytes(places)
    faults = ledgers.verify(places.home, RUN, head=entries[-1].hash, keys=None).faults
    summary = Summary(
        kind=script.kind.value,
        proxy=script.proxy.value,
        seed=script.seed,
        version=__version__,
        verdict=seen.state.mode.verdict.value if isinstance(seen.state.mode, st.Ended) else "stuck",
        requests_sent=load.sent,
        requests_failed=load.failed,
        requests_wrong=load.wrong,
        requests_cut=load.cut,
        streams=load.streams,
        steps=max((point.step for point in losses), default=0),
        steps_lost=facts.steps_lost(),
        weights_identical=None if moved is None or unmoved is None else moved == unmoved,
        weights_hash_moved=moved,
        weights_hash_unmoved=unmoved,
        lost_compute_s_precopy=_gap_s(losses),
        lost_compute_s_stop_copy_start=None if seen.plain is None else seen.plain.lost_compute_s,
        splits=splits(records, entries),
        latencies=_latencies(records, entries),
        resume_s=max(seen.resumes_s, default=_fold_time_s(places)),
        raw_bytes=raw_bytes,
        stored_bytes=stored_bytes,
        wire_bytes=seen.wire_bytes,
        ledger_entries=len(entries),
        ledger_head=entries[-1].hash,
        duration_s=seen.ended_s - seen.began_s,
        promises={},
        notes=_notes(facts),
    )
    return msgspec.structs.replace(summary, promises=promises(facts, summary, ledger_holds=not faults))


def _copied_bytes(places: Places) -> tuple[int, int]:
    """Raw and stored bytes of all snapshots of the moved training that reached the target, those that no longer count included."""
    vault = _vault(places, TARGET)
    survey = vault.survey(WORKLOAD)
    infos = [*survey.usable, *(passed.info for passed in survey.passed_over if passed.info is not None)]
    copied = [vault.snapshot(info.id) for info in infos if info.site == SOURCE]
    blocks = {ref.block: ref.size_bytes for snapshot in copied for ref in blocks_of(snapshot)}
    return sum(snapshot.raw_bytes for snapshot in copied), sum(blocks.values())


def _gap_s(losses: Sequence[LossPoint]) -> float | None:
    """From the end of the last step before the cut-over that counts to the end of the first one after it, from the logs."""
    at_target = [point for point in losses if point.site == TARGET]
    if not at_target:
        return None
    first = min(at_target, key=lambda point: point.step)
    before = [point for point in losses if point.site == SOURCE and point.step == first.step - 1]
    return first.at_s - before[-1].at_s if before else None


def _hashes(places: Places, step: int | None) -> tuple[str | None, str | None]:
    """Weights of the moved and of the unmoved training after the same step, loaded and verified from the vaults."""
    if step is None:
        return None, None
    return _weights_hash(places, TARGET, WORKLOAD, step), _weights_hash(places, SOURCE, UNMOVED, step)


def _weights_hash(places: Places, site: SiteId, workload: WorkloadId, step: int) -> str | None:
    """Of the state that counts after exactly this step and was written at this site; None when there is none."""
    from bridgehead.app.demo.model import weights_hash
    from bridgehead.training.state import decode

    vault = _vault(places, site)
    for info in vault.list(workload):
        if info.step == step and info.site == site and info.counts:
            return weights_hash(decode(vault.load(info.id))["weights"])
    return None


def _vault(places: Places, site: SiteId) -> Vault:
    return Vault.open(LocalBlobs(LocalBlobsOptions(directory=str(places.vault(site)))))


def splits(records: Sequence[Record], entries: Sequence[Entry]) -> list[Split]:
    """For each canary step: sessions that began after its weights were read back and before the next change was asked for."""
    found = []
    for percent, begin_s, end_s in weight_periods(entries):
        first = first_sites(records, begin_s=begin_s, end_s=end_s)
        count, at_target, share = first.total(), first[TARGET], percent / 100
        tolerance = 100 * (3 * math.sqrt(count * share * (1 - share)) + 1) / count if count else 0.0
        found.append(Split(percent, 100 * at_target / count if count else 0.0, count, at_target, tolerance, begin_s, end_s))
    return found


def _traffic(records: Sequence[Record], entries: Sequence[Entry]) -> list[TrafficSecond]:
    """Requests by the second in which they ended."""
    by_second: dict[int, list[Record]] = {}
    for record in records:
        by_second.setdefault(int(record.sent_s + record.latency_s), []).append(record)
    seconds = []
    for second in range(min(by_second, default=0), max(by_second, default=-1) + 1):
        ended = by_second.get(second, [])
        counts = {site: sum(record.site == site for record in ended) for site in (SOURCE, TARGET)}
        bad = sum(record.outcome is not Outcome.OK for record in ended)
        seconds.append(TrafficSecond(float(second), counts, bad, weight_at_target(entries, second + 1.0)))
    return seconds


def _latencies(records: Sequence[Record], entries: Sequence[Entry]) -> list[Latency]:
    """Before, during and after the move; plain requests only, since a stream takes as long as it takes."""
    begin_s, end_s = entries[0].event.at_s, entries[-1].event.at_s
    found = []
    for name, low_s, high_s in (("before", 0.0, begin_s), ("during", begin_s, end_s), ("after", end_s, math.inf)):
        times = latencies_s(records, begin_s=low_s, end_s=high_s)
        if times:
            p50, p95, p99 = (times[min(len(times) - 1, int(len(times) * share))] for share in (0.5, 0.95, 0.99))
            found.append(Latency(name, len(times), p50, p95, p99))
    return found


def _fold_time_s(places: Places) -> float:
    """Open, read and fold the journal, and decide: what a resume does before its first act."""
    began_s = time.perf_counter()
    state = fold(entry.event for entry in Home(places.home).journal().read(RUN))
    decide(state, {}, time.time())
    return time.perf_counter() - began_s


def spans(state: st.RunState, entries: Iterable[Entry]) -> list[StepSpan]:
    """When each step that was started began and ended."""
    begin_s: dict[StepId, float] = {}
    end_s: dict[StepId, float] = {}
    for entry in entries:
        step = getattr(entry.event, "step", None)
        if step is not None:
            begin_s.setdefault(step, entry.event.at_s)
            end_s[step] = entry.event.at_s
    views = {step_id: step_view(state, step_id) for step_id in begin_s}
    return [StepSpan(step_id, view.title, view.kind, begin_s[step_id], end_s[step_id], view.state) for step_id, view in views.items()]


def _losses(places: Places, job: JobName) -> list[LossPoint]:
    file = places.losses(job)
    lines = file.read_bytes().splitlines() if file.exists() else []
    rows = [msgspec.json.decode(line, type=LossLine) for line in lines if line.endswith(b"}")]
    return [LossPoint(row.step, row.loss, SiteId(row.site), row.at_s) for row in rows]


def _line(entry: Entry) -> LedgerLine:
    plain = ledgers.plain(entry)
    hidden = {"seq", "event", "at_s", "previous", "hash", "signature", "key_id", "runbook", "estate", "epoch", "attempt"}
    text = " ".join(f"{key}={value}" for key, value in plain.items() if key not in hidden and value not in ("", None, [], {}))
    return LedgerLine(entry.seq, entry.event.at_s, entry.hash, plain["event"], text[:300])


def _notes(facts: Facts) -> list[str]:
    notes = ["One machine plays both sites: times compare ways of moving, they are not those of a real link."]
    if facts.script.kind is Kind.TRAINER:
        vain = len(facts.computed_twice()) - (facts.steps_lost() or 0)
        notes.append(
            f"The trainer ignored the request for a checkpoint. Reported by the run: {facts.reported.get('lost_steps')} steps lost. "
            f"Until it was stopped the deaf trainer computed {vain} more in vain."
        )
    if facts.seen.resumes_s:
        notes.append(f"The engine was killed and resumed {len(facts.seen.resumes_s)} times.")
    if isinstance(facts.seen.breaker, CutNetwork):
        notes += [
            f"When the line was cut, {cut.held_bytes + cut.late_bytes} bytes had arrived, {cut.late_bytes} of them just before. "
            f"After it {cut.arrived_bytes} bytes arrived, and {cut.sent_bytes} crossed the line."
            for cut in facts.seen.breaker.cuts
        ]
    if facts.load.skipped:
        notes.append(f"{facts.load.skipped} due requests were not sent, because this machine was too busy.")
    stuck = [step_id for step_id, step in facts.seen.state.steps.items() if isinstance(step, st.Stuck)]
    return [*notes, *(f"Step {step_id} is stuck." for step_id in stuck)]
