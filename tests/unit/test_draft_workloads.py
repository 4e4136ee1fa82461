"""Workloads of a draft, from Slurm and Kubernetes (M5.2)."""

from __future__ import annotations

from pathlib import Path

from bridgehead.app.declared import complete
from bridgehead.discovery.draft import draft
from bridgehead.discovery.draft_notes import Notes
from bridgehead.discovery.draft_workloads import workloads_of
from bridgehead.discovery.knowledge import Knowledge, Told
from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Grace, WorkloadKind
from bridgehead.model.fact import Status, Value

A, B = SiteId("a"), SiteId("b")


def part(**values: Value) -> dict[str, Told]:
    return {name.replace("_", "-"): Told(value, Status.KNOWN) for name, value in values.items()}


def told() -> Knowledge:
    return {
        "job:12": part(state="RUNNING", gpu_count=64, memory=10**12),
        "job:12/step:0": part(state="RUNNING", gpu_count=64),
        "job:13": part(state="PENDING", gpu_count=8),
        "job:1853+0": part(state="RUNNING", gpu_count=0),
        "job:14": part(state="RUNNING"),
        "workload:prod/chat": part(kind="Deployment", gpu_count=16, grace=120),
        "workload:prod/chat-7d9": part(kind="Pod", owner="ReplicaSet.chat-7d9", gpu_count=8, phase="Running"),
        "workload:ml/tune": part(kind="PyTorchJob", gpu_count=32),
        "workload:ml/done": part(kind="Pod", phase="Succeeded", gpu_count=1),
    }


def test_what_runs_becomes_workloads_and_parts_do_not() -> None:
    notes = Notes()
    found = workloads_of(told(), A, notes)
    assert [(one.id, one.kind, one.gpus) for one in found] == [
        ("job-12", WorkloadKind.BATCH, 64),
        ("job-1853-0", WorkloadKind.BATCH, 0),
        ("ml.tune", WorkloadKind.TRAINING, 32),
        ("prod.chat", WorkloadKind.SERVICE, 16),
    ]
    assert found[0].memory_bytes == 10**12
    assert found[3].graces == (Grace("pod-termination", 120.0),)
    assert any("job-14" in lack.what and "number of GPUs" in lack.what for lack in notes.lacks()), "unknown is not none"
    assert workloads_of(dict(reversed(told().items())), A, Notes()) == found


def test_two_sites_with_a_job_of_one_number_are_told_apart() -> None:
    drawn = draft({A: told(), B: {"job:12": part(state="RUNNING", gpu_count=8)}}, name="x")
    assert {(one.id, one.site) for one in drawn.estate.workloads if one.id.endswith("job-12")} == {("a.job-12", A), ("b.job-12", B)}


def test_kind_is_what_people_declare(tmp_path: Path) -> None:
    declared = tmp_path / "declared.yaml"
    declared.write_text('workloads: {job-12: {kind: training, checkpoint: 1 TB}, "prod.*": {kind: inference}}\n', encoding="utf-8")
    done = complete(draft({A: told()}, name="x").estate, declared)
    kinds = {one.id: one.kind for one in done.estate.workloads}
    assert (kinds["job-12"], kinds["prod.chat"], kinds["ml.tune"]) == (WorkloadKind.TRAINING, WorkloadKind.INFERENCE, WorkloadKind.TRAINING)
    assert done.disputes == ()
