"""Slurm's command line, run through a shell: calls bounded in time, and what their complaints mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from bridgehead.drivers.slurm.job import FORMAT, SlurmJob, read_squeue
from bridgehead.drivers.slurm.node import FORMAT as NODE_FORMAT
from bridgehead.drivers.slurm.node import NodeState, read_sinfo
from bridgehead.drivers.slurm.options import SlurmOptions
from bridgehead.drivers.slurm.script import Submission, sbatch_words
from bridgehead.kernel.errors import NotFound, Permanent, Transient, Unknown
from bridgehead.ports.shell import Shell, ShellResult

_UNREACHABLE: Final = (
    "unable to contact slurm controller",
    "connection refused",
    "connect failure",
    "socket timed out",
    "zero bytes were transmitted",
    "communication connection failure",
    "protocol authentication error",
    "invalid authentication credential",
    "munge",
    "standby mode",
    "could not establish a configuration source",
    "unspecified error",
    "resource temporarily unavailable",
    "unexpected message received",
)
_NOTHING_DONE: Final = ("connect failure", "connection refused", "munge", "could not establish a configuration source", "standby mode")
"""Of those, the ones by which a submission surely did not arrive."""
_TRY_LATER: Final = ("temporarily unable to accept job", "resource temporarily unavailable", "pending an update", "in transition")
_NO_RIGHT: Final = ("invalid user id", "access/permission denied")
_OPERATOR: Final = "Give the driver's option operator, or make the user an operator of Slurm; look for a user of that name."
_GONE: Final = ("invalid job id specified",)
_OVER: Final = ("job/step already completing or completed", "job has already finished")
_CLEAN: Final = (
    'exec env -i PATH="$PATH" ${HOME:+HOME="$HOME"} ${USER:+USER="$USER"} LANG=C.UTF-8 ${SLURM_CONF:+SLURM_CONF="$SLURM_CONF"} "$@"'
)
"""A job gets the environment of its submission: not the controller's, which may hold secrets."""
_TIMED_OUT: Final = 124


