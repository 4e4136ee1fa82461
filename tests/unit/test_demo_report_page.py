"""The demo's report page: complete, self-contained, well-formed, honest about what was not measured (M1, M10.4; rule 5)."""

from __future__ import annotations

import math
import random
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import msgspec
import pytest

from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.report.page import render
from bridgehead.app.demo.summary import Latency, LedgerLine, LossPoint, Split, StepSpan, Story, Summary, TrafficSecond
from bridgehead.recovery.runbooks import CanaryRules

BEGAN_S = 1_767_225_600.0
PERCENTS = CanaryRules().percents
KINDS = ("move", "gate", "controller", "network", "trainer", "split-brain")
MOVED_HASH, OTHER_HASH = "3fa94c1d" * 8, "9b02ee71" * 8
NOT_MEASURED = "not measured in this kind of run"
PROMISES = {
    "no_request_failed": True,
    "no_answer_was_wrong": True,
    "no_stream_was_cut": True,
    "at_least_10000_requests": True,
    "no_training_step_lost": True,
    "weights_bit_identical": True,
    "five_times_less_lost_compute": True,
    "splits_as_asked": True,
    "ledger_verifies": True,
}
HOSTILE = "</title></style><script>alert('x')</script>\"&amp;\x00\x1b[31m"


def summary() -> Summary:
    """What a good move measures."""
    splits = [
        Split(
            percent, 100 * at / sessions, sessions, at, 300 * (percent * (100 - percent) / 1e4 / sessions) ** 0.5 + 100 / sessions, 0.0, 0.0
        )
        for percent, at, sessions in ((5, 21, 402), (25, 104, 396), (50, 190, 411), (100, 655, 655))
    ]
    return Summary(
        kind="move", proxy="traefik", seed=7, version="0.1.0", verdict="done",
        requests_sent=12_431, requests_failed=0, requests_wrong=0, requests_cut=0, streams=2_391,
        steps=2_600, steps_lost=0, weights_identical=True, weights_hash_moved=MOVED_HASH, weights_hash_unmoved=MOVED_HASH,
        lost_compute_s_precopy=0.412, lost_compute_s_stop_copy_start=4.731, splits=splits,
        latencies=[
            Latency("before", 2_103, 0.0031, 0.0068, 0.0112),
            Latency("during", 7_204, 0.0034, 0.0079, 0.0154),
            Latency("after", 733, 0.0029, 0.0061, 0.0098),
        ],
        resume_s=0.0312, raw_bytes=511_900_000, stored_bytes=170_100_000, wire_bytes=174_300_000,
        ledger_entries=318, ledger_head="c41f" * 16,
        duration_s=78.4, promises=PROMISES, notes=["The machine has 2 processors; the load was sized for them."],
    )  # fmt: skip


def spans() -> list[StepSpan]:
    """The runbook of a move, as it runs in about 80 s."""
    rows = [
        ("copy-model", f"copy the served model to {TARGET}", "vault.replicate", 6.0, 7.6),
        ("precopy", "pre-copy lm while it trains", "vault.precopy", 6.0, 12.9),
        ("warm-target", f"start chat at {TARGET}, warm", "service.start", 7.6, 13.1),
        ("standby", f"restore lm at {TARGET}, in standby", "training.standby", 12.9, 17.4),
    ]
    at_s = 13.1
    for percent in PERCENTS:
        rows.append((f"shift-{percent}", f"{percent} % of chat to {TARGET}", "traffic.shift", at_s, at_s + 0.7))
        rows.append((f"gate-{percent}", f"gate at {percent} %", "gate", at_s + 0.7, at_s + 9.3))
        at_s += 9.3
    rows += [
        ("precopy-again", "pre-copy what was trained meanwhile", "vault.precopy", at_s, at_s + 3.2),
        ("drain", f"open streams at {SOURCE} come to their end", "traffic.drain", at_s, at_s + 6.1),
        ("hold", f"final checkpoint at {SOURCE}, then hold", "training.hold", at_s + 3.2, at_s + 3.4),
        ("final-copy", "copy the final checkpoint", "vault.replicate", at_s + 3.4, at_s + 3.52),
        ("fence", f"fence: {TARGET} is the writer from here on", "training.fence", at_s + 3.52, at_s + 3.56),
        ("release", f"training goes on at {TARGET}", "training.release", at_s + 3.56, at_s + 3.9),
        ("stop-service", f"stop chat at {SOURCE}", "job.stop", at_s + 6.1, at_s + 7.0),
        ("stop-training", f"stop the held trainer at {SOURCE}", "job.stop", at_s + 3.9, at_s + 4.8),
    ]
    return [StepSpan(step, title, kind, BEGAN_S + begin, BEGAN_S + end, "done") for step, title, kind, begin, end in rows]


