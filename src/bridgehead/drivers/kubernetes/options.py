"""Options of the Kubernetes scheduler: the namespace, its log-in, and what each job asks for."""

from __future__ import annotations

import enum
import fnmatch

import msgspec

from bridgehead.drivers.kubernetes.login import KubeLogin
from bridgehead.kernel.ids import JobName


class OnDisruption(enum.Enum):
    """What Kubernetes does with a job whose pod is evicted, preempted, or lost with its node."""

    END = "end"
    RESTART = "restart"


class OnDrain(enum.Enum):
    """What a drain of nodes does with their pods that never end by themselves: those of no Job, and of no DaemonSet."""

    LEAVE = "leave"
    EVICT = "evict"


class PodRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the jobs whose names match ask of Kubernetes. A template, an image, or both must be given.

    Attributes:
        template: a YAML file with a PodTemplateSpec (``metadata``, ``spec``): volumes, tolerations, security and so on. Its first container
            runs the job's command.
        image: of that container, best by digest; "" leaves the template's.
        pods: run at once, each with its index in JOB_COMPLETION_INDEX; the job succeeds when all do.
        gpus: of each pod's first container.
        gpu_resource: their name.
        node_labels: nodes must have these.
        on_disruption: ``end`` leaves the restart to the run; ``restart`` lets Kubernetes run the command again from its beginning.
        keep_s: Kubernetes deletes a job that completed or failed after this; -1 keeps it.
    """

    template: str = ""
    image: str = ""
    pods: int = 1
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    node_labels: dict[str, str] = {}
    on_disruption: OnDisruption = OnDisruption.END
    keep_s: float = -1.0


class DeploymentRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that is a Deployment: started by scaling it from 0, stopped by scaling it to 0. Its pods are its own; the command is not used.

    Attributes:
        name: of the Deployment, which is made by somebody else.
        replicas: to start with; an autoscaler may change it afterwards.
    """

    name: str
    replicas: int = 1


class KubernetesOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One namespace of one Kubernetes cluster.

    Attributes:
        login: how the API server is reached.
        namespace: of the jobs and of the driver's own record; "" is that of the log-in.
        jobs: pattern of names (as ``train-*``) to what such jobs ask for; the first that matches counts.
        deployments: jobs, by name, that are Deployments.
        env: given to every job; it stands in the pod for everybody to read.
        on_drain: ``leave`` lets services stay on drained nodes; ``evict`` asks them away, as far as budgets of disruption allow.
    """

    login: KubeLogin = KubeLogin()
    namespace: str = ""
    jobs: dict[str, PodRequest] = {}
    deployments: dict[JobName, DeploymentRequest] = {}
    env: dict[str, str] = {}
    on_drain: OnDrain = OnDrain.LEAVE

    def request(self, name: JobName) -> PodRequest | None:
        """What a job of this name asks for; None when no pattern matches."""
        return next((request for pattern, request in self.jobs.items() if fnmatch.fnmatchcase(name, pattern)), None)
