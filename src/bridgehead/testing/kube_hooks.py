"""Jobs on the fake Kubernetes cluster for the scheduler's suite and for further tests, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.drivers.kubernetes import KubeLogin, KubernetesOptions, KubernetesScheduler, PodRequest
from bridgehead.kernel.ids import JobName
from bridgehead.ports.scheduler import Scheduler
from bridgehead.testing.kube_server import TOKEN, FakeCluster, Strike
from bridgehead.testing.scheduler_suite import SchedulerHooks

SPACE = "train"


class KubeHooks(SchedulerHooks):
    """What the suite needs."""

    cluster: FakeCluster
    tmp: Path

    @pytest.fixture(autouse=True)
    def _cluster(self, tmp_path: Path) -> Iterator[None]:
        with FakeCluster() as cluster:
            self.cluster, self.tmp = cluster, tmp_path
            (tmp_path / "token").write_text(TOKEN)
            self.login = KubeLogin(kubeconfig=cluster.kubeconfig(tmp_path / "config", tokenFile="token"), timeout_s=5.0)
            yield

    def options(self, **changes: Any) -> KubernetesOptions:
        """Of the driver."""
        options = KubernetesOptions(login=self.login, jobs={"*": PodRequest(image="trainer@sha256:0")})
        return msgspec.structs.replace(options, **changes)

    def make(self, *, checkpoint: Callable[[str], None] = lambda _name: None, **changes: Any) -> KubernetesScheduler:
        """A driver; every one that a test makes works on the same cluster."""
        return KubernetesScheduler(self.site, self.options(**changes), now=lambda: self.cluster.now_s, checkpoint=checkpoint)

    @pytest.fixture
    def scheduler(self) -> Scheduler:
        """A driver."""
        return self.make()

    def sleeps(self) -> tuple[str, ...]:
        """See the suite."""
        return ("sleeps",)

    def ignores_stop(self) -> tuple[str, ...]:
        """See the suite."""
        return ("ignores-stop",)

    def exits(self, code: int) -> tuple[str, ...]:
        """See the suite."""
        return ("exits", str(code))

    def cannot_execute(self) -> tuple[str, ...]:
        """See the suite. What an image lacks is found by the node only; this no API server takes."""
        return ("sleeps\0",)

    def listens(self, scheduler: Scheduler, name: JobName) -> bool:
        """See the suite."""
        return bool(self.cluster.nodes.running(self.cluster.now_s))

    def reopened(self, scheduler: Scheduler) -> Scheduler:
        """See the suite."""
        return self.make()

    @contextmanager
    def blinded(self, scheduler: Scheduler) -> Iterator[None]:
        """The API server cuts every connection."""
        self.cluster.strikes.append(Strike(times=1_000_000))
        try:
            yield
        finally:
            self.cluster.strikes.clear()

    def advance(self, seconds_s: float) -> None:
        """Virtual time."""
        self.cluster.advance(seconds_s)

    def eventually(self, predicate: Callable[[], bool], *, within_s: float = 60.0, step_s: float = 0.1) -> None:
        """As the suite's."""
        super().eventually(predicate, within_s=within_s, step_s=step_s)

    def pods(self) -> list[dict[str, Any]]:
        """Of the namespace."""
        return self.cluster.store.all("Pod", SPACE)

    def jobs(self) -> list[dict[str, Any]]:
        """Of the namespace."""
        return self.cluster.store.all("Job", SPACE)
