"""A site preflight asks a real Slurm cluster, and is never content with an answer that it did not get (issue 6; J14)."""

from __future__ import annotations

import pytest

from bridgehead.app.site_preflight.judging import SitePreflight
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.site_map import SiteLook, SiteMap
from bridgehead.model.site_needs import NodeClass, SiteNeeds
from bridgehead.recovery.site_mapping import map_script
from bridgehead.recovery.site_needs import needs_of_script, shape_of_script
from bridgehead.testing.slurm_cluster import SlurmCluster
from bridgehead.testing.slurm_files import SlurmPlan

pytestmark = [pytest.mark.server("slurmctld", "munged", "slurmdbd", "mariadbd", "my_print_defaults"), pytest.mark.xdist_group("slurm")]
B = SiteId("site-b")
GPU = NodeClass(2, "n1", "NVIDIA H100", 4, "550.54.15", "12.4", "2.21.5")
PARTS = ("SLURM", "PARTITION", "ACCOUNT", "QOS", "GPUS", "CONSTRAINT", "DEVICE")
GOOD = "-p train -A research --qos=normal -N 2 --gres=gpu:h100:4"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    settings = {"AccountingStorageEnforce": "associations,limits,qos"}
    with SlurmCluster(SlurmPlan(name=B, accounting=True, settings=settings), tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


def findings(cluster: SlurmCluster, line: str, *, body: str = "hostname", look: SiteLook = SiteLook(B)) -> dict[str, Finding]:
    """By code, of a script with these options: Slurm's part, as a job of the site's own."""
    script = f"#!/bin/bash\n#SBATCH {line}\n{body}\n"
    mapped = map_script(script, SiteMap(), source=B, target=B, file="job.sh")
    shape = shape_of_script(mapped)
    needs = SiteNeeds(
        workload=WorkloadId("w"),
        source=SiteId("site-a"),
        target=B,
        look=look,
        script=script,
        needs=needs_of_script(mapped, SiteMap()),
        nodes=shape.nodes,
        gpus_per_node=shape.gpus_per_node,
        gpus=shape.gpus,
        here=(GPU,),
        there=(GPU,),
    )
    connection = {"driver": "slurm", "cluster": B, "state": "/nowhere", "conf": str(cluster.conf)}
    found = SitePreflight({"sites": {B: {"scheduler": connection}}, "services": {}}).judge(needs)
    return {one.code: one for one in found if one.code.split("-")[1] in PARTS}


def test_a_job_that_fits_is_proved_by_slurm_itself(cluster):
    found = findings(cluster, GOOD)
    assert set(found) == {"SITE-SLURM", "SITE-PARTITION", "SITE-ACCOUNT", "SITE-QOS", "SITE-GPUS"}
    assert {one.status for one in found.values()} == {FindingStatus.PASS}, found


def test_everything_that_is_missing_is_named_and_slurm_refuses_it_too(cluster):
    found = findings(cluster, "-p train -A elsewhere --qos=urgent -C nvme -N 2 --gres=gpu:h200:4")
    texts = {code: one.text for code, one in found.items() if one.status is FindingStatus.FAIL}
    assert texts.pop("SITE-SLURM").startswith("Slurm would refuse it")
    assert texts == {
        "SITE-ACCOUNT": "there is no account 'elsewhere'",
        "SITE-QOS": "there is no QoS 'urgent'",
        "SITE-GPUS": "0 usable nodes have 4 h200; the job needs 2 (there: 4 h100)",
        "SITE-CONSTRAINT": "0 of 2 usable nodes have feature 'nvme'",
    }
    assert found["SITE-PARTITION"].status is FindingStatus.PASS


def test_devices_are_looked_for_on_a_node_of_the_cluster(cluster):
    look = SiteLook(B, on_node=("srun", "-Q", "--partition=train", "--account=research", "--gres=gpu:h100:1", "--immediate=20"))
    assert findings(cluster, GOOD, body="export NCCL_SOCKET_IFNAME=lo", look=look)["SITE-DEVICE"].status is FindingStatus.PASS
    assert findings(cluster, GOOD, body="export NCCL_SOCKET_IFNAME=ib7", look=look)["SITE-DEVICE"].status is FindingStatus.FAIL


def test_a_partition_that_is_not_there_and_a_node_that_is_drained(cluster):
    cluster.client("scontrol", "update", "nodename=site-b-n2", "state=drain", "reason=test")
    found = findings(cluster, GOOD.replace("-p train", "-p train,nightly"))
    assert found["SITE-GPUS"].text.startswith("1 usable nodes have 4 h100; the job needs 2")
    assert found["SITE-PARTITION"].text == "there is no partition 'nightly'"


def test_J01_a_cluster_that_does_not_answer_is_unknown_not_missing_and_not_there(cluster):
    cluster.kill_controller()  # the last test: nobody starts it again
    found = findings(cluster, GOOD)
    assert len(found) == 5
    assert {one.status for one in found.values()} == {FindingStatus.UNKNOWN}, found