def traffic() -> list[TrafficSecond]:
    """Requests per second; sessions stay where they began, so that the seen share follows the asked one."""
    dice = random.Random(7)
    changes = {s.begin_s - BEGAN_S: int(s.step.split("-")[1]) for s in spans() if s.kind == "traffic.shift"}
    share, seconds = 0.0, []
    for second in range(78):
        asked = max((percent for at_s, percent in changes.items() if at_s <= second), default=0)
        share += 0.6 * (asked / 100 - share)
        total = round(160 + 14 * math.sin(second / 9) + dice.gauss(0, 6))
        target = sum(dice.random() < share for _ in range(total))
        seconds.append(TrafficSecond(BEGAN_S + second, {SOURCE: total - target, TARGET: target}, 0, asked))
    return seconds


def losses(gap_s: float, *, cut_s: float = 53.5) -> list[LossPoint]:
    """A training that learns, 34 steps a second, at a standstill of ``gap_s`` at ``cut_s``."""
    dice, at_s, points = random.Random(11), 1.0, []
    for step in range(1, 2_601):
        before = at_s
        at_s += 0.029 * dice.uniform(0.9, 1.15)
        if before < cut_s <= at_s:
            at_s = before + gap_s
        loss = 2.35 + 4.3 * math.exp(-step / 420) + dice.gauss(0, 0.09)
        points.append(LossPoint(step, loss, SOURCE if at_s < cut_s else TARGET, BEGAN_S + at_s))
    return points


def ledger() -> list[LedgerLine]:
    """An entry for each phase, and the many readings of gates."""
    entries = [(BEGAN_S + 5.8, "run-opened", "move-demo, opened by demo"), (BEGAN_S + 60, "run-ended", "done")]
    for span in spans():
        many = 12 if span.kind == "gate" else 4
        for number in range(many):
            event = ("gate-measured" if span.kind == "gate" else "intent") if number < many - 1 else "step-done"
            at_s = span.begin_s + (span.end_s - span.begin_s) * (number + 1) / many
            entries.append((at_s, event, f"{span.step}: {span.title}"))
    hashes = random.Random(5)
    return [
        LedgerLine(number, at_s, f"{hashes.getrandbits(256):064x}", event, text)
        for number, (at_s, event, text) in enumerate(sorted(entries), 1)
    ]


def story() -> Story:
    """A whole good move."""
    return Story(summary(), BEGAN_S, spans(), traffic(), losses(0.412), losses(4.731), ledger())


