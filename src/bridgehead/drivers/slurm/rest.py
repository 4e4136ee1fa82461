"""Jobs by slurmrestd, over HTTP or a socket of this machine."""

from __future__ import annotations

import http.client
import math
import socket
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from bridgehead.drivers.slurm.job import Phase, SlurmJob
from bridgehead.drivers.slurm.options import OnNodeFailure, RestOptions, SlurmOptions
from bridgehead.drivers.slurm.script import Submission
from bridgehead.kernel.errors import Permanent, Transient, Unknown

_MAX_BYTES: Final = 256 * 1024 * 1024
"""A page of a hundred thousand jobs; it is read whole, because this version filters nothing."""
_GONE: Final = frozenset({2017, 2021})
"""ESLURM_INVALID_JOB_ID, ESLURM_ALREADY_DONE."""
_REFUSED: Final = range(2000, 2999)
"""Codes by which slurmctld itself says no; lower ones, and none, are troubles on the way."""
_LATER: Final = frozenset({2009, 2015, 2018})
"""Of those, the ones that pass: temporarily unable to accept, in transition, pending an update."""


class _Error(msgspec.Struct):
    error: str = ""
    description: str = ""
    error_number: int = 0
    error_code: int = 0

    @property
    def number(self) -> int:
        return self.error_number or self.error_code


class _Job(msgspec.Struct):
    job_id: int
    name: str
    job_state: str
    submit_time: float
    end_time: float
    restart_cnt: int
    exit_code: int
    comment: str
    state_reason: str
    nodes: str
    cluster: str
    user_name: str


class _Answer(msgspec.Struct):
    errors: list[_Error] = []
    jobs: list[_Job] = []
    job_id: int = 0


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: str, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class RestClient:
    """Implements the scheduler's ``JobClient``. Of a job's options it cannot say: TERM before the time limit, ``--no-requeue``."""

    def __init__(self, options: SlurmOptions, rest: RestOptions) -> None:
        self._options, self._rest = options, rest

    def jobs(self, name: str) -> list[SlurmJob]:
        """See there; all users' jobs of that name where the token may see them."""
        tried = "look at jobs"
        status, answer = self._ask("GET", "jobs", tried=tried)
        if status != 200 or answer.errors:
            # A failed look comes with an empty list of jobs, which is not "no jobs".
            raise Transient(
                _said(status, answer), tried=tried, subject=self._rest.url, remedy="Look at the logs of slurmrestd and slurmctld."
            )
        other = {job.cluster for job in answer.jobs if job.cluster} - {self._options.cluster}
        if other:
            remedy = "Correct cluster or rest in the estate file."
            raise Permanent(f"cluster {', '.join(sorted(other))} answers", tried=tried, subject=self._rest.url, remedy=remedy)
        return [_view(job) for job in answer.jobs if job.name == name and self._rest.user in ("", job.user_name)]

    def submit(self, submission: Submission) -> str:
        """See there."""
        tried = "submit a job"
        body = msgspec.json.encode({"script": submission.script, "job": _properties(submission)})
        status, answer = self._ask("POST", "job/submit", tried=tried, body=body)
        numbers = [error.number for error in answer.errors]
        if status == 200 and not numbers and answer.job_id:
            return str(answer.job_id)
        happened = _said(status, answer)
        if any(number in _LATER for number in numbers):
            raise Transient(happened, tried=tried, subject=submission.name, retry_after_s=5.0)
        if 400 <= status < 500 or any(number in _REFUSED or number >= 9000 for number in numbers):
            raise Permanent(happened, tried=tried, subject=submission.name, remedy="Correct the job's options in the estate file.")
        raise Unknown(happened, tried=tried, subject=submission.name)

    def ask(self, job: SlurmJob) -> None:
        """SIGTERM to all processes; a job that waits is cancelled."""
        self._delete(job, "?signal=15" if job.phase is Phase.LIVING else "")

    def kill(self, job: SlurmJob) -> None:
        """The end of a job: TERM to every process, and KILL after KillWait."""
        self._delete(job, "")

    def _delete(self, job: SlurmJob, query: str) -> None:
        tried = "end a job"
        status, answer = self._ask("DELETE", f"job/{job.job_id}{query}", tried=tried, repeatable=True)
        if (status == 200 and not answer.errors) or any(error.number in _GONE for error in answer.errors):
            return
        raise Transient(_said(status, answer), tried=tried, subject=f"job {job.job_id}")

    def _ask(self, method: str, path: str, *, tried: str, body: bytes = b"", repeatable: bool = False) -> tuple[int, _Answer]:
        sent = False
        try:
            connection = self._connection()
            try:
                connection.connect()
                headers = {"Accept": "application/json", "Content-Type": "application/json", "Connection": "close", **self._login()}
                sent = True
                connection.request(method, f"/slurm/{self._rest.version}/{path}", body=body or None, headers=headers)
                answer = connection.getresponse()
                text = answer.read(_MAX_BYTES)
                return answer.status, msgspec.json.decode(text, type=_Answer)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
            kind = Transient if method == "GET" or repeatable or not sent else Unknown
            raise kind(f"{type(error).__name__}: {error}", tried=tried, subject=self._rest.url, remedy="Check slurmrestd.") from error

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._rest.url)
        if parts.scheme == "unix" and parts.path:
            return _SocketConnection(parts.path, timeout=self._options.timeout_s)
        if parts.scheme != "http" or not parts.hostname:
            happened = "neither http://host:port nor unix:/path"
            raise Permanent(happened, tried="reach slurmrestd", subject=self._rest.url, remedy="Correct rest.url in the estate file.")
        return http.client.HTTPConnection(parts.hostname, parts.port or 6820, timeout=self._options.timeout_s)

    def _login(self) -> dict[str, str]:
        token = {"X-SLURM-USER-TOKEN": Path(self._rest.token_file).read_text().strip()} if self._rest.token_file else {}
        return token | ({"X-SLURM-USER-NAME": self._rest.user} if self._rest.user else {})


def _properties(submission: Submission) -> dict[str, Any]:
    request = submission.request
    given: dict[str, Any] = {
        "name": submission.name,
        "comment": submission.comment,
        "current_working_directory": submission.workdir,
        "standard_output": submission.output,
        "open_mode": "append",
        "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        "nodes": [request.nodes, request.nodes],
        "requeue": request.on_node_failure is OnNodeFailure.REQUEUE,
        "partition": request.partition,
        "account": request.account,
        "qos": request.qos,
        "reservation": request.reservation,
        "constraints": request.constraint,
        "tasks_per_node": request.tasks_per_node,
        "cpus_per_task": request.cpus_per_task,
        "gres": submission.gres,
        "memory_per_node": request.memory_mb,
        "time_limit": math.ceil(submission.time_limit_min),
    }
    kept = ("requeue", "nodes")
    return {key: value for key, value in given.items() if value or key in kept}


def _view(job: _Job) -> SlurmJob:
    return SlurmJob(
        job_id=str(job.job_id),
        name=job.name,
        state=job.job_state,
        submitted_s=job.submit_time,
        ended_s=job.end_time or None,
        restarts=job.restart_cnt,
        wait_status=job.exit_code,
        comment=job.comment,
        reason="" if job.state_reason == "None" else job.state_reason,
        nodes=job.nodes,
    )


def _said(status: int, answer: _Answer) -> str:
    said = "; ".join(f"{error.description} {error.error}".strip() for error in answer.errors)
    return f"slurmrestd answers {status}: {said or 'nothing'}"
