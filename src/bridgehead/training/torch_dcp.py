"""torch_dcp: PyTorch's distributed checkpoints (DCP) straight into a vault and out of it. Needs torch, which is imported with this module.

Each rank stores its own share; the coordinator commits when all ranks have, so that a rank that died leaves no snapshot. What is saved is
an ordinary DCP folder: ``bridgehead vault restore`` writes one that ``FileSystemReader`` reads, and a DCP folder that ``bridgehead vault
save`` or the watcher saved can be read with ``VaultReader``.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import msgspec
import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import FileEntry, Snapshot
from bridgehead.training.dcp_metadata import read_metadata
from bridgehead.training.torch_source import Spliced
from bridgehead.vault import SaveResult, Vault
from bridgehead.vault.sharing import Shard, Share

METADATA: Final = ".metadata"
RUN_BYTES: Final = 64 << 20
"""Items that lie side by side are read together up to so many bytes."""
READERS: Final = 4
_PART: Final = "bridgehead.part"


class _Prefix(msgspec.Struct, frozen=True):
    """What the coordinator tells a rank with its plan: its number, counted from 0, and how many ranks there are."""

    rank: int
    ranks: int


class VaultWriter(StorageWriter):
    """Saves one DCP checkpoint as the snapshot after ``step``; a new writer for each. For ``dcp.save`` and ``dcp.async_save``.

    Tensors on the CPU are not copied. Tensors of a device are, so that a rank needs host memory for its share of the state.

    Args:
        vault: the vault, or how to open it: for ``AsyncCheckpointerType.PROCESS``, which has to pickle it.
        site: where it is saved; default the name of this machine.
        context: what to note with it.

    Attributes:
        result: on the coordinator, after the save: the snapshot and whether it counts.
    """

    def __init__(
        self,
        vault: Vault | Callable[[], Vault],
        *,
        workload: WorkloadId | str,
        step: int,
        epoch: Epoch | int = 0,
        site: SiteId | str = "",
        context: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.result: SaveResult | None = None
        self._vault = vault
        self._order: dict[str, Any] = {
            "workload": WorkloadId(workload),
            "step": step,
            "epoch": Epoch(epoch),
        }
        self._site = SiteId(site or socket.gethostname())
        self._context = dict(context or {})

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """See StorageWriter. Raises BAD_USAGE for a ``checkpoint_id``: workload and step say which checkpoint it is."""
        if checkpoint_id is not None:
            raise _misuse(f"checkpoint_id {checkpoint_id!r}", "a snapshot is named by workload and step", "Leave checkpoint_id out.")
        self.result = None

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """See StorageWriter. Raises BAD_USAGE without collectives, for then nobody knows when all ranks are done."""
        if not kwargs.get("use_collectives", True):
            raise _misuse("use_collectives=False", "ranks that do not know of each other make no snapshot", "Leave it out.")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """See StorageWriter."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """See StorageWriter."""
        return [replace(plan, storage_data=_Prefix(rank, len(plans))) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Store this rank's share; nothing is committed. Raises what ``Vault.save_part`` raises."""
        prefix: _Prefix = plan.storage_data
        name = f"__{prefix.rank}_0.distcp"
        file = Spliced(name)
        results = [_add(file, item, planner) for item in plan.items]
        saved = self._opened().save_part(
            [file] if results else [],
            shard=Shard(prefix.rank + 1, prefix.ranks + 1),
            share=Share.OWN,
            site=self._site,
            context=self._context,
            close=False,
            **self._order,
        )
        results.append(WriteResult(index=MetadataIndex(_PART), size_in_bytes=0, storage_data=(prefix.rank + 1, saved.digest)))
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Commit exactly what the ranks have just stored, with the table of what lies where. Raises what ``Vault.commit_parts`` raises."""
        written = [result for one in results for result in one]
        digests = dict(result.storage_data for result in written if result.index.fqn == _PART)
        metadata.storage_data = {result.index: result.storage_data for result in written if result.index.fqn != _PART}
        metadata.storage_meta = None
        vault, shards = self._opened(), len(results) + 1
        table = vault.save_part(
            {METADATA: pickle.dumps(metadata)},
            shard=Shard(shards, shards),
            share=Share.OWN,
            site=self._site,
            context=self._context,
            close=False,
            **self._order,
        )
        self.result = vault.commit_parts(shards=shards, digests={**digests, shards: table.digest}, **self._order)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """See StorageWriter: never chosen by a path."""
        return False

    def _opened(self) -> Vault:
        if not isinstance(self._vault, Vault):
            self._vault = self._vault()
        return self._vault


class VaultReader(StorageReader):
    """Reads a snapshot that is a DCP checkpoint, by any number of ranks: each fetches only the ranges that it needs, verified.

    Args:
        snapshot: its id, the same on all ranks: ``vault.newest(workload).id`` on one of them, told to the others.
    """

    def __init__(self, vault: Vault, snapshot: SnapshotId | str) -> None:
        super().__init__()
        self._vault = vault
        self._id = SnapshotId(snapshot)
        self._snapshot: Snapshot | None = None
        self._places: dict[MetadataIndex, Any] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """See StorageReader. A ``checkpoint_id`` is the id of another snapshot."""
        if checkpoint_id is not None:
            self._id = SnapshotId(os.fspath(checkpoint_id))
        self._snapshot = None

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """See StorageReader. Raises NotFound, Damaged; BAD_INPUT when the snapshot is no DCP checkpoint."""
        snapshot = self._read()
        return read_metadata(b"".join(self._vault.read(snapshot, _file(snapshot, METADATA))), subject=snapshot.id)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """See StorageReader."""
        self._places = metadata.storage_data or {}

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """See StorageReader."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """See StorageReader."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """See StorageReader. Raises Damaged at the first bad block."""
        snapshot = self._read()
        runs = list(_runs(plan.items, self._places))
        with ThreadPoolExecutor(READERS, thread_name_prefix="vault-dcp") as pool:
            for at in range(0, len(runs), READERS):  # no more than READERS runs are in memory
                some = runs[at : at + READERS]
                for run, data in zip(some, pool.map(lambda run: self._bytes(snapshot, run), some), strict=True):
                    _hand_out(run, data, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """See StorageReader: never chosen by a path."""
        return False

    def _read(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = self._vault.snapshot(self._id)
        return self._snapshot

    def _bytes(self, snapshot: Snapshot, run: _Run) -> memoryview:
        pieces = self._vault.read(snapshot, _file(snapshot, run.path), offset_bytes=run.begin, size_bytes=run.end - run.begin)
        return memoryview(b"".join(pieces))


class _Run(msgspec.Struct):
    """Items of one file that are read together: each with begin and end in the file."""

    path: str
    begin: int
    end: int
    items: list[tuple[Any, int, int]]


def _runs(items: Sequence[ReadItem], places: Mapping[MetadataIndex, Any]) -> Iterator[_Run]:
    wanted = sorted(((places[item.storage_index], item) for item in items), key=lambda one: (one[0].relative_path, one[0].offset))
    run: _Run | None = None
    for place, item in wanted:
        begin, end = place.offset, place.offset + place.length
        if run is None or run.path != place.relative_path or begin > run.end or end - run.begin > RUN_BYTES:
            if run is not None:
                yield run
            run = _Run(place.relative_path, begin, end, [])
        run.items.append((item, begin, end))
        run.end = max(run.end, end)
    if run is not None:
        yield run


def _hand_out(run: _Run, data: memoryview, planner: LoadPlanner) -> None:
    for item, begin, end in run.items:
        stream = io.BytesIO(data[begin - run.begin : end - run.begin])
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, stream)
            continue
        tensor = torch.load(stream, map_location="cpu", weights_only=True)
        for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            tensor = tensor.narrow(dimension, offset, length)
        target = planner.resolve_tensor(item).detach()
        if target.size() != tensor.size() or target.dtype != tensor.dtype:
            raise BridgeheadError(
                ErrorCode.BAD_INPUT,
                tried="load a checkpoint",
                subject=item.dest_index.fqn,
                happened=f"it was saved as {tensor.dtype} {tuple(tensor.size())} and is wanted as {target.dtype} {tuple(target.size())}",
                remedy="Build the model as it was saved, and cast it afterwards: nothing is cast on the way.",
            )
        target.copy_(tensor)
        planner.commit_tensor(item, target)


def _add(file: Spliced, item: WriteItem, planner: SavePlanner) -> WriteResult:
    data = planner.resolve_data(item)
    begin = file.size_bytes
    if item.type == WriteItemType.BYTE_IO:
        assert isinstance(data, io.BytesIO)
        file.add(data.getbuffer())
    else:
        assert isinstance(data, torch.Tensor)
        file.add_tensor(data)
    size = file.size_bytes - begin
    return WriteResult(
        index=item.index,
        size_in_bytes=size,
        storage_data=filesystem._StorageInfo(
            relative_path=file.path, offset=begin, length=size
        ),  # what .metadata of every DCP folder holds
    )


def _file(snapshot: Snapshot, path: str) -> FileEntry:
    for file in snapshot.files:
        if file.path == path:
            return file
    raise BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="read a distributed checkpoint",
        subject=snapshot.id,
        happened=f"it has no file {path!r}",
        remedy="Name a snapshot that was saved by VaultWriter, or of a DCP folder.",
    )


def _misuse(subject: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_USAGE, tried="save a distributed checkpoint", subject=subject, happened=happened, remedy=remedy)
