"""Kubernetes behind the ports: Jobs as a site's jobs."""

from bridgehead.drivers.kubernetes.login import KubeLogin
from bridgehead.drivers.kubernetes.options import KubernetesOptions, OnDisruption, PodRequest
from bridgehead.drivers.kubernetes.scheduler import KubernetesScheduler

__all__ = ["KubeLogin", "KubernetesOptions", "KubernetesScheduler", "OnDisruption", "PodRequest"]