class CommandLine:
    """Jobs by sbatch, squeue and scancel. All methods raise Permanent when Slurm's programs are not there."""

    def __init__(self, options: SlurmOptions, shell: Shell) -> None:
        self._options, self._shell = options, shell
        self._checked = False

    def jobs(self, name: str) -> list[SlurmJob]:
        """The user's jobs of that name, as far as slurmctld remembers them. Raises Transient when it does not answer."""
        self.check_cluster()
        return self._squeue(f"--name={name}")

    def by_id(self, job_id: str) -> SlurmJob | None:
        """One job; None when slurmctld says that it does not know it. Raises Transient."""
        try:
            found = self._squeue(f"--jobs={job_id}")
        except NotFound:
            return None
        return found[0] if found else None

    def submit(self, submission: Submission) -> str:
        """The new job's id. Raises Permanent when Slurm refuses, Transient when it was not asked, Unknown in between."""
        self.check_cluster()
        tried, words = "submit a job", ["sbatch", *sbatch_words(submission)]
        result = self.run(["sh", "-c", _CLEAN, "sh", *words], tried=tried, stdin=submission.script.encode())
        if result.exit_code == 0:
            job_id = result.text.strip().splitlines()[-1].partition(";")[0] if result.text.strip() else ""
            if job_id.isdigit():
                return job_id
            raise Unknown(f"sbatch says {result.text!r}", tried=tried, subject=submission.name)
        said = result.complaint.lower()
        if any(word in said for word in _NOTHING_DONE + _TRY_LATER):
            raise Transient(result.complaint, tried=tried, subject=submission.name, retry_after_s=5.0)
        if result.exit_code == _TIMED_OUT or any(word in said for word in _UNREACHABLE):
            raise Unknown(result.complaint, tried=tried, subject=submission.name)
        raise Permanent(result.complaint, tried=tried, subject=submission.name, remedy="Correct the job's options in the estate file.")

    def ask(self, job: SlurmJob) -> None:
        """SIGTERM to the batch script; a job that waits is cancelled. No effect when it is over. Raises Transient."""
        self.signal(job.job_id, "TERM", "--batch")
        # After the signal: a job that began in between has got one of the two.
        self._scancel(["--state=PENDING", job.job_id])

    def kill(self, job: SlurmJob) -> None:
        """The end of a job: Slurm sends TERM to every process, and KILL after KillWait. No effect when it is over. Raises Transient.

        SIGKILL to the batch script would be faster, and would leave its children behind where Slurm tracks processes without cgroups.
        """
        self._scancel([job.job_id])

    def signal(self, job_id: str, signal: str, whom: str) -> None:
        """Send a signal (``whom``: ``--batch``, ``--full``). No effect on a job without processes. Raises Transient."""
        self._scancel([f"--signal={signal}", whom, job_id])

    def silent_nodes(self, nodes: str) -> list[str]:
        """Which of the nodes (``n[1-3]``) are not seen to answer, unless their reason begins with "fenced". Raises Transient.

        Only what Slurm says counts: a node that it has no line for, or that is in a state that is not known here, is silent.
        """
        if not nodes:
            return ["its node"]
        try:
            names = self.ask_text(["scontrol", "show", "hostnames", nodes], tried="look at nodes").split()
        except Permanent:  # squeue cuts a list that is too long
            return [nodes]
        states = {state.name: state for state in self.node_states(nodes)}
        return sorted(name for name in names if name not in states or not (states[name].answers or states[name].fenced))

    def node_states(self, nodes: str) -> list[NodeState]:
        """The nodes' states, one each, of those that Slurm knows in some partition. Raises Transient."""
        # -a: nodes of hidden partitions, too. The short state would not do: there a reservation's mark hides that a node is silent.
        text = self.ask_text(["sinfo", "-a", "-h", "-N", f"--nodes={nodes}", "-O", NODE_FORMAT], tried="look at nodes")
        try:
            return read_sinfo(text)
        except ValueError as error:
            raise Transient(f"sinfo's answer cannot be read: {error}", tried="look at nodes", subject=self._subject) from error

    # calls

    def ask_text(self, words: Sequence[str], *, tried: str) -> str:
        """What a client prints that only looks. Raises Transient, NotFound for an id that slurmctld does not know, Permanent."""
        try:
            result = self.run(words, tried=tried)
        except Unknown as error:
            raise Transient(error.happened, tried=tried, subject=error.subject, remedy=error.remedy) from error
        if result.exit_code == 0:
            return result.text
        raise self.trouble(result, tried=tried)

    def trouble(self, result: ShellResult, *, tried: str) -> NotFound | Transient | Permanent:
        """What a client's complaint means, for calls that look or may be repeated."""
        said = result.complaint.lower()
        if any(word in said for word in _GONE):
            return NotFound(result.complaint, tried=tried, subject=self._subject)
        if result.exit_code == _TIMED_OUT or any(word in said for word in _UNREACHABLE + _TRY_LATER):
            return Transient(result.complaint, tried=tried, subject=self._subject, remedy="Check slurmctld and munge there.")
        remedy = _OPERATOR if any(word in said for word in _NO_RIGHT) else ""
        return Permanent(result.complaint, tried=tried, subject=self._subject, remedy=remedy)

    def tell(self, words: Sequence[str], *, tried: str, operator: bool = False) -> None:
        """A command whose repeat does no harm. Raises Transient, NotFound for an id that slurmctld does not know, Permanent."""
        first = self._options.operator if operator else ()
        try:
            result = self.run(words, tried=tried, first=first)
        except Unknown as error:
            raise Transient(error.happened, tried=tried, subject=error.subject, remedy=error.remedy) from error
        if result.exit_code != 0:
            raise self.trouble(result, tried=tried)

    def run(self, words: Sequence[str], *, tried: str, stdin: bytes = b"", first: Sequence[str] = ()) -> ShellResult:
        """Run a client, bounded here and there: a client whose controller is silent waits for minutes. Raises as the shell does."""
        limit_s = self._options.timeout_s
        env = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"} | ({"SLURM_CONF": self._options.conf} if self._options.conf else {})
        # sudo passes no environment on, so it is said behind the first words once more.
        behind = ["env", *(f"{name}={value}" for name, value in env.items())] if first else []
        bounded = [*first, *behind, "timeout", "-k", "1", str(math.ceil(limit_s)), *words]
        result = self._shell.run(bounded, stdin=stdin, env=env, timeout_s=limit_s + 5.0)
        if result.exit_code in (126, 127) and not result.stdout:
            remedy = "Install Slurm's clients, or let the driver's shell lead to where they are."
            raise Permanent(result.complaint, tried=tried, subject=self._subject, remedy=remedy)
        return result

    def check_cluster(self) -> None:
        """Once: the cluster that answers is the one that is meant. Raises Permanent when it is another one, Transient."""
        if self._checked:
            return
        text = self.ask_text(["scontrol", "show", "config"], tried="ask a cluster for its name")
        names = [line.partition("=")[2].strip() for line in text.splitlines() if line.startswith("ClusterName")]
        if names != [self._options.cluster]:
            raise Permanent(
                f"cluster {', '.join(names) or 'without a name'} answers",
                tried="reach a Slurm cluster",
                subject=self._subject,
                remedy="Correct cluster, conf or shell in the estate file.",
            )
        self._checked = True

    def _squeue(self, filter_word: str) -> list[SlurmJob]:
        tried = "look at jobs"
        text = self.ask_text(["squeue", "--me", filter_word, "--states=all", "-h", "-O", FORMAT], tried=tried)
        try:
            return read_squeue(text)
        except ValueError as error:
            raise Transient(f"squeue's answer cannot be read: {error}", tried=tried, subject=self._subject) from error

    def _scancel(self, words: Sequence[str]) -> None:
        tried = "end a job"
        try:
            result = self.run(["scancel", *words], tried=tried)
        except Unknown as error:
            raise Transient(error.happened, tried=tried, subject=error.subject) from error  # a repeat does no harm
        said = result.complaint.lower() if result.stderr else ""
        if not said or any(word in said for word in _GONE + _OVER):
            return
        raise self.trouble(result, tried=tried)

    @property
    def _subject(self) -> str:
        return f"cluster {self._options.cluster}"
