"""Tensor ledger: alarms for saves that succeed and are wrong, from block hashes and tensor tables alone (V14, V15, V07).

Pure: a function of the records of consecutive snapshots; nothing is read. Equal blocks mean equal bytes. A tensor that shares a block with
neighbours, in a block that differs, *may* have changed: what is not certain raises no alarm and hides none.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import FileEntry, Snapshot, TensorEntry
from bridgehead.vault.tensor_alarm import Alarm, AlarmCode, alarm_of


class Role(enum.StrEnum):
    """What a tensor is, told by its name and file. A hint: used only to compare groups as a whole."""

    WEIGHTS = "weights"
    OPTIMIZER = "optimizer"
    OTHER = "other"


class Fate(enum.Enum):
    """What became of a tensor from one snapshot to the next."""

    SAME = enum.auto()
    CHANGED = enum.auto()
    UNCERTAIN = enum.auto()


class Known(NamedTuple):
    """A tensor of a snapshot; ``pieces``: begin in the tensor, size, block, begin in the block, whether it is the whole block."""

    file: FileEntry
    tensor: TensorEntry
    role: Role
    pieces: tuple[tuple[int, int, BlockId, int, bool], ...]


_MOMENTS: Final = frozenset(
    {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum", "momentum_buffer", "square_avg", "grad_avg", "acc_delta"}
    | {"moment1", "moment2", "mu", "nu"}
)
_SHORT_MOMENTS: Final = frozenset({"m", "v"})
_MASTERS: Final = frozenset({"master", "master_weights", "fp32", "fp32_params", "fp32_flat_groups", "single_partition_of_fp32_groups"})
_OPTIMIZERS: Final = frozenset({"optimizer", "optim", "optimizer_state", "optimizer_states", "opt_state"})
_COUNTERS: Final = frozenset({"step", "steps", "epoch", "seed", "rng", "rng_state", "scheduler", "lr_scheduler", "iteration"})
_SEPARATOR: Final = re.compile(r"[./:|\[\]]+")
_SERIES: Final = re.compile(r"(?P<head>.*)-(?P<number>[0-9]{1,9})-of-(?P<count>[0-9]{1,6})(?P<tail>\.[A-Za-z0-9.]+)?")
_NAMED: Final = 3
MAX_NAMED_MISSING: Final = 1000
_JSON: Final = (".json", ".txt", ".md", ".yaml", ".yml", ".jsonl")
_RESERVED: Final = ".bridgehead/"


def role_of(path: str, tensor: TensorEntry) -> Role:
    """What a tensor is for. Scalars are counters: they change also where nothing is trained."""
    words = [word.lower() for word in _SEPARATOR.split(tensor.name) if word]
    if len(words) > 0 and (set(words) & _MOMENTS or {words[0], words[-1]} & _SHORT_MOMENTS):
        return Role.OPTIMIZER
    count = 1
    for length in tensor.shape:
        count *= length
    name = path.rpartition("/")[2].lower()
    if count <= 1 or (words and words[-1] in _COUNTERS) or name.startswith(("rng_state", "random_states", "scheduler")):
        return Role.OTHER
    if set(words) & _MASTERS:
        return Role.WEIGHTS
    return Role.OPTIMIZER if "optim" in name or set(words) & _OPTIMIZERS else Role.WEIGHTS


def ambiguous(*snapshots: Snapshot) -> frozenset[str]:
    """Names that several tensors of one snapshot have."""
    counts = [Counter(tensor.name for file in snapshot.files for tensor in file.tensors) for snapshot in snapshots]
    return frozenset(name for count in counts for name, times in count.items() if times > 1)


def common_paths(*snapshots: Snapshot) -> frozenset[str]:
    """Paths that all of them have."""
    return frozenset.intersection(*(frozenset(file.path for file in snapshot.files) for snapshot in snapshots))


def tensors_of(snapshot: Snapshot, doubled: frozenset[str], common: frozenset[str]) -> dict[str, Known]:
    """The tensors by name, those of ``doubled`` names by file and name. Steps are left out of paths that are not ``common``."""
    return {
        f"{stepless(file.path, snapshot.step, common)}: {tensor.name}" if tensor.name in doubled else tensor.name: Known(
            file, tensor, role_of(file.path, tensor), tuple(_pieces(file, tensor))
        )
        for file in snapshot.files
        for tensor in file.tensors
    }


def stepless(path: str, step: int, common: frozenset[str]) -> str:
    """The path without the step: files that carry it in their name are the same file of the next step. One that both steps have carries
    another number that happens to be the same."""
    return path if path in common else re.sub(rf"(?<![0-9])0*{step}(?![0-9])", "N", path)


def fate(before: Known, after: Known) -> Fate:
    """Judged by blocks alone."""
    if before.pieces == after.pieces:
        return Fate.SAME
    ours = {(begin, size): block for begin, size, block, _, whole in before.pieces if whole}
    different = (ours.get((begin, size), block) != block for begin, size, block, _, whole in after.pieces if whole)
    return Fate.CHANGED if any(different) or before.tensor.size_bytes != after.tensor.size_bytes else Fate.UNCERTAIN


class _Pair:
    """Two consecutive snapshots compared."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before, after
        doubled = ambiguous(before, after)
        self.common = common_paths(before, after)
        self.old, self.new = tensors_of(before, doubled, self.common), tensors_of(after, doubled, self.common)
        both = [name for name in self.new if name in self.old and self.new[name].tensor.size_bytes]
        self.fates = {name: fate(self.old[name], self.new[name]) for name in both}

    def of(self, role: Role) -> list[str]:
        return [name for name in self.fates if self.new[name].role is role]

    def still(self, names: Iterable[str]) -> bool:
        """There are some, and not one has changed."""
        listed = list(names)
        return bool(listed) and all(self.fates[name] is Fate.SAME for name in listed)

    @property
    def nothing_changed(self) -> bool:
        if self.fates:
            # Counters are judged with the rest: where they move on, the frozen weights are still found by their own rule.
            return self.still(self.fates) and self.old.keys() == self.new.keys()
        payload = [_payload(snapshot, self.common) for snapshot in (self.before, self.after)]
        return bool(payload[0]) and payload[0] == payload[1]

    @property
    def weights_frozen(self) -> bool:
        return self.still(self.of(Role.WEIGHTS)) and not self.still(self.fates)

    @property
    def optimizer_frozen(self) -> bool:
        weights = self.of(Role.WEIGHTS)
        return self.still(self.of(Role.OPTIMIZER)) and bool(weights) and not self.still(weights)

    def frozen_files(self) -> set[str]:
        """Files none of whose tensors changed (stepless); counters do not count."""
        by_file: dict[str, list[str]] = {}
        for name in self.fates:
            if self.new[name].role is not Role.OTHER:
                by_file.setdefault(stepless(self.new[name].file.path, self.after.step, self.common), []).append(name)
        return {path for path, names in by_file.items() if self.still(names)}


