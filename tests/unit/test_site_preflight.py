"""A site preflight passes only what was seen, and names each thing that is missing, before anything is stopped (issue 6; J14, M5.1)."""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridgehead.app import wiring
from bridgehead.app.estate_files import load_estate
from bridgehead.app.site_preflight.checks import CHECKS
from bridgehead.app.site_preflight.judge_contents import judge_datasets
from bridgehead.app.site_preflight.judge_gpus import judge_gpus
from bridgehead.app.site_preflight.judge_slurm import judge_slurm
from bridgehead.app.site_preflight.judging import SitePreflight
from bridgehead.app.site_preflight.needs import needs_of, needs_of_move, read_files
from bridgehead.app.site_preflight.place import Place
from bridgehead.app.site_preflight.slurm import Cluster
from bridgehead.app.vault_context import data_manifest
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.drivers.shell import LocalShell
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.runbook import Runbook
from bridgehead.model.site_needs import SiteNeeds
from bridgehead.model.stamp import Stamp
from bridgehead.recovery.actions.preflight import PreflightParams, PreflightSites, preflight_steps
from bridgehead.recovery.steps import Maker
from bridgehead.runbook.action import Call, Done, Failed
from bridgehead.runbook.language import read_located, write_runbook
from bridgehead.vault import Vault

B = SiteId("site-b")
PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN
CALL = Call(stamp=Stamp(RunId("r"), StepId("s"), 1, Epoch(1)), recorded={}, applied={}, earlier={}, since_s=0.0, now_s=0.0)
PROFILE = 'module() { [ "$2" = avail ] && echo "CUDA/12.4.1(default)" >&2; }\nexport PROJECT=/projects/p1\necho "Welcome to [site-b]"\n'


class Bed:
    """Two sites on this machine. ``site-b`` has everything that the job needs, until a test takes something away."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.b = folder, folder / "b"
        self.captured = folder / "captured"
        for name in ("data/corpus", "work/logs", "images", "home"):
            (self.b / name).mkdir(parents=True)
        (self.b / "data/corpus/part-1").write_bytes(b"tokens")
        (self.b / "images/train.sqsh").write_bytes(b"squash")
        digest = hashlib.sha256(b"squash").hexdigest()
        self.write("corpus.sha256", f"{hashlib.sha256(b'tokens').hexdigest()}  part-1\n")
        self.write("job.sbatch", JOB)
        self.write("policy.yaml", POLICY.format(b=self.b, digest=digest, port=port))
        self.write("recovery.yaml", RECOVERY)
        self.estate = ESTATE.format(folder=folder)
        for name, text in CAPTURED.items():
            self.write(f"captured/{name}", text)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)

    def change(self, name: str, before: str, after: str) -> None:
        text = (self.folder / name).read_text()
        assert before in text
        self.write(name, text.replace(before, after))

    def needs(self, site: SiteId | None = None) -> SiteNeeds:
        self.write("estate.yaml", self.estate)
        files = read_files(self.folder / "recovery.yaml", load_estate(self.folder / "estate.yaml"))
        return needs_of(files, WorkloadId("lm"), target=site)

    def findings(self) -> list[Finding]:
        needs = self.needs()
        connections = load_estate(self.folder / "estate.yaml").connections()
        return list(SitePreflight(connections, captured={B: self.captured}).judge(needs))

    def of_slurm(self) -> list[Finding]:
        """What comes of Slurm's words and the estate alone, without a look at the site."""
        needs, place = self.needs(), Place(None, captured=self.captured)
        cluster = Cluster(place)
        covered = SitePreflight({"sites": {}, "services": {}}).covered(needs)
        return [covered, *judge_slurm(needs, cluster, place), *judge_gpus(needs, cluster, place, {})]

    def wrong(self, *, slurm: bool = False) -> dict[str, tuple[FindingStatus, str]]:
        """Code to status and text of what does not pass, but for what captured output cannot say."""
        found = self.of_slurm() if slurm else self.findings()
        return {one.code: (one.status, one.text) for one in found if one.status is not PASS and one.code not in UNSEEN}


