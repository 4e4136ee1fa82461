"""A job as Slurm knows it, read from squeue or slurmrestd."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from bridgehead.drivers.slurm.script import TOKEN


class Phase(enum.Enum):
    """What a job's state means for us."""

    WAITING = "waiting"
    LIVING = "living"
    """Has processes, or may have some: also while they are being ended."""
    OVER = "over"
    UNSURE = "unsure"
    """Slurm gave it up because a node does not answer: its processes there may live."""


_WAITING: Final = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "CONFIGURING"}
_OVER: Final = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "PREEMPTED", "REVOKED"}
_BY_SLURM: Final = {"CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "PREEMPTED", "REVOKED", "NODE_FAIL"}
"""Ended by Slurm: then exit code 0 says nothing about the job's success."""


def phase_of(state: str) -> Phase:
    """A state that is not known here is taken for living, so that nothing is started beside it."""
    word = state.split(" ")[0].rstrip("+")
    if word in _WAITING:
        return Phase.WAITING
    if word == "NODE_FAIL":
        return Phase.UNSURE
    return Phase.OVER if word in _OVER else Phase.LIVING


class SlurmJob(msgspec.Struct, frozen=True):
    """One job in Slurm's memory.

    Attributes:
        submitted_s: of the newest requeue, where there was one.
        wait_status: as wait(2) gives it.
        reason: why it waits.
    """

    job_id: str
    name: str
    state: str
    submitted_s: float
    ended_s: float | None
    restarts: int
    wait_status: int
    comment: str
    reason: str
    nodes: str

    @property
    def phase(self) -> Phase:
        """What the state means for us."""
        return phase_of(self.state)

    @property
    def token(self) -> str:
        """The execution's token in the comment; "" for a job that somebody else submitted."""
        return self.comment.removeprefix(TOKEN) if self.comment.startswith(TOKEN) else ""

    @property
    def exit_code(self) -> int | None:
        """128 + N after signal N; None when Slurm ended it and no process told a code."""
        return exit_code(self.state, status=self.wait_status >> 8, signal=self.wait_status & 127)


def exit_code(state: str, *, status: int, signal: int) -> int | None:
    """See ``SlurmJob.exit_code``."""
    if signal:
        return 128 + signal
    return None if status == 0 and state.split(" ")[0].rstrip("+") in _BY_SLURM else status


FIELDS: Final = (
    ("JobID", 20),
    ("Name", 220),
    ("State", 24),
    ("SubmitTime", 24),
    ("EndTime", 24),
    ("RestartCnt", 8),
    ("exit_code", 10),
    ("Comment", 120),
    ("Reason", 60),
    ("NodeList", 2000),
)
"""What squeue is asked for, with widths: it cuts what is longer, and knows no format without widths."""
FORMAT: Final = ",".join(f"{name}:{width}|" for name, width in FIELDS)


def read_squeue(text: str) -> list[SlurmJob]:
    """The lines of ``squeue -h -O FORMAT`` with SLURM_TIME_FORMAT=%s. Raises ValueError for what is none."""
    return [_read_line(line) for line in text.splitlines() if line.strip()]


def _read_line(line: str) -> SlurmJob:
    cells, start = [], 0
    for _, width in FIELDS:
        # Fixed columns: a comment may hold the separator.
        if line[start + width : start + width + 1] != "|":
            raise ValueError(f"not in the columns that were asked for: {line!r}")
        cells.append(line[start : start + width].strip())
        start += width + 1
    job_id, name, state, submitted, ended, restarts, status, comment, reason, nodes = cells
    if not job_id.isdigit():
        raise ValueError(f"no job id: {line!r}")
    return SlurmJob(
        job_id=job_id,
        name=name,
        state=state,
        submitted_s=float(submitted),
        ended_s=float(ended) if ended.isdigit() else None,
        restarts=int(restarts),
        wait_status=int(status),
        comment=comment,
        reason="" if reason == "None" else reason,
        nodes="" if nodes in ("(null)", "None assigned") else nodes,
    )
