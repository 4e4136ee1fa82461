"""Notices of the watch: an alarm is told when it is raised, when it becomes another, and when it is over; not at each look (R1, R2)."""

from __future__ import annotations

import contextlib
from typing import Final

from bridgehead.app.home import Home
from bridgehead.app.notifying import Bell, ringing
from bridgehead.kernel.errors import PortError
from bridgehead.model.notice import Notice, NoticeKind, Severity
from bridgehead.recovery.watch.alarm import AlarmKind, AlarmState
from bridgehead.recovery.watch.readiness import WatchReport

_SEVERITY: Final = {
    AlarmKind.MISSED: Severity.CRITICAL,
    AlarmKind.FORESEEN: Severity.WARNING,
    AlarmKind.UNKNOWN: Severity.WARNING,
}


class AlarmTelling:
    """Tells of one observer's alarms, as the home's notify.yaml says; nobody where there is none."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._stack = contextlib.ExitStack()
        self._bell: Bell | None = None
        self._said: list[str] = []

    def start(self) -> None:
        """Begin to deliver, also what was left before."""
        self._bell = self._stack.enter_context(ringing(self._home, say=self._said.append))

    def close(self) -> None:
        """End, after waiting a little for what is on its way."""
        self._bell = None
        self._stack.close()

    def tell(self, made: WatchReport) -> tuple[str, ...]:
        """Tell what has changed since the last report, of whatever process; returns why somebody could not be told since then."""
        if self._bell is not None:
            try:
                tell_alarms(self._bell, made)
            except PortError as error:
                self._said.append(f"people cannot be told: {error.happened}")
        said = tuple(self._said)
        del self._said[: len(said)]
        return said


def tell_alarms(bell: Bell, made: WatchReport) -> None:
    """Have told what has changed. Raises port errors of the outbox."""
    prefix = f"watch/{made.estate}/{made.observer}/"
    before = bell.outbox.open_threads(prefix)
    standing = {_thread(prefix, alarm): alarm for alarm in made.alarms}
    for thread, alarm in standing.items():
        last = before.get(thread)
        if last is None or _kind(last) != alarm.kind:
            bell.post(_notice(bell, made, thread, alarm, last))
    bell.settle(before, standing, what=lambda notice: f"This is over: {notice.title}.", now_s=made.at_s)


def _thread(prefix: str, alarm: AlarmState) -> str:
    return f"{prefix}{alarm.key}/{alarm.raised_s or 0.0:.3f}"


def _kind(notice: Notice) -> str:
    """The last word of the key says what the alarm was when it was told last, perhaps by another version."""
    return notice.key.rsplit("/", 1)[1]


def _notice(bell: Bell, made: WatchReport, thread: str, alarm: AlarmState, last: Notice | None) -> Notice:
    assert alarm.kind is not None
    number = 1 if last is None else int(last.key.rsplit("/", 2)[1]) + 1
    finding = next((one for one in made.findings if one.key == alarm.key), None)
    code, _, subject = alarm.key.partition(" ")
    labels = {"estate": made.estate, "code": code, "subject": subject}
    if finding is not None:
        labels |= {"workload": finding.workload, "site": finding.site}
    lines = [alarm.text, *(f"Changed: {change}" for change in alarm.changed), f"Seen by {made.observer}."]
    return Notice(
        key=f"{thread}/{number}/{alarm.kind.value}",
        thread=thread,
        kind=NoticeKind.ALARM,
        title=f"{made.estate}: {alarm.kind.value}: {alarm.key}",
        text="\n".join(lines),
        at_s=made.at_s if last is not None else alarm.raised_s or made.at_s,
        since_s=alarm.raised_s or made.at_s,
        severity=_SEVERITY[alarm.kind],
        people=bell.file.on_call,
        labels={name: value for name, value in labels.items() if value},
        was=last.severity if last is not None else None,
    )
