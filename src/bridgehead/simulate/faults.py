"""Faults are values: what goes wrong, where and when. A plan is drawn from a seed (``fault_plan``); a ``FaultBook`` lets it happen.

Calls are named ``port.method`` (``traffic.write``); ``nth`` counts the calls of that name from 1. Times count from the beginning.
"""

from __future__ import annotations

import enum

import msgspec

from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.simulate.vault import WriteFault


class Side(enum.StrEnum):
    """Before or after the thing happens."""

    BEFORE = "before"
    AFTER = "after"


class Saying(enum.StrEnum):
    """What an operator says."""

    ABORT = "abort"
    PAUSE = "pause"
    RESUME = "resume"


class _Fault(msgspec.Struct, frozen=True, tag_field="fault"):
    pass


class SlowCall(_Fault, frozen=True, tag="slow-call"):
    """The effect comes at once, the answer late."""

    call: str
    nth: int
    delay_s: float


class FailBefore(_Fault, frozen=True, tag="fail-before"):
    """Transient, without an effect, ``times`` calls in a row."""

    call: str
    nth: int
    times: int


class FailAfter(_Fault, frozen=True, tag="fail-after"):
    """The effect happens, the answer is Unknown."""

    call: str
    nth: int


class RepeatedCall(_Fault, frozen=True, tag="repeated-call"):
    """The network delivers the call twice."""

    call: str
    nth: int


class StaleRead(_Fault, frozen=True, tag="stale-read"):
    """The answer is an older one."""

    call: str
    nth: int


class DieInCall(_Fault, frozen=True, tag="die-in-call"):
    """The driving process dies in the middle of an action, before or after this call had its effect."""

    call: str
    nth: int
    side: Side
    resume_after_s: float


class LateCall(_Fault, frozen=True, tag="late-call"):
    """The driving process dies when it has sent the call, which arrives ``late_s`` later: a controller that is no more (J13)."""

    call: str
    nth: int
    late_s: float
    resume_after_s: float


class DieAtAppend(_Fault, frozen=True, tag="die-at-append"):
    """The driving process dies at its ``nth`` write to the journal. Commands that it had started reach the world ``zombie_s`` later
    (None: never)."""

    nth: int
    side: Side
    resume_after_s: float
    zombie_s: float | None = None


class LostAppend(_Fault, frozen=True, tag="lost-append"):
    """The journal's write is done, its answer is lost; the process gives up and another one resumes."""

    nth: int


class JournalFull(_Fault, frozen=True, tag="journal-full"):
    """The journal has no space; nothing is written; the process gives up and another one resumes."""

    nth: int


class CutOff(_Fault, frozen=True, tag="cut-off"):
    """A site (or the proxy, ``network.EDGE``) cannot be reached for a time."""

    site: SiteId
    at_s: float
    for_s: float


class CutLink(_Fault, frozen=True, tag="cut-link"):
    """Nothing travels between the sites for a time."""

    at_s: float
    for_s: float


class JobDeath(_Fault, frozen=True, tag="job-death"):
    """The node of a job dies; at ``at_s`` or, if the job runs only later, ``at_s`` after its start."""

    site: SiteId
    job: JobName
    at_s: float


class BadWrite(_Fault, frozen=True, tag="bad-write"):
    """The ``nth`` write to a vault from the beginning is torn or lost, although it was reported as done."""

    site: SiteId
    nth: int
    kind: WriteFault


class DiskFull(_Fault, frozen=True, tag="disk-full"):
    """A vault has no space for a time."""

    site: SiteId
    at_s: float
    for_s: float


class ClockJump(_Fault, frozen=True, tag="clock-jump"):
    """The wall clock of the controller's machine is set by this much; processes that start later see it."""

    at_s: float
    by_s: float


class Word(_Fault, frozen=True, tag="word"):
    """An operator speaks."""

    at_s: float
    saying: Saying


class ProxyForgets(_Fault, frozen=True, tag="proxy-forgets"):
    """The proxy restarts with the weights that it had in the beginning (G09); while nobody drives the run, nobody puts them right."""

    at_s: float


class OldPrimary(_Fault, frozen=True, tag="old-primary"):
    """Some time after the first fence, the old trainer is back at the source and saves in its old epoch for a while (J05, J06)."""

    after_s: float
    for_s: float


class SiteLoss(_Fault, frozen=True, tag="site-loss"):
    """A whole site dies, jobs and all, and is out of reach; after ``for_s`` it is back. A ``zombie`` goes on computing where it was."""

    site: SiteId
    at_s: float
    for_s: float
    zombie: bool = False


CallFault = SlowCall | FailBefore | FailAfter | RepeatedCall | StaleRead | DieInCall | LateCall
AppendFault = DieAtAppend | LostAppend | JournalFull
WorldFault = CutOff | CutLink | JobDeath | BadWrite | DiskFull | ClockJump | Word | ProxyForgets | OldPrimary | SiteLoss
Fault = CallFault | AppendFault | WorldFault


def kind_of(fault: Fault) -> str:
    """The kind's name, as printed."""
    return str(fault.__struct_config__.tag)
