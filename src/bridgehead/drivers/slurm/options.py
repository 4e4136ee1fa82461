"""Options of the Slurm driver: how the cluster is reached, where its records are kept, and what each job asks for."""

from __future__ import annotations

import enum
import fnmatch

import msgspec

from bridgehead.kernel.ids import JobName
from bridgehead.model.login import SshOptions


class OnNodeFailure(enum.Enum):
    """What Slurm does with a job one of whose nodes stops answering."""

    END = "end"
    REQUEUE = "requeue"


class CheckCommand(enum.Enum):
    """Where a job's program is looked for before the job is submitted."""

    LOGIN = "login"
    """Where commands are run: the job's nodes see the same programs."""
    NOWHERE = "nowhere"
    """It exists on the nodes only; a wrong path ends the job with code 127 instead of being refused."""


class JobRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the jobs whose names match ask of Slurm; empty or 0 leaves it to Slurm's defaults.

    Attributes:
        gpus_per_node: as ``--gres=gpu:[gpu_type:]N``.
        memory_mb: per node.
        time_limit_s: rounded up to minutes. The job is then sent TERM its ``grace_s`` before the end.
        on_node_failure: ``end`` leaves the restart to the run; ``requeue`` lets Slurm run the script again from its beginning.
        options: further words for sbatch, as ``--exclusive``; not with ``rest``.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    nodes: int = 1
    tasks_per_node: int = 0
    cpus_per_task: int = 0
    gpus_per_node: int = 0
    gpu_type: str = ""
    memory_mb: int = 0
    time_limit_s: float = 0.0
    on_node_failure: OnNodeFailure = OnNodeFailure.END
    options: tuple[str, ...] = ()


class RestOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """slurmrestd in place of the command line for jobs.

    Attributes:
        url: ``http://host:port``, or ``unix:/path/of/socket``.
        version: of its OpenAPI plugin.
        user: for the header ``X-SLURM-USER-NAME``; with ``token_file``.
        token_file: a JSON web token; read for each request, so that a renewed one counts.
    """

    url: str
    version: str = "v0.0.38"
    user: str = ""
    token_file: str = ""


class SlurmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One Slurm cluster.

    Attributes:
        cluster: its ClusterName; another cluster that answers in its place is refused.
        state: folder for records and output, which the job's nodes see under the same path; made when
            missing, for this site alone.
        ssh: log in there to run commands; without, they are run on the machine of the controller.
        prefix: words before each command without ssh, as ``[sudo, -n, -u, mover]``.
        operator: words before commands for which Slurm wants an operator (drain and reservations), as ``[sudo, -n, -u, slurm]``;
            none when the user himself is one.
        conf: path of slurm.conf for the clients; "" is their default.
        rest: submit and look through slurmrestd; records are still kept by commands.
        jobs: pattern of names (as ``train-*``) to what such jobs ask for; the first that matches counts.
        env: given to every job.
        jobcomp: the file of JobCompType=jobcomp/filetxt, as commands see it; "" asks sacct alone about jobs that Slurm forgot.
        check_command: where a job's program is looked for before it is submitted.
        timeout_s: for each call of Slurm.
    """

    cluster: str
    state: str
    ssh: SshOptions | None = None
    prefix: tuple[str, ...] = ()
    operator: tuple[str, ...] = ()
    conf: str = ""
    rest: RestOptions | None = None
    jobs: dict[str, JobRequest] = {}
    env: dict[str, str] = {}
    jobcomp: str = ""
    check_command: CheckCommand = CheckCommand.LOGIN
    timeout_s: float = 20.0

    def request(self, name: JobName) -> JobRequest:
        """What a job of this name asks for."""
        return next((request for pattern, request in self.jobs.items() if fnmatch.fnmatchcase(name, pattern)), JobRequest())