UNSEEN = {"SITE-SLURM", "SITE-DEVICE"}
"""Slurm's own word and the devices of a node cannot be had from captured output."""
JOB = """#!/bin/bash
#SBATCH -p gpu -A research --qos=high --nodes=2 --gres=gpu:h100:8 -C ib400 --reservation=night
#SBATCH -o /a/home/logs/%j.out
module load cuda/12.4
export NCCL_SOCKET_IFNAME=ib0
CKPT=/a/home/ckpt
mkdir -p $CKPT
srun --container-image=/a/images/train.sqsh train --store http://a.example:99 --project $PROJECT --data /a/data/corpus
"""
POLICY = """policy: p
source: site-a
target: site-b
mapping:
  paths: {{work: {{site-a: /a/home, site-b: {b}/work}}}}
  partitions: {{gpu: {{site-a: gpu, site-b: h200}}}}
  accounts: {{research: {{site-a: research, site-b: p1}}}}
  qos: {{high: {{site-a: high, site-b: prio}}}}
  constraints: {{ib: {{site-a: ib400, site-b: ndr}}}}
  gres: {{gpu: {{site-a: "gpu:h100", site-b: "gpu:h200"}}}}
  reservations: {{night: {{site-a: night, site-b: nacht}}}}
  modules: {{cuda: {{site-a: cuda/12.4, site-b: CUDA/12.4.1}}}}
  endpoints: {{store: {{site-a: "a.example:99", site-b: "127.0.0.1:{port}"}}}}
  environment: {{NCCL_SOCKET_IFNAME: {{site-a: ib0, site-b: bond0}}, PROJECT: {{site-a: /p, site-b: /projects/p1}}}}
  images:
    train: {{at: {{site-a: /a/images/train.sqsh, site-b: {b}/images/train.sqsh}}, digests: {{site-b: "sha256:{digest}"}}, nccl: 2.21.5}}
  datasets: {{corpus: {{at: {{site-a: /a/data/corpus, site-b: {b}/data/corpus}}, manifest: corpus.sha256}}}}
"""
RECOVERY = """recovery: r
sites: [site-a, site-b]
mapping: policy.yaml
workloads:
  lm:
    kind: training
    home: site-a
    refuge: site-b
    script: job.sbatch
    jobs: {site-a: {command: [bash, -c, "true"]}, site-b: {command: [bash, -c, "true"]}}
"""
ESTATE = """estate: e
sites:
  site-a:
    nodes: {{a1: {{gpus: 8, gpu_model: NVIDIA H100, firmware: {{driver: 550.54.15, nccl: 2.20.5}}}}}}
    connections: {{scheduler: {{driver: process, directory: {folder}/aj}}, training: {{driver: files, directory: {folder}/ac}},
      vault: {{driver: localfs, directory: {folder}/av}}}}
  site-b:
    nodes:
      b1: {{gpus: 8, gpu_model: NVIDIA H200, firmware: {{driver: 550.90.07, nccl: 2.20.5}}}}
      b2: {{gpus: 8, gpu_model: NVIDIA H200, firmware: {{driver: 550.90.07, nccl: 2.20.5}}}}
    connections: {{scheduler: {{driver: process, directory: {folder}/bj}}, training: {{driver: files, directory: {folder}/bc}},
      vault: {{driver: localfs, directory: {folder}/bv}}}}
"""
CAPTURED = {
    "id.txt": "mover\n",
    "scontrol-show-config.txt": "AccountingStorageEnforce = associations\nAccountingStorageType = accounting_storage/slurmdbd\n"
    "ClusterName = site-b\n",
    "scontrol-show-partition.txt": "PartitionName=h200 AllowAccounts=p1,p2 MaxNodes=4 State=UP\n",
    "scontrol-show-node.txt": "".join(
        f"NodeName=b{n} ActiveFeatures=ndr,x Gres=gpu:h200:8(S:0-1) OS=Linux 6 #1 SMP State=IDLE Partitions=h200,all\n" for n in (1, 2)
    ),
    "scontrol-show-reservation.txt": "ReservationName=nacht StartTime=2026-01-01T00:00:00 State=ACTIVE\n",
    "sacctmgr-show-assoc.txt": "site-b|p1||normal\nsite-b|p1|mover|normal,prio\nother|p9|mover|normal\n",
    "sacctmgr-show-qos.txt": "normal\nprio\n",
}


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        bed = Bed(tmp_path, server.getsockname()[1])
        (bed.b / "home/.bash_profile").write_text(PROFILE)
        monkeypatch.setenv("HOME", str(bed.b / "home"))
        yield bed


