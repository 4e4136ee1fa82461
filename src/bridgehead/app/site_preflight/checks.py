"""The checks of a site preflight (issue 6): one row each, with what it asks and how it is judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bridgehead.assess.checking import Check
from bridgehead.assess.scope import Scope
from bridgehead.model.finding import Finding, Severity


def _looked_at(_scope: Scope) -> Iterable[Finding]:
    """A preflight looks at a site, not at an estate."""
    return ()


def _check(code: str, title: str, requirement: tuple[str, ...], formula: str, severity: Severity = Severity.BLOCKING) -> Check:
    return Check(code, title, requirement, formula, _looked_at, severity)


MAP = _check("SITE-MAP", "Does the mapping cover everything that the job names?", ("M6",), "no reference without a row of the mapping")
SLURM = _check("SITE-SLURM", "Would Slurm take the job?", ("M5.1",), "sbatch --test-only accepts the mapped script")
PARTITION = _check("SITE-PARTITION", "Is each partition there, up, and open to the job?", ("M5.1",),
                   "State=UP, account in AllowAccounts and not in DenyAccounts, nodes <= MaxNodes (scontrol show partition)")  # fmt: skip
ACCOUNT = _check("SITE-ACCOUNT", "May the user charge each account?", ("M5.1",), "sacctmgr has an association of user and account")
QOS = _check("SITE-QOS", "May the user ask for each QoS?", ("M5.1",), "the QoS exists, and the association of the account lists it")
RESERVATION = _check("SITE-RESERVATION", "Is each reservation there?", ("M5.1",), "scontrol show reservation lists it")
CONSTRAINT = _check(
    "SITE-CONSTRAINT", "Has the site nodes with each feature?", ("M5.1",), "a usable node of the partitions has the feature"
)
GPUS = _check("SITE-GPUS", "Are there enough nodes with the right GPUs?", ("J14", "M5.1"),
              "nodes that respond and are in service, with type and number of GPUs, >= nodes of the job (scontrol show node)")  # fmt: skip
MODEL = _check("SITE-MODEL", "Are the GPUs of the model that the workload needs?", ("J14", "P1"),
               "all words of the model occur in that of the nodes (as GEN-JOB)", Severity.WARNING)  # fmt: skip
DRIVER = _check("SITE-DRIVER", "Does the driver run the CUDA of the job, and is it no older than at its home?", ("J14", "M5.1"),
                "driver >= what CUDA asks for; driver >= newest driver of the home (as FW-RESTORE, rules section 10)")  # fmt: skip
NCCL = _check("SITE-NCCL", "Is one NCCL used by all ranks, and no older one than at home?", ("J14", "M5.1", "P5"),
              "one version in the image or at all nodes (as FW-COLLECTIVES); version >= that of the home")  # fmt: skip
PATH = _check(
    "SITE-PATH", "Is each path there?", ("M5.1",), "it exists and may be read; of what is written, its folder does and may be written to"
)
DATA = _check("SITE-DATA", "Is each data set there, file by file?", ("M9.1", "M8.3"), "the hash of every file of the manifest is right")
EXTRA = _check("SITE-DATA-EXTRA", "Is nothing else in the data sets?", ("M9.1",), "no file that the manifest lacks", Severity.WARNING)
IMAGE = _check("SITE-IMAGE", "Is each image there, by its digest?", ("M5.1", "P13"), "manifest by digest, with every blob")
MODULE = _check("SITE-MODULE", "Is each module there?", ("M5.1",), "module avail lists it")
ENDPOINT = _check("SITE-ENDPOINT", "Does each endpoint answer from there?", ("M5.1",), "a TCP connection is taken")
VARIABLE = _check("SITE-VARIABLE", "Does the site set each variable that the job asks for?", ("M5.1",), "it is set in a login shell")
DEVICE = _check("SITE-DEVICE", "Are the network devices there that variables name?", ("P5",), "/sys/class/net, /sys/class/infiniband",
                Severity.WARNING)  # fmt: skip
OTHER = _check("SITE-OTHER", "Is what else the job names there?", ("M5.1",), "looked at by a person", Severity.WARNING)

CHECKS: Final = (
    *(MAP, SLURM, PARTITION, ACCOUNT, QOS, RESERVATION, CONSTRAINT, GPUS, MODEL, DRIVER, NCCL, PATH, DATA, EXTRA, IMAGE, MODULE),
    *(ENDPOINT, VARIABLE, DEVICE, OTHER),
)
