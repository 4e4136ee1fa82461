"""Slurm behind the scheduler port."""

from bridgehead.drivers.slurm.options import JobRequest, OnNodeFailure, RestOptions, SlurmOptions
from bridgehead.drivers.slurm.scheduler import SlurmScheduler

__all__ = ["JobRequest", "OnNodeFailure", "RestOptions", "SlurmOptions", "SlurmScheduler"]