def test_a_site_that_has_everything_passes_each_check(bed: Bed) -> None:
    found = bed.findings()
    assert bed.wrong() == {}
    seen = {one.code for one in found if one.status is PASS}
    expected = {check.code for check in CHECKS} - UNSEEN - {"SITE-MODEL", "SITE-OTHER"}
    assert seen == expected
    assert {one.status for one in found if one.code in UNSEEN} == {UNKNOWN}


@pytest.mark.parametrize(
    ("file", "before", "after", "code", "status", "says"),
    [
        ("job.sbatch", "-p gpu", "-p debug", "SITE-MAP", FAIL, "job.sbatch:2: partition 'debug'"),
        ("captured/scontrol-show-partition.txt", "=h200", "=h100", "SITE-PARTITION", FAIL, "no partition 'h200'"),
        ("captured/scontrol-show-partition.txt", "State=UP", "State=DRAIN", "SITE-PARTITION", FAIL, "state is DRAIN"),
        ("captured/scontrol-show-partition.txt", "p1,p2", "p2", "SITE-PARTITION", FAIL, "closed for account 'p1'"),
        ("captured/scontrol-show-partition.txt", "MaxNodes=4", "MaxNodes=1", "SITE-PARTITION", FAIL, "may have 1 nodes"),
        ("captured/sacctmgr-show-assoc.txt", "p1|mover", "p2|mover", "SITE-ACCOUNT", FAIL, "mover may not charge account 'p1'"),
        ("captured/sacctmgr-show-assoc.txt", "normal,prio", "normal", "SITE-QOS", FAIL, "may not ask for QoS 'prio'"),
        ("captured/sacctmgr-show-qos.txt", "prio", "fast", "SITE-QOS", FAIL, "no QoS 'prio'"),
        ("captured/scontrol-show-reservation.txt", "nacht", "tag", "SITE-RESERVATION", FAIL, "no reservation 'nacht'"),
        ("captured/scontrol-show-node.txt", "ndr", "edr", "SITE-CONSTRAINT", FAIL, "0 of 2 usable nodes have feature 'ndr'"),
        ("captured/scontrol-show-node.txt", "h200:8", "h200:4", "SITE-GPUS", FAIL, "0 usable nodes have 8 h200"),
        ("captured/scontrol-show-node.txt", "State=IDLE", "State=IDLE+DRAIN", "SITE-GPUS", FAIL, "the job needs 2"),
        ("policy.yaml", "nccl: 2.21.5", "cuda: '12.4'", "SITE-NCCL", PASS, ""),
        ("policy.yaml", "nccl: 2.21.5", "cuda: '12.6'", "SITE-DRIVER", UNKNOWN, "minor version compatibility"),
        ("policy.yaml", "nccl: 2.21.5", "cuda: '13.0'", "SITE-DRIVER", FAIL, "cannot run CUDA 13.0"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(bed: Bed, file: str, before: str, after: str, code: str, status: FindingStatus, says: str) -> None:
    bed.change(file, before, after)
    wrong = bed.wrong(slurm=True)
    if status is PASS:
        assert code not in wrong
    else:
        assert wrong[code][0] is status
        assert says in wrong[code][1]


@pytest.mark.parametrize(
    ("before", "after", "code", "status"),
    [
        ("driver: 550.90.07", "driver: 535.183.06", "SITE-DRIVER", FAIL),
        ("driver: 550.90.07, ", "", "SITE-DRIVER", UNKNOWN),
        ("driver: 550.54.15, ", "", "SITE-DRIVER", UNKNOWN),
    ],
)  # fmt: skip
def test_J14_drivers_are_compared_with_home_and_with_cuda(bed: Bed, before: str, after: str, code: str, status: FindingStatus) -> None:
    bed.estate = bed.estate.replace(before, after)
    assert bed.wrong(slurm=True)[code][0] is status


def test_nccl_of_the_nodes_must_be_one_and_no_older(bed: Bed) -> None:
    bed.change("policy.yaml", ", nccl: 2.21.5", "")
    assert "SITE-NCCL" not in bed.wrong(slurm=True)
    bed.estate = bed.estate.replace("driver: 550.90.07, nccl: 2.20.5", "driver: 550.90.07, nccl: 2.18.1")
    assert bed.wrong(slurm=True)["SITE-NCCL"] == (FAIL, "NCCL 2.18.1 there, 2.20.5 at site-a")
    bed.estate = bed.estate.replace("nccl: 2.18.1", "nccl: 2.20.5", 1)
    assert bed.wrong(slurm=True)["SITE-NCCL"][0] is FAIL
    bed.estate = bed.estate.replace(", nccl: 2.18.1", "")
    assert bed.wrong(slurm=True)["SITE-NCCL"][0] is UNKNOWN


@pytest.mark.parametrize("name", sorted(set(CAPTURED)))
def test_what_was_not_captured_is_never_a_pass(bed: Bed, name: str) -> None:
    before = {(one.code, one.subject): one.status for one in bed.of_slurm()}
    (bed.captured / name).unlink()
    after = {(one.code, one.subject): one.status for one in bed.of_slurm()}
    assert set(after) == set(before)
    changed = {key[0]: status for key, status in after.items() if status != before[key]}
    assert changed
    assert set(changed.values()) == {UNKNOWN}


def test_contents_that_are_gone_are_named(bed: Bed) -> None:
    (bed.b / "data/corpus/part-1").write_bytes(b"tokenS")
    (bed.b / "data/corpus/part-9").write_bytes(b"")
    (bed.b / "images/train.sqsh").write_bytes(b"other")
    (bed.b / "work/logs").rmdir()
    wrong = bed.wrong()
    assert {code: status for code, (status, _) in wrong.items()} == dict.fromkeys(
        ("SITE-DATA", "SITE-DATA-EXTRA", "SITE-IMAGE", "SITE-PATH"), FAIL
    )
    assert "1 different (part-1)" in wrong["SITE-DATA"][1]
    assert "part-9" in wrong["SITE-DATA-EXTRA"][1]


def test_a_manifest_of_a_snapshot_is_read_too(bed: Bed) -> None:
    (bed.folder / "data.json").write_bytes(msgspec.json.encode(data_manifest(bed.b / "data/corpus", known={})))
    bed.change("policy.yaml", "corpus.sha256", "data.json")
    bed.change("policy.yaml", "mapping:\n", f"mapping:\n  sites: {{site-b: {{python: {sys.executable}}}}}\n")
    assert bed.wrong() == {}
    (bed.b / "data/corpus/part-1").write_bytes(b"tokenS")
    assert set(bed.wrong()) == {"SITE-DATA"}


def test_a_manifest_in_the_vault_of_the_site_is_that_of_the_newest_snapshot(bed: Bed) -> None:
    bed.change("policy.yaml", "corpus.sha256", "vault")
    bed.change("policy.yaml", "mapping:\n", f"mapping:\n  sites: {{site-b: {{python: {sys.executable}}}}}\n")
    needs, place = bed.needs(), Place(LocalShell)
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(bed.folder / "bv"))))

    def judged() -> list[tuple[FindingStatus, str]]:
        return [(one.status, one.text) for one in judge_datasets(needs, place, vault=lambda: vault) if one.code == "SITE-DATA"]

    def save(step: int, files: dict[str, bytes]) -> None:
        vault.save({"weights": b"w", **files}, workload=WorkloadId("lm"), step=step, epoch=Epoch(0), site=B)

    assert judged() == [(UNKNOWN, "its manifest (vault): the vault at the site has no snapshot of it")]
    save(1, {})
    assert judged() == [(UNKNOWN, "its manifest (vault): it was saved without a manifest of its data")]
    save(2, {".bridgehead/data.json": msgspec.json.encode(data_manifest(bed.b / "data/corpus", known={}))})
    assert judged() == [(PASS, "1 files, 6 bytes, all right")]
    (bed.b / "data/corpus/part-1").write_bytes(b"tokenS")
    assert judged()[0][0] is FAIL


