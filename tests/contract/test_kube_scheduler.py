"""The Kubernetes scheduler keeps the scheduler's contract, against a strict fake of the API server."""

from __future__ import annotations

from bridgehead.testing.kube_hooks import KubeHooks
from bridgehead.testing.scheduler_suite import SchedulerSuite


class TestKubernetesScheduler(KubeHooks, SchedulerSuite):
    """The contract."""
