"""Judges of a site preflight by themselves: drivers, CUDA of modules, sizes, states of nodes, secrets (issue 6; J14, M5.1)."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app import site_probe
from bridgehead.app.site_preflight.judge_contents import judge_images, judge_paths, judge_variables
from bridgehead.app.site_preflight.judge_gpus import judge_gpus
from bridgehead.app.site_preflight.judge_slurm import judge_slurm
from bridgehead.app.site_preflight.place import Place
from bridgehead.app.site_preflight.slurm import Cluster, usable
from bridgehead.drivers.shell import LocalShell
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.site_map import Kind, SiteLook
from bridgehead.model.site_needs import ImageNeed, Need, NodeClass, SiteNeeds

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN
DIGEST = "sha256:" + "0" * 64


def needs(**fields: object) -> SiteNeeds:
    return SiteNeeds(**{"workload": WorkloadId("w"), "source": SiteId("a"), "target": SiteId("b"), "look": SiteLook(SiteId("b")), **fields})


def of_code(code: str, found: Iterator[Finding]) -> Finding:
    (one,) = [one for one in found if one.code == code]
    return one


def smi(tmp_path: Path, *rows: str) -> SiteLook:
    """A look that finds an nvidia-smi with these rows."""
    program = tmp_path / "on-node"
    program.write_text("#!/bin/sh\ncat <<E\n" + "".join(f"{row}\n" for row in rows) + "E\n")
    program.chmod(0o755)
    return SiteLook(SiteId("b"), on_node=(str(program),))


def drivers(look: SiteLook, *there: str, cuda: str = "12.4") -> Finding:
    classes = tuple(NodeClass(1, f"n{number}", "NVIDIA H100", 8, driver) for number, driver in enumerate(there))
    image = ImageNeed("i", "x", DIGEST, cuda=cuda)
    home = (NodeClass(4, "h1", "NVIDIA H100", 8, "550.54.14"),)
    asked = needs(look=look, gpus_per_node=8, images=(image,), here=home, there=classes)
    return of_code("SITE-DRIVER", judge_gpus(asked, Cluster(Place(None)), Place(LocalShell), {}))


def test_J14_the_node_that_was_looked_at_does_not_hide_older_ones_of_the_estate(tmp_path: Path) -> None:
    look = smi(tmp_path, *["NVIDIA H100, 560.28.03"] * 8)
    assert drivers(look, "560.28.03", "550.54.14").status is PASS
    found = drivers(look, "535.54.03", "560.28.03")
    assert (found.status, found.text.partition(" at")[0]) == (FAIL, "driver 535.54.03 is older than 550.54.14")
    assert drivers(look, "560.28.03", "").status is UNKNOWN


def test_J14_every_row_of_a_node_counts(tmp_path: Path) -> None:
    rows = ["NVIDIA H100, 560.28.03"] * 7 + ["NVIDIA H100, 545.23.06"]
    assert drivers(smi(tmp_path, *rows), "560.28.03").status is FAIL


class Asked(Place):
    """What is looked for at it."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: list[dict[str, object]] = []

    def look(self, asked: Sequence[dict[str, object]], **_: object) -> list[dict[str, Any]]:
        self.asked += asked
        return [{"is": True} for _ in asked]


@pytest.mark.parametrize(
    ("word", "host", "repository"),
    [
        ("ubuntu:24.04", "docker.io", "library/ubuntu"),
        ("docker.io/ubuntu", "docker.io", "library/ubuntu"),
        ("docker://docker.io/ubuntu:24.04", "docker.io", "library/ubuntu"),
        ("pytorch/pytorch:2.5", "docker.io", "pytorch/pytorch"),
        ("nvcr.io#nvidia/pytorch:24.05-py3", "nvcr.io", "nvidia/pytorch"),
        ("localhost:5000/trainer:1", "localhost:5000", "trainer"),
        ("localhost/trainer", "localhost", "trainer"),
    ],
)
def test_J14_images_are_looked_for_where_their_names_say(word: str, host: str, repository: str) -> None:
    place = Asked()
    judge_images(needs(images=(ImageNeed(word, "x", DIGEST),)), place)
    (asked,) = place.asked
    assert (asked["host"], asked["repository"], asked["digest"]) == (host, repository, DIGEST)


@pytest.mark.parametrize(
    ("modules", "status"),
    [
        ([("cuda/13.0", "module unload"), ("cuda/12.4", "module load")], PASS),
        ([("cuda/13.0", "module swap from"), ("cuda/12.4", "module swap")], PASS),
        ([("cuda/13.0", "module load"), ("cuda/12.4", "module load")], PASS),
        ([("cuda/12.4", "module load"), ("cuda/13.0", "module load")], FAIL),
        ([("cuda/12.4", "module unload")], UNKNOWN),
    ],
)
def test_J14_cuda_is_that_of_the_last_module_loaded(modules: list[tuple[str, str]], status: FindingStatus) -> None:
    asked = tuple(Need(Kind.MODULE, word, "read", "job:3", holder) for word, holder in modules)
    nodes = (NodeClass(1, "n", "NVIDIA H100", 8, "550.54.14"),)
    judged = judge_gpus(needs(gpus_per_node=8, needs=asked, here=nodes, there=nodes), Cluster(Place(None)), Place(None), {})
    assert of_code("SITE-DRIVER", judged).status is status


