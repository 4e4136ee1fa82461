"""Slurm behind the ports of schedulers and of their doors."""

from bridgehead.drivers.slurm.admission import SlurmAdmission
from bridgehead.drivers.slurm.options import JobRequest, OnNodeFailure, RestOptions, SlurmOptions
from bridgehead.drivers.slurm.scheduler import SlurmScheduler

__all__ = ["JobRequest", "OnNodeFailure", "RestOptions", "SlurmAdmission", "SlurmOptions", "SlurmScheduler"]