def test_a_site_that_nobody_can_reach_is_unknown_all_over(bed: Bed) -> None:
    bed.change("policy.yaml", "mapping:\n", "mapping:\n  sites: {site-b: {python: /no/python3}}\n")
    states = {one.code: one.status for one in bed.findings()}
    looks = ("SITE-PATH", "SITE-DATA", "SITE-IMAGE", "SITE-ENDPOINT", "SITE-VARIABLE")
    assert {code: states[code] for code in looks} == dict.fromkeys(looks, UNKNOWN)


def test_at_home_the_script_is_its_own(bed: Bed) -> None:
    needs = bed.needs(SiteId("site-a"))
    assert needs.script == JOB
    assert needs.uncovered == ()
    assert needs.source == B
    with pytest.raises(BridgeheadError, match="neither its home nor its refuge"):
        bed.needs(SiteId("elsewhere"))


def test_the_action_fails_with_names_and_survives_the_runbook(bed: Bed) -> None:
    needs = bed.needs()
    maker = Maker(read_files(bed.folder / "recovery.yaml", load_estate(bed.folder / "estate.yaml")).recovery)
    steps = preflight_steps(maker, [needs], after=[])
    runbook = Runbook("move", tuple(steps))
    text = write_runbook(runbook, actions=wiring.action_params())
    assert read_located(text, file="move.yaml", actions=wiring.action_params()).runbook == runbook
    params = msgspec.convert(json.loads(json.dumps(steps[0].params)), PreflightParams)
    assert params.needs == needs
    ports = wiring.connect(load_estate(bed.folder / "estate.yaml").connections())
    outcome = PreflightSites(ports).verify(params, CALL)
    # Without captured output nobody can ask Slurm here: that alone must stop it.
    assert isinstance(outcome, Failed)
    assert "0 missing, 7 not known" in outcome.reason
    assert "Nothing was stopped" in outcome.remedy
    # With what was captured, and nothing that only Slurm itself could say, it is done.
    looked = SitePreflight(load_estate(bed.folder / "estate.yaml").connections(), captured={B: bed.captured})
    done = PreflightSites(msgspec.structs.replace(ports, preflight=looked)).verify(
        PreflightParams(msgspec.structs.replace(needs, script="")), CALL
    )
    assert isinstance(done, Done)
    assert done.evidence["there"] == done.evidence["looked_at"] - 1
    assert [text.partition(":")[0] for text in done.evidence["does_not_decide"]] == ["site-b/variable"]