@pytest.mark.parametrize(
    ("state", "is_usable"),
    [
        *((state, True) for state in ("IDLE", "MIXED", "ALLOCATED", "IDLE~", "IDLE+CLOUD+POWERED_DOWN", "MIXED-")),
        *((state, False) for state in ("IDLE*", "MIXED$", "IDLE+MAINTENANCE", "IDLE+MAINT", "IDLE*+CLOUD", "DOWN*", "IDLE+DRAIN", "")),
    ],
)
def test_nodes_that_do_not_respond_or_are_maintained_are_no_use(state: str, is_usable: bool) -> None:
    assert usable({"State": state}) is is_usable


def captured(tmp_path: Path, *gpus: int, max_nodes: str = "UNLIMITED") -> Cluster:
    lines = [f"NodeName=n{number} Gres=gpu:h100:{count} State=IDLE Partitions=p\n" for number, count in enumerate(gpus)]
    (tmp_path / "scontrol-show-node.txt").write_text("".join(lines))
    (tmp_path / "scontrol-show-partition.txt").write_text(f"PartitionName=p MaxNodes={max_nodes} State=UP\n")
    return Cluster(Place(None, captured=tmp_path))


@pytest.mark.parametrize(
    ("there", "nodes", "gpus", "unsized", "status"),
    [
        ((8, 8), 2, 16, "", PASS),
        ((4, 4, 4, 4), 2, 16, "", FAIL),
        ((4, 4, 4, 4), 1, 16, "", PASS),
        ((8, 8), 1, 1, "two types", UNKNOWN),
        ((), 1, 1, "two types", FAIL),
    ],
)
def test_J14_gpus_in_all_are_counted_on_as_many_nodes(
    tmp_path: Path, there: tuple[int, ...], nodes: int, gpus: int, unsized: str, status: FindingStatus
) -> None:
    asked = needs(nodes=nodes, gpus=gpus, unsized=unsized)
    found = of_code("SITE-GPUS", judge_gpus(asked, captured(tmp_path, *there), Place(None), {}))
    assert found.status is status
    assert unsized in found.text


def test_a_job_of_unknown_size_does_not_pass_a_limit_of_nodes(tmp_path: Path) -> None:
    asked = needs(needs=(Need(Kind.PARTITION, "p", "read", "job:2"),), unsized="nobody knows")
    limited = of_code("SITE-PARTITION", judge_slurm(asked, captured(tmp_path, 8, max_nodes="4"), Place(None)))
    assert limited.status is UNKNOWN
    free = of_code("SITE-PARTITION", judge_slurm(asked, captured(tmp_path, 8), Place(None)))
    assert free.status is PASS


@pytest.mark.parametrize(
    ("name", "expected", "status", "text"),
    [
        ("WANDB_API_KEY", "", PASS, "WANDB_API_KEY is set"),
        ("HF_TOKEN", "s3cr3t", PASS, "HF_TOKEN is what the mapping says"),
        ("DB_PASSWORD", "0ther", FAIL, "DB_PASSWORD is not what the mapping says"),
        ("PROJECT", "", PASS, "PROJECT is set"),
        ("PROJECT", "s3cr3t", PASS, "PROJECT is 's3cr3t'"),
        ("PROJECT", "p1", FAIL, "PROJECT is 's3cr3t', and the mapping says 'p1'"),
    ],
)
def test_values_of_variables_are_shown_only_where_the_mapping_names_one(
    monkeypatch: pytest.MonkeyPatch, name: str, expected: str, status: FindingStatus, text: str
) -> None:
    monkeypatch.setenv(name, "s3cr3t")
    asked = needs(needs=(Need(Kind.VARIABLE, name, "asked", "job:4", expected=expected),))
    found = of_code("SITE-VARIABLE", judge_variables(asked, Place(LocalShell)))
    assert (found.status, found.text) == (status, text)


def test_a_link_that_leads_nowhere_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("/bridgehead-not-mounted/data")
    asked = needs(needs=tuple(Need(Kind.PATH, f"{tmp_path}/{word}", "read", "job:5") for word in ("data", "dat*")))
    assert [one.status for one in judge_paths(asked, Place(LocalShell))] == [FAIL, FAIL]


@pytest.fixture
def closed() -> Iterator[Path]:
    """A file that nobody but root may read, in a folder that all may look into."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "secret").write_text("x")
    (folder / "secret").chmod(0)
    yield folder / "secret"
    (folder / "secret").chmod(stat.S_IRUSR)
    shutil.rmtree(folder)


def test_what_the_user_may_not_read_is_named(closed: Path) -> None:
    """Root may read all: then the probe runs as somebody else."""
    source = Path(site_probe.__file__).read_text()
    who = {"user": 65534} if os.geteuid() == 0 else {}
    request = f'[{{"look": "path", "path": "{closed}", "use": "read"}}]'
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    ran = subprocess.run([python, "-c", source], input=request, capture_output=True, text=True, check=True, cwd="/", **who)
    assert ran.stdout == f'[{{"is": true, "readable": false, "looked": "{closed}"}}]'
    answers = closed.parent / "python"
    answers.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{ran.stdout}'\n")
    answers.chmod(0o755)
    asked = needs(look=SiteLook(SiteId("b"), python=str(answers)), needs=(Need(Kind.PATH, str(closed), "read", "job:5"),))
    (found,) = judge_paths(asked, Place(LocalShell))
    assert (found.status, found.text) == (FAIL, f"{closed} is there, and cannot be read")