def alarms(chain: Sequence[Snapshot]) -> tuple[Alarm, ...]:
    """What is wrong with the last snapshot of ``chain``, given those before it, oldest first, of one workload."""
    if not chain:
        return ()
    newest = chain[-1]
    found = _own(newest)
    if len(chain) > 1:
        pairs = _Pairs(chain)
        found += _structure(pairs.pair(0)) + _frozen(pairs)
    return tuple(found)


class _Pairs:
    """The pairs of a chain, counted backwards from the newest, compared when asked for."""

    def __init__(self, chain: Sequence[Snapshot]) -> None:
        self.chain = chain
        self._made: dict[int, _Pair] = {}

    def pair(self, back: int) -> _Pair:
        """The pair so many before the newest."""
        if back not in self._made:
            self._made[back] = _Pair(self.chain[-2 - back], self.chain[-1 - back])
        return self._made[back]

    def since(self, holds: Callable[[_Pair], bool]) -> int | None:
        """The step since which it holds without a break up to the newest; None when it does not hold for the newest pair."""
        since = None
        for back in range(len(self.chain) - 1):
            if not holds(self.pair(back)):
                break
            since = self.chain[-2 - back].step
        return since


def _frozen(pairs: _Pairs) -> list[Alarm]:
    pair = pairs.pair(0)
    found: list[Alarm] = []
    since = pairs.since(lambda one: one.nothing_changed)
    if since is not None:
        found.append(_alarm(pair.after, AlarmCode.NO_TENSOR_CHANGED, pair.fates, f"no tensor changed since step {since}", since=since))
    since = pairs.since(lambda one: one.weights_frozen)
    if since is not None:
        text = f"no weight changed since step {since}, while other tensors do"
        found.append(_alarm(pair.after, AlarmCode.WEIGHTS_FROZEN, pair.of(Role.WEIGHTS), text, since=since))
    since = pairs.since(lambda one: one.optimizer_frozen)
    if since is not None:
        text = f"the optimizer's state has not changed since step {since}, while weights do"
        found.append(_alarm(pair.after, AlarmCode.OPTIMIZER_FROZEN, pair.of(Role.OPTIMIZER), text, since=since))
    if not found and len(pairs.chain) > 2:
        stuck = pair.frozen_files() - pairs.pair(1).frozen_files()
        moved = {stepless(file.path, pair.before.step, pair.common) for file in pair.before.files if file.tensors}
        stuck &= moved
        if stuck and len(moved) > len(stuck):
            text = f"no tensor of {_some(sorted(stuck))} changed since step {pair.before.step}, though it did before and other files do"
            found.append(_alarm(pair.after, AlarmCode.SHARD_FROZEN, sorted(stuck), text, since=pair.before.step))
    if not pair.fates and not pair.nothing_changed:
        text = "there is no tensor in it that is known in the snapshot before, too: nothing can be said of what changed"
        found.append(_alarm(pair.after, AlarmCode.CANNOT_TELL, (), text))
    return found