SLURM = """driver: slurm, cluster: b, state: /s, jobs: {lm*: {partition: h200, account: p1, qos: prio, constraint: ndr, nodes: 2,
      gpus_per_node: 8, gpu_type: h200}}"""


def test_what_the_estate_asks_of_slurm_and_what_the_job_names_is_needed_too(bed: Bed) -> None:
    bed.estate = bed.estate.replace(f"driver: process, directory: {bed.folder}/bj", SLURM)
    job = 'site-b: {command: [/opt/lm/run, "--data=/d/x"], workdir: /w, env: {CONF: /etc/lm.conf}}'
    bed.change("recovery.yaml", 'site-b: {command: [bash, -c, "true"]}', job)
    bed.change("recovery.yaml", "    script: job.sbatch\n", "")
    needs = bed.needs()
    assert {(one.kind.value, one.word) for one in needs.needs} == {
        ("partitions", "h200"), ("accounts", "p1"), ("qos", "prio"), ("constraints", "ndr"), ("gres", "gpu:h200"),
        ("paths", "/opt/lm/run"), ("paths", "/d/x"), ("paths", "/w"), ("paths", "/etc/lm.conf"),
    }  # fmt: skip
    assert (needs.nodes, needs.gpus_per_node, needs.gpus, needs.script) == (2, 8, 16, "")


def test_a_move_without_a_mapping_asks_for_nothing(bed: Bed) -> None:
    bed.write("estate.yaml", bed.estate)
    estate, recovery = load_estate(bed.folder / "estate.yaml"), bed.folder / "recovery.yaml"
    assert [one.workload for one in needs_of_move(recovery, estate, [WorkloadId("lm")], B)] == ["lm"]
    bed.change("recovery.yaml", "mapping: policy.yaml\n", "")
    assert needs_of_move(recovery, estate, [WorkloadId("lm")], B) == ()
