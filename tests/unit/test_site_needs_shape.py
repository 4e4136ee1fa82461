"""How large a job is by its ``#SBATCH`` lines; what they leave open is never taken for known (issue 6; J14, M5.1)."""

from __future__ import annotations

import pytest

from bridgehead.kernel.ids import SiteId
from bridgehead.model.site_map import Kind, SiteMap
from bridgehead.recovery.site_mapping import map_script
from bridgehead.recovery.site_needs import Shape, shape_of_script

A = SiteId("a")


def shape(*options: str) -> Shape:
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {one}\n" for one in options) + "true\n"
    return shape_of_script(map_script(text, SiteMap(), source=A, target=A, file="job.sh"))


@pytest.mark.parametrize(
    ("options", "nodes", "per_node", "total"),
    [
        (["--nodes=2", "--gres=gpu:h100:8"], 2, 8, 16),
        (["--gres=gpu"], 1, 1, 1),
        (["--gres=nvme:1", "--gpus=16", "--nodes=2"], 2, 0, 16),
        (["--gres=nvme:1,gpu:4"], 1, 4, 4),
        (["--gres=gpu:0"], 1, 0, 0),
        (["--gpus-per-task=1", "--ntasks-per-node=8"], 1, 8, 8),
        (["--gpus-per-task=1", "--ntasks-per-node=8", "-N 2"], 2, 8, 16),
        (["--gpus-per-task=2", "-N 4"], 4, 2, 8),
        (["--gpus-per-task=1", "--ntasks=16", "-N 2"], 2, 0, 16),
        (["--tres-per-task=cpu:4,gres/gpu:h100:2", "--ntasks-per-node=4"], 1, 8, 8),
        (["--gpus-per-task=1", "--ntasks-per-node=8", "--gpus=16"], 2, 8, 16),
        (["--gres=gpu:8", "--ntasks=32", "--ntasks-per-node=8"], 4, 8, 32),
        (["--gres=gpu:8", "--ntasks=30", "--ntasks-per-node=8"], 4, 8, 32),
        (["--gres=gpu:8", "-N 2-8", "--ntasks=32", "--ntasks-per-node=8"], 4, 8, 32),
        (["--gpus=16", "--gpus-per-node=8"], 2, 8, 16),
        (["--gpus=h100:16"], 1, 0, 16),
        (["--gpus=4", "-N 1"], 1, 4, 4),
        (["--gpus-per-socket=4", "--gpus-per-node=8"], 1, 8, 8),
        (["--gpus-per-socket=4", "--sockets-per-node=2"], 1, 8, 8),
        (["--ntasks-per-gpu=2", "--ntasks=16"], 1, 0, 8),
        (["--gres=gpu:h100:4", "--gres=gpu:a100:8"], 1, 8, 8),
        (["--time=1:00"], 1, 0, 0),
    ],
)
def test_J14_sizes_that_the_lines_settle(options: list[str], nodes: int, per_node: int, total: int) -> None:
    assert shape(*options) == Shape(nodes, per_node, total)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gpus-per-node=h100:4,a100:4"], "not one type"),
        (["--gres=gpu:h100:4,gpu:a100:4"], "not one type"),
        (["--gpus-per-node=$N"], "not one type"),
        (["--gpus-per-socket=4"], "do not settle what --gpus-per-socket comes to"),
        (["--gres=gpu:8", "--ntasks=32"], "how many nodes"),
        (["--gres=gpu:8", "-w n[1-4]"], "how many nodes"),
        (["--gres=gpu:8", "-N $N"], "how many nodes"),
        (["--gres=gpu:8", "-N 2", "hetjob"], "several components"),
    ],
)
def test_J14_what_cannot_be_worked_out_is_said_and_is_never_none(options: list[str], says: str) -> None:
    found = shape(*options)
    assert says in found.unsized
    assert found.gpus >= 1


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("module unload cuda/11\nmodule load cuda/12", [("cuda/11", "module unload"), ("cuda/12", "module load")]),
        ("module swap cuda/11 cuda/12", [("cuda/11", "module swap from"), ("cuda/12", "module swap")]),
        ("module swap cuda/12", [("cuda/12", "module swap")]),
        ("ml cuda/11\nml cuda/12\nml cuda/11", [("cuda/12", "module load"), ("cuda/11", "module load")]),
        ("ml -t -cuda/11 cuda/12", [("cuda/11", "module unload"), ("cuda/12", "module load")]),
        ("ml cuda/11\nml rm cuda/11", [("cuda/11", "module rm")]),
    ],
)
def test_modules_are_needed_in_the_order_of_their_last_places(lines: str, left: list[tuple[str, str]]) -> None:
    found = map_script(lines + "\n", SiteMap(), source=A, target=A, file="job.sh")
    assert [(one.word, one.holder) for one in found.needs if one.kind is Kind.MODULE] == left