def breach() -> Story:
    """A canary that answered wrongly at 5 %: rolled back, training never moved, one promise broken."""
    whole = story()
    kept = [span for span in whole.spans if span.begin_s < BEGAN_S + 22]
    states = {
        "gate-5": "failed",
        "shift-5": "undone",
        "warm-target": "undone",
        "standby": "undone",
        "copy-model": "kept",
        "precopy": "kept",
    }
    ends = {"undone": 3.0}
    changed = [msgspec.structs.replace(s, state=states[s.step], end_s=s.end_s + ends.get(states[s.step], 0)) for s in kept]
    seconds = [
        s
        if s.at_s < BEGAN_S + 14
        else msgspec.structs.replace(s, bad=3 * early, asked_percent=5 * early, by_site={SOURCE: 158, TARGET: 8 * early})
        for s in whole.traffic[:40]
        for early in [s.at_s < BEGAN_S + 23]
    ]
    promises = {"breach_noticed": True, "traffic_back_at_source": False, "read_back": True}
    figures = msgspec.structs.replace(
        whole.summary, kind="gate", verdict="rolled-back", requests_wrong=27, steps_lost=None, weights_identical=None,
        weights_hash_moved=None, weights_hash_unmoved=None, lost_compute_s_precopy=None, lost_compute_s_stop_copy_start=None,
        resume_s=None, promises=promises, splits=whole.summary.splits[:1], notes=[],
    )  # fmt: skip
    return Story(figures, BEGAN_S, changed, seconds, [p for p in whole.losses if p.site == SOURCE][:900], [], whole.ledger[:30])


def empty() -> Story:
    """The least that a run can leave behind."""
    figures = Summary(
        kind="move", proxy="haproxy", seed=0, version="0.1.0", verdict="", requests_sent=0, requests_failed=0, requests_wrong=0,
        requests_cut=0, streams=0, steps=0, steps_lost=None, weights_identical=None, weights_hash_moved=None, weights_hash_unmoved=None,
        lost_compute_s_precopy=None, lost_compute_s_stop_copy_start=None, splits=[], latencies=[], resume_s=None, raw_bytes=0,
        stored_bytes=0, wire_bytes=0, ledger_entries=0, ledger_head="", duration_s=0.0, promises={}, notes=[],
    )  # fmt: skip
    return Story(figures, BEGAN_S, [], [], [], [], [])


