"""Kubernetes behind the ports: Jobs as a site's jobs, and HTTPRoutes of the Gateway API as the proxy of services."""

from bridgehead.drivers.kubernetes.admission import KubernetesAdmission
from bridgehead.drivers.kubernetes.login import KubeLogin
from bridgehead.drivers.kubernetes.options import DeploymentRequest, KubernetesOptions, OnDisruption, OnDrain, PodRequest
from bridgehead.drivers.kubernetes.route_options import KubernetesTrafficOptions, RouteBackend, RouteService
from bridgehead.drivers.kubernetes.scheduler import KubernetesScheduler
from bridgehead.drivers.kubernetes.traffic import KubernetesTraffic

__all__ = [
    "DeploymentRequest",
    "KubeLogin",
    "KubernetesAdmission",
    "KubernetesOptions",
    "KubernetesScheduler",
    "KubernetesTraffic",
    "KubernetesTrafficOptions",
    "OnDisruption",
    "OnDrain",
    "PodRequest",
    "RouteBackend",
    "RouteService",
]
