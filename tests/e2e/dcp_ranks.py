"""One rank of tests/e2e/test_torch_dcp.py: trains, saves or loads by DCP; what it holds in the end goes to a file, in full tensors."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bridgehead.training import open_vault
from bridgehead.training.torch_dcp import VaultReader, VaultWriter

kind, action, vault, out, *rest = sys.argv[1:]
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=os.environ["RENDEZVOUS"], rank=rank, world_size=ranks)
torch.manual_seed(0 if action != "load" else 7)
model = torch.nn.Sequential(torch.nn.Linear(64, 301), torch.nn.ReLU(), torch.nn.Linear(301, 64, bias=False))
if kind == "fsdp":
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    model = fully_shard(model, mesh=mesh)
else:
    model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)


def step(number: int) -> None:
    inputs = torch.randn(16, 64, generator=torch.Generator().manual_seed(number))
    optimizer.zero_grad()
    (model(inputs) - inputs).pow(2).mean().backward()
    optimizer.step()


def state() -> dict:
    return {"model": get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer), "words": ["not", "a tensor"]}


def full(node: object) -> object:
    if isinstance(node, dict):
        return {key: full(value) for key, value in node.items()}
    return node.full_tensor().clone() if hasattr(node, "full_tensor") else node.clone() if isinstance(node, torch.Tensor) else node


place = open_vault(Path(vault))
if action == "load":
    step(99)  # makes the optimizer's state, which is then overwritten
    loaded = state()
    dcp.load(loaded, storage_reader=VaultReader(place, rest[0]))
    set_model_state_dict(model, loaded["model"])
    set_optimizer_state_dict(model, optimizer, loaded["optimizer"])
    assert loaded["words"] == ["not", "a tensor"]
else:
    for number in range(3):
        step(number)
    writer = VaultWriter(place, workload="w", step=3, site="here", context={"loss": "1"})
    if action == "save":
        dcp.save(state(), storage_writer=writer)
    elif action == "async":
        expected = full(state())
        apart = dist.new_group(backend="gloo")  # the save talks in between what training says
        future = dcp.async_save(state(), storage_writer=writer, process_group=apart)
        step(50)  # goes on while it is being saved
        future.result()
        if rank == 0:
            torch.save(expected, out)
    else:  # die: this rank never stores its share
        if rank == 1:
            VaultWriter.write_data = lambda *_: os._exit(9)
        dcp.save(state(), storage_writer=writer)
if action != "async":
    found = full(state())
    if rank == 0:
        torch.save(found, out)
dist.barrier()
dist.destroy_process_group()