def _own(snapshot: Snapshot) -> list[Alarm]:
    """What the snapshot shows by itself: shards of a numbered series that are not there, files that were cut off."""
    found = [
        _alarm(snapshot, AlarmCode.FILE_CUT_OFF, (path,), f"{path} was cut off or missing when it was saved")
        for path in snapshot.incomplete
    ]
    missing = missing_of_series([file.path for file in snapshot.files])
    if missing:
        found.append(_alarm(snapshot, AlarmCode.SHARD_MISSING, missing, f"{_some(missing)} of its series is not there"))
    return found


def missing_of_series(paths: Iterable[str]) -> list[str]:
    """What lacks in each series of files ``...-00001-of-00004...`` of which some are there; of a series, the first thousand."""
    have: dict[tuple[str, int, str, int], set[int]] = {}
    for path in paths:
        match = _SERIES.fullmatch(path)
        if match is not None and int(match["number"]) <= int(match["count"]):
            key = (match["head"], int(match["count"]), match["tail"] or "", len(match["count"]))
            have.setdefault(key, set()).add(int(match["number"]))
    missing = []
    for (head, count, tail, width), numbers in have.items():
        first = 0 if 0 in numbers else 1
        wanted = range(first, first + count)
        absent = islice((number for number in wanted if number not in numbers), MAX_NAMED_MISSING)
        missing += [f"{head}-{number:0{width}d}-of-{count:0{width}d}{tail}" for number in absent]
    return sorted(missing)


def _structure(pair: _Pair) -> list[Alarm]:
    """Tensors, files, dtypes and shapes against the snapshot before."""
    before, after, step = pair.before, pair.after, pair.before.step
    found: list[Alarm] = []
    gone = [name for name in pair.old if name not in pair.new]
    new = [name for name in pair.new if name not in pair.old]
    lost = _lost_files(pair, gone)
    if lost.shards:
        found.append(_alarm(after, AlarmCode.SHARD_MISSING, lost.shards, f"{_some(lost.shards)} was there at step {step}"))
    if lost.others:
        found.append(_alarm(after, AlarmCode.FILE_MISSING, lost.others, f"{_some(lost.others)} was there at step {step}"))
    if gone:
        found.append(_alarm(after, AlarmCode.TENSOR_MISSING, gone, f"{_some(gone)} was there at step {step}"))
    if new:
        found.append(_alarm(after, AlarmCode.TENSOR_NEW, new, f"{_some(new)} was not there at step {step}"))
    for code, value in ((AlarmCode.DTYPE_CHANGED, _dtype), (AlarmCode.SHAPE_CHANGED, _shape)):
        names = [name for name in pair.new if name in pair.old and value(pair.old[name].tensor) != value(pair.new[name].tensor)]
        if names:
            what = f"{value(pair.old[names[0]].tensor)} became {value(pair.new[names[0]].tensor)}"
            found.append(_alarm(after, code, names, f"{_some(names)}: {what} (step {before.step} to {after.step})"))
    return found


class _Lost(NamedTuple):
    shards: list[str]
    others: list[str]


def _lost_files(pair: _Pair, gone: Iterable[str]) -> _Lost:
    """Files of the snapshot before that are not there; a shard is one that held a tensor which is gone with it."""
    have = {stepless(file.path, pair.after.step, pair.common) for file in pair.after.files}
    bereft = {pair.old[name].file.path for name in gone}
    there = [file for file in pair.before.files if not file.path.startswith(_RESERVED)]
    lost = [file for file in there if stepless(file.path, pair.before.step, pair.common) not in have]
    shards = [file.path for file in lost if file.path in bereft]
    others = [file.path for file in lost if file.is_file and not file.tensors and not file.path.endswith(_JSON)]
    return _Lost(shards, others)


def _alarm(snapshot: Snapshot, code: AlarmCode, subjects: Iterable[str], text: str, *, since: int | None = None) -> Alarm:
    return alarm_of(snapshot, code, tuple(subjects), text, since_step=snapshot.step if since is None else since)


def _payload(snapshot: Snapshot, common: frozenset[str]) -> dict[str, tuple[BlockId, ...]]:
    """Blocks of the files that may hold tensors, where no tensor is known."""
    return {
        stepless(file.path, snapshot.step, common): tuple(ref.block for ref in file.blocks)
        for file in snapshot.files
        if file.is_file and not file.path.endswith(_JSON) and not file.path.startswith(_RESERVED)
    }


def _pieces(file: FileEntry, tensor: TensorEntry) -> Iterable[tuple[int, int, BlockId, int, bool]]:
    end = tensor.offset_bytes + tensor.size_bytes
    at = max(bisect_right(file.blocks, tensor.offset_bytes, key=lambda ref: ref.offset_bytes) - 1, 0)
    for ref in islice(file.blocks, at, None):
        if ref.offset_bytes >= end:
            return
        first, last = max(tensor.offset_bytes, ref.offset_bytes), min(end, ref.offset_bytes + ref.size_bytes)
        if first < last:
            yield first - tensor.offset_bytes, last - first, ref.block, first - ref.offset_bytes, last - first == ref.size_bytes


def _dtype(tensor: TensorEntry) -> str:
    return tensor.dtype


def _shape(tensor: TensorEntry) -> str:
    return str(list(tensor.shape))


def _some(names: Sequence[str] | Mapping[str, object]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
