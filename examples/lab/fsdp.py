"""A training of several ranks with FSDP2 and DCP that can be moved while it works: ``torchrun --nproc-per-node 2 fsdp.py``.

The first rank holds the session: it takes the orders, and every rank does what it says. Each rank saves its own shards into the vault.
The environment says which vault, workload and site, as docs/how-to/train.md lists.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from bridgehead.training import Session, SessionOptions, open_vault
from bridgehead.training.torch_dcp import VaultReader, VaultWriter

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--until", type=int, required=True)
parser.add_argument("--pace", type=float, default=10.0, help="steps a second; 0 for flat out")
parser.add_argument("--losses", type=Path, required=True)
asked = parser.parse_args()

torch.set_num_threads(1)
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on one node
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(asked.seed)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
mesh = init_device_mesh("cpu", (ranks,))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
vault, options = open_vault(Path(os.environ["BRIDGEHEAD_VAULT"])), SessionOptions.from_env(os.environ)


def told(word):
    """What the first rank says, on every rank."""
    words = [word]
    dist.broadcast_object_list(words)
    return words[0]


def compute(step):
    """One step; its loss, the mean of all ranks."""
    generator = torch.Generator().manual_seed(step * ranks + rank)  # data order: a function of step and rank
    inputs = torch.randn(32, 64, generator=generator)
    loss = (model(inputs) - inputs.flip(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / ranks


def state():
    """Every rank's shards of weights and moments."""
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


def load(snapshot):
    """Each rank reads what it needs, verified."""
    loaded = state()
    dcp.load(loaded, storage_reader=VaultReader(vault, snapshot))
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])


def save(step, epoch):
    """All ranks together; the first one commits. The snapshot's id on the first rank."""
    writer = VaultWriter(vault, workload=options.workload, step=step, epoch=epoch, site=options.site)
    dcp.save(state(), storage_writer=writer)
    return writer.result.snapshot.id if rank == 0 else None


def ordered_save(step, epoch):
    """The first rank tells the others to save."""
    told(("save", step, epoch))
    return save(step, epoch)


def lead(session):
    """The first rank: the session says what to do, and all hear of it."""
    found = session.restore()
    snapshot = told(found and found["snapshot"])
    if snapshot:
        load(snapshot)
    due_s = time.monotonic()
    with asked.losses.open("a", buffering=1) as log:
        for step in session.steps(asked.until):
            if asked.pace:
                time.sleep(max(0.0, due_s - time.monotonic()))
                due_s = max(due_s, time.monotonic() - 1 / asked.pace) + 1 / asked.pace
            told(("step", step, 0))
            loss = compute(step)
            print(json.dumps({"step": step, "loss": loss, "at_s": time.time(), "site": options.site}), file=log)
            if session.should_checkpoint(step):
                session.save_by(step, lambda epoch, step=step: ordered_save(step, epoch))
            if session.should_stop():
                break
    told(("end", 0, 0))


def follow():
    """Every other rank."""
    snapshot = told(None)
    if snapshot:
        load(snapshot)
    while True:
        word, step, epoch = told(None)
        if word == "end":
            return
        if word == "step":
            compute(step)
        else:
            save(step, epoch)


if rank == 0:
    with Session(vault, options, load=lambda _vault, info: {"snapshot": info.id}) as session:
        lead(session)
else:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # schedulers send it to all: the first rank decides
    follow()
dist.barrier()
dist.destroy_process_group()