class Reader(HTMLParser):
    """Collects what a browser would see: tags, attributes and the text outside of style."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] != "style":
            self.pieces.append(data)


STORIES = {"move": story(), "breach": breach(), "empty": empty()}
PAGES = {name: render(one) for name, one in STORIES.items()}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())
def test_page_is_well_formed_and_every_drawing_has_title_and_description(page: str) -> None:
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    drawings = [svg for svg in root.iter("svg") if svg.get("aria-hidden") != "true"]
    assert len(drawings) >= 12
    for svg in drawings:
        assert svg.get("role") == "img"
        title, description = (svg.find(name) for name in ("title", "desc"))
        assert title is not None
        assert title.text
        assert description is not None
        assert description.text
        assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert not re.search(r"\b(nan|inf)\b|None", ElementTree.tostring(root, encoding="unicode"))


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())
def test_page_asks_for_nothing(page: str) -> None:
    assert not re.search(r"https?:|//[a-z]|@import|@font-face", page)
    assert set(re.findall(r"url\(([^)]*)\)", page)) <= {"#hatch", "#still"}
    reader = Reader(page)
    assert not {name for name, _ in reader.tags} & {"script", "img", "iframe", "object", "embed", "audio", "video", "form"}
    links = [attributes.get("href") for name, attributes in reader.tags if name in ("a", "link")]
    ids = {attributes.get("id") for _, attributes in reader.tags}
    assert links[0] == "data:,"
    assert all(link and link.startswith("#") and link[1:] in ids for link in links[1:])
    assert all(not key.startswith("on") and key not in ("src", "srcset") for _, attributes in reader.tags for key in attributes)
    assert "default-src 'none'" in page


def test_page_stays_small() -> None:
    assert len(PAGES["move"].encode()) < 400_000


def test_good_move_shows_its_key_figures() -> None:
    text = Reader(PAGES["move"]).text
    assert f"A training job and a live inference service moved from {SOURCE} to {TARGET}" in text
    assert "All 9 promises kept" in text
    for figure in ("12,431", "2,391", "Bit-identical", "0.41 s", "4.73 s", "11.4 times less", "512 MB", "174 MB", "31.2 ms", "78 s"):
        assert figure in text.replace("\N{NO-BREAK SPACE}", " "), figure
    assert text.count("3fa94c1d " * 7 + "3fa94c1d") == 2
    assert NOT_MEASURED not in text
    assert 'role="alert"' not in PAGES["move"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_sentence_and_its_command(kind: str) -> None:
    text = Reader(render(msgspec.structs.replace(story(), summary=msgspec.structs.replace(summary(), kind=kind)))).text
    broken = "" if kind == "move" else f" --break {kind}"
    assert f"bridgehead demo --seed 7{broken} --proxy traefik --report DIR" in text
    assert ("moved from" in text) is (kind == "move")


def test_every_promise_is_listed_in_words() -> None:
    rows = re.findall(r'<tr class="(kept|broken)"><th scope="row">([^<]*)</th>', PAGES["breach"])
    assert rows == [("broken", "Traffic back at source"), ("kept", "Breach noticed"), ("kept", "Read back")]
    assert len(re.findall(r'<tr class="kept">', PAGES["move"])) == len(PROMISES)


def test_broken_promise_stands_in_the_banner() -> None:
    banner = PAGES["breach"].split('role="alert"')[1].split("</div>")[0]
    assert "Traffic back at source" in banner
    assert "Breach noticed" not in banner
    assert "1 of 3" in banner
    assert "promises kept" not in PAGES["breach"]


def test_no_promise_at_all_is_not_success() -> None:
    assert "No promise was checked" in PAGES["empty"].split('role="alert"')[1].split("</div>")[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps_lost", None),
        ("weights_identical", None),
        ("weights_hash_moved", None),
        ("weights_hash_unmoved", None),
        ("lost_compute_s_precopy", None),
        ("lost_compute_s_stop_copy_start", None),
        ("resume_s", None),
    ],
)
def test_what_was_not_measured_says_so(field: str, value: None) -> None:
    page = render(msgspec.structs.replace(story(), summary=msgspec.structs.replace(summary(), **{field: value})))
    assert Reader(page).text.lower().count(NOT_MEASURED) >= 1


def test_breach_shows_nothing_that_was_not_measured_as_zero() -> None:
    text = Reader(PAGES["breach"]).text
    for label in ("Lost compute", "Final weights, moved and never moved", "Training steps lost", "Engine resumes in"):
        assert f"{label} — {NOT_MEASURED}" in text


def test_hostile_text_stays_text() -> None:
    whole = story()
    changes = {"kind": HOSTILE, "proxy": HOSTILE, "version": HOSTILE, "verdict": HOSTILE, "ledger_head": HOSTILE, "notes": [HOSTILE]}
    figures = msgspec.structs.replace(
        whole.summary, **changes, weights_hash_moved=HOSTILE, promises={HOSTILE: False}, latencies=[Latency(HOSTILE, 1, 0.1, 0.2, 0.3)]
    )
    page = render(
        msgspec.structs.replace(
            whole,
            summary=figures,
            spans=[
                StepSpan(HOSTILE, HOSTILE, HOSTILE, BEGAN_S, BEGAN_S + 1, HOSTILE),
                StepSpan("g", HOSTILE, "gate", BEGAN_S, 0.0, "failed"),
            ],
            traffic=[TrafficSecond(BEGAN_S, {HOSTILE: 3}, 1, 5)],
            losses=[LossPoint(1, math.nan, SOURCE, BEGAN_S), LossPoint(2, math.inf, HOSTILE, BEGAN_S + 1)],
            ledger=[LedgerLine(5, BEGAN_S, HOSTILE, HOSTILE, HOSTILE)],
        )
    )
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    reader = Reader(page)
    assert "script" not in {name for name, _ in reader.tags}
    assert "alert('x')" in reader.text
    assert not re.search("[\x00\x1b]", page)


def test_step_without_title_is_named_by_its_id() -> None:
    page = render(msgspec.structs.replace(empty(), spans=[StepSpan("the-id", "", "hold", BEGAN_S, BEGAN_S, "stuck")]))
    assert "the-id: stuck" in page
