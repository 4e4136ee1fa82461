"""An alarm of the watch is told once for each change, and its end to all who were told (R1, R2)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.home import Home
from bridgehead.app.notifying import Bell, required_bell
from bridgehead.app.notifying_alarms import tell_alarms
from bridgehead.app.watch import Watch, order_for
from bridgehead.app.watch_scope import ScopeFiles
from bridgehead.model.finding import FindingStatus
from bridgehead.model.notice import Notice, NoticeState, Severity
from bridgehead.recovery.watch.alarm import AlarmKind, AlarmState
from bridgehead.recovery.watch.readiness import WatchReport
from bridgehead.testing.hook_receiver import HookReceiver
from bridgehead.testing.notify_suite import SECRET
from bridgehead.testing.watch_bed import write_files

KEY = "WATCH-RPO workload:lm/x"


def configure(home: Home, url: str) -> None:
    home.folder.mkdir(mode=0o700)
    (home.folder / "secret").write_text(SECRET)
    channel = {"driver": "webhook", "url": url, "secrets": [f"file:{home.folder}/secret"]}
    (home.folder / "notify.yaml").write_text(json.dumps({"notify": "ops", "channels": {"chat": channel}, "on_call": ["duty"]}))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def bell(home: Home) -> Iterator[Bell]:
    configure(home, "https://chat.example/x")
    bell = required_bell(home, say=print)
    yield bell
    bell.close(patience_s=0)


def look(bell: Bell, at_s: float, *alarms: AlarmState, observer: str = "one") -> None:
    tell_alarms(bell, WatchReport(1, observer, "two", at_s, FindingStatus.FAIL, (), (), (), alarms, {}))


def alarm(kind: AlarmKind, *, raised_s: float = 10.0, key: str = KEY, text: str = "the newest copy is 3 h old") -> AlarmState:
    return AlarmState(key, kind, raised_s, text=text, changed=("rate: 10 -> 1",))


def told(bell: Bell) -> list[Notice]:
    return [found.notice for found in reversed(bell.outbox.deliveries())]


def test_an_alarm_that_a_newer_version_told_as_a_kind_of_its_own_is_told_again(bell: Bell) -> None:
    look(bell, 10.0, alarm(AlarmKind.MISSED))
    (first,) = told(bell)
    bell.post(msgspec.structs.replace(first, key=f"{first.thread}/2/newer"))
    look(bell, 20.0, alarm(AlarmKind.MISSED))
    assert told(bell)[-1].key == f"{first.thread}/3/missed"


def test_an_alarm_is_told_when_it_is_raised_changes_and_ends_and_not_at_each_look(bell: Bell) -> None:
    foreseen, missed = alarm(AlarmKind.FORESEEN), alarm(AlarmKind.MISSED)
    for at_s, alarms in enumerate([[], [foreseen], [foreseen], [missed], [missed], [foreseen], [foreseen], [], []], start=10):
        look(bell, float(at_s), *alarms)
    assert [(one.state, one.severity, one.was, one.at_s) for one in told(bell)] == [
        (NoticeState.OPEN, Severity.WARNING, None, 10.0),
        (NoticeState.OPEN, Severity.CRITICAL, Severity.WARNING, 13.0),
        (NoticeState.OPEN, Severity.WARNING, Severity.CRITICAL, 15.0),
        (NoticeState.RESOLVED, Severity.WARNING, None, 17.0),
    ]
    assert len({one.thread for one in told(bell)}) == 1
    first = told(bell)[0]
    assert first.labels == {"estate": "two", "code": "WATCH-RPO", "subject": "workload:lm/x"}
    assert first.people == ("duty",)
    assert "Changed: rate: 10 -> 1" in first.text


def test_an_alarm_that_is_raised_again_is_another_one(bell: Bell) -> None:
    look(bell, 10.0, alarm(AlarmKind.MISSED))
    look(bell, 20.0)
    look(bell, 30.0, alarm(AlarmKind.MISSED, raised_s=30.0))
    assert [one.state for one in told(bell)] == [NoticeState.OPEN, NoticeState.RESOLVED, NoticeState.OPEN]


def test_other_words_for_the_same_are_no_change(bell: Bell) -> None:
    look(bell, 10.0, alarm(AlarmKind.MISSED))
    look(bell, 11.0, alarm(AlarmKind.MISSED, text="the newest copy is 4 h old"))
    assert len(told(bell)) == 1


def test_observers_end_nothing_of_each_other(bell: Bell) -> None:
    look(bell, 10.0, alarm(AlarmKind.MISSED))
    look(bell, 11.0, observer="two")
    look(bell, 11.0, observer="on")
    assert [one.state for one in told(bell)] == [NoticeState.OPEN]


def test_a_whole_watch_tells_once_over_looks_and_restarts_and_a_look_beside_it_tells_nobody(home: Home, tmp_path: Path) -> None:
    estate, policy = write_files(tmp_path)  # nothing of what it names is there
    now_s = time.time()

    def watch(*, alone: bool = True) -> Watch:
        order = order_for(observer="one", every_s=10.0, grace_s=120.0, observers=2, lead_s=900.0, alone=alone)
        return Watch(ScopeFiles(estate, policy=policy), home, order, now_s=lambda: now_s)

    with HookReceiver(secret=SECRET) as hook:
        configure(home, hook.url)
        with watch() as watching:
            watching.look()
            now_s += 30.0
            alarms = watching.look().alarms
            assert alarms
            hook.until(lambda: len(hook.data("bridgehead.alarm.open")) == len(alarms))
            with watch(alone=False) as beside:
                beside.look()
            now_s += 10.0
            assert watching.look().alarms
            assert watching.faults == ()
        with watch() as watching:
            now_s += 10.0
            again = watching.look().alarms
    assert {one.key for one in again} >= {one.key for one in alarms}
    assert len(hook.data("bridgehead.alarm.open")) == len(again)
    assert hook.data("bridgehead.alarm.resolved") == []
    assert len(hook.requests) == len(again)
