"""When a suspended Job makes no pods any more."""

from __future__ import annotations

import pytest

from bridgehead.drivers.kubernetes.manifest import ASKED, ASKED_AT
from bridgehead.drivers.kubernetes.objects import LATE_S, JobView, PodView, time_text

NOW_S = 1_900_000_000.0
POLICY = {"podFailurePolicy": {"rules": []}}


def job(*, asked_ago_s=0.0, suspended="True", spec=None, status=None):
    notes = {ASKED: "run/stop", ASKED_AT: time_text(NOW_S - asked_ago_s)}
    conditions = [{"type": "Suspended", "status": suspended, "lastTransitionTime": time_text(NOW_S - 3600)}]
    return JobView(
        {
            "metadata": {"name": "j", "uid": "u", "creationTimestamp": time_text(NOW_S - 3600), "annotations": notes},
            "spec": {"suspend": True, "parallelism": 1, "backoffLimit": 0, **(spec or {})},
            "status": {"conditions": conditions, **(status or {})},
        }
    )


@pytest.mark.parametrize(
    ("seen", "pods_seen", "sure"),
    [
        (job(), 1, True),  # the one pod that there can be was seen
        (job(), 0, False),  # its first pod may be on its way
        (job(asked_ago_s=LATE_S + 2), 0, True),
        (job(spec=POLICY), 1, False),  # a replacement may be on its way
        (job(spec={"backoffLimit": 6}), 1, False),
        (job(spec=POLICY, asked_ago_s=LATE_S + 2), 1, True),
        (job(spec={"parallelism": 2}), 1, False),
        (job(suspended="False", asked_ago_s=3600), 1, False),  # its controller has not heard of it
        (job(spec={"suspend": False}, asked_ago_s=3600), 1, False),
        (job(status={"active": 1}, asked_ago_s=3600), 1, False),
        (job(status={"terminating": 1}, asked_ago_s=3600), 1, False),
    ],
)
def test_J01_surely_suspended(seen, pods_seen, sure):
    assert seen.surely_suspended(pods_seen=pods_seen, now_s=NOW_S) is sure


def test_a_pod_without_terminated_containers_tells_no_code():
    """As one that Kubernetes calls failed because its node was deleted."""
    status = {"phase": "Failed", "containerStatuses": [{"name": "job", "state": {"running": {}}}]}
    pod = PodView({"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": "n"}, "status": status})
    assert pod.over
    assert (pod.exit_code, pod.ended_s, pod.succeeded) == (None, None, False)
