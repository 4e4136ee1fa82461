"""Shards: the ranks or nodes of one job save in parallel, each its share; one record closes the snapshot, when no share is missing.

    state/parts/<workload>/<step>-<epoch>-<shards>/<shard>    what one shard has stored, until the snapshot is committed

Shares of two attempts at the same step must never become one snapshot, for a job that computes the step again need not come to the same
bits. So each part carries what all must agree upon: how the files were shared out, the attempt, and when the files were dealt, a digest
of the whole listing with sizes and times.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import Conflict, NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.layout import MAX_EPOCH, MAX_STEP, is_name
from bridgehead.vault.merging import entry_content, merged, stored_refs
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged, encode
from bridgehead.vault.save import SaveOrder, StoredFiles, check, commit, store_files
from bridgehead.vault.sharing import Shard, Share, deal
from bridgehead.vault.sources import Source, bad_input
from bridgehead.vault.writing import Writing, open_writing

if TYPE_CHECKING:
    from bridgehead.vault.encoding import Encoder

PARTS_PREFIX: Final = "state/parts/"
CONTEXT_KEY: Final = "bridgehead.shards"
"""In the context of a snapshot: how many shards it was saved by, and what they agreed upon. A repeat knows its own snapshot by it."""
WAITING_S: Final = 7 * 86400.0
"""A part that is older waits for nobody any more: its blocks may be collected, and the next commit of the workload removes it."""
_GROUP: Final = re.compile(r"([0-9]{1,12})-([0-9]{1,8})-([0-9]{1,6})")
_TRIED: Final = "close the snapshot of all shards"


class Group(msgspec.Struct, frozen=True):
    """The shards that make one snapshot."""

    workload: WorkloadId
    step: int
    epoch: Epoch
    shards: int

    @property
    def prefix(self) -> str:
        """Folder of the parts."""
        return f"{PARTS_PREFIX}{self.workload}/{self.step}-{self.epoch}-{self.shards}/"

    @property
    def words(self) -> str:
        """For messages."""
        return f"step {self.step} of {self.workload} in epoch {self.epoch}, {self.shards} shards"

    def key(self, number: int) -> str:
        """Key of one shard's part."""
        return f"{self.prefix}{number}"


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of one shard's share. ``listing`` is empty unless the files were dealt out."""

    workload: WorkloadId
    step: int
    epoch: Epoch
    shards: int
    shard: int
    site: SiteId
    saved_s: float
    share: Share
    attempt: str
    listing: str
    files: tuple[FileEntry, ...]
    pinned: tuple[BlockRef, ...]
    incomplete: tuple[str, ...]
    context: dict[str, str]

    @property
    def agreement(self) -> str:
        """Equal for parts that may be put together."""
        return block_hash(canonical([self.share, self.attempt, self.listing]))[:16]

    @property
    def digest(self) -> str:
        """Of all but the time: two saves of the same share have the same."""
        return block_hash(canonical(msgspec.structs.replace(self, saved_s=0.0)))


class PartSaved(msgspec.Struct, frozen=True):
    """What one shard came to.

    Attributes:
        digest: names exactly this part; ``commit_parts`` can be told to take no other.
        missing: shards that have not stored their share yet.
        snapshot: of all shards, when this one was the last and closed it, or it was closed before.
        counts: whether that snapshot counts.
    """

    shard: Shard
    digest: str
    files: int
    raw_bytes: int
    written_blocks: int
    written_bytes: int
    missing: tuple[int, ...] = ()
    snapshot: Snapshot | None = None
    counts: bool = True


class PartOrder(msgspec.Struct, frozen=True):
    """What a shard is to save as. ``attempt``: any text that is the same for all shards, and another when the job tries again."""

    order: SaveOrder
    shard: Shard
    share: Share
    attempt: str

    @property
    def group(self) -> Group:
        """The shards that it belongs to."""
        return Group(self.order.workload, self.order.step, self.order.epoch, self.shard.count)


def save_part(
    objects: Objects, catalog: Catalog, encoder: Encoder | None, sources: list[Source], wanted: PartOrder, *, close: bool
) -> PartSaved:
    """Store a share and note it; with ``close`` the last shard commits. Repeated, it stores nothing twice.

    Raises as ``save.save``; with ``close`` also Conflict when the parts do not fit together.
    """
    order, group, shard = wanted.order, wanted.group, wanted.shard
    _check_group(group)
    mine, listing = (sources, "") if wanted.share is Share.OWN else (deal(sources, shard), _listing(sources))
    if sources or wanted.share is Share.DEALT:
        check(sources, order)
    with open_writing(objects, f"save shard {shard} of {group.words}") as writing:
        stored = store_files(writing, encoder, mine, order.workload)
        part = _part(wanted, stored, listing)
        done = _committed(catalog, group, [part])
        if done is None:
            _put(objects, writing, group, part)
    saved = PartSaved(
        shard, part.digest, len(mine), sum(file.size_bytes for file in part.files), stored.written_blocks, stored.written_bytes
    )
    if done is not None:
        _clear(objects, group, part)
        return msgspec.structs.replace(saved, snapshot=done)
    missing = _missing(group, _numbers(objects, group))
    if missing or not close:
        return msgspec.structs.replace(saved, missing=missing)
    return msgspec.structs.replace(saved, snapshot=commit_parts(objects, catalog, group, now_s=order.created_s))


def commit_parts(objects: Objects, catalog: Catalog, group: Group, *, now_s: float, digests: Mapping[int, str] | None = None) -> Snapshot:
    """Close the snapshot, create-only, and remove the parts. Repeated, or done by two at once, it comes to the same snapshot.

    Args:
        digests: the parts that are meant, by shard; any other is refused.

    Raises:
        Conflict: shards are missing (named), or disagree, or lost blocks to a collection; nothing was committed.
        BridgeheadError: BAD_INPUT when two shards saved one path with different content, or the files cannot lie in one folder.
    """
    _check_group(group)
    parts = _read(objects, group)
    missing = _missing(group, parts.keys())
    if missing:
        done = _committed(catalog, group, parts.values())
        if done is None:
            raise _conflict(group, *_why_missing(objects, group, missing, parts))
    else:
        _check_agreement(objects, group, parts, digests or {})
        done = _commit(objects, catalog, group, parts, now_s=now_s)
    for number in range(1, group.shards + 1):
        objects.blobs.delete(group.key(number))
    _sweep(objects, group.workload, now_s=now_s)
    return done


def waiting_blocks(objects: Objects, *, now_s: float) -> Iterator[BlockRef]:
    """What the parts need that still wait to be closed: roots for the collection. Raises Damaged when one cannot be read."""
    for key in objects.blobs.list(PARTS_PREFIX):
        try:
            part = objects.record(key, Part)
        except NotFound:
            continue  # closed in this moment; its snapshot holds the blocks
        if now_s - part.saved_s < WAITING_S:
            yield from stored_refs([*(ref for file in part.files for ref in file.blocks), *part.pinned])


def _commit(objects: Objects, catalog: Catalog, group: Group, parts: dict[int, Part], *, now_s: float) -> Snapshot:
    ordered = [parts[number] for number in sorted(parts)]
    done = _committed(catalog, group, ordered)
    if done is not None:
        return done
    stored = merged([StoredFiles(part.files, part.pinned, part.incomplete, 0, 0) for part in ordered], subject=group.words)
    context = {key: value for part in reversed(ordered) for key, value in part.context.items()}
    context[CONTEXT_KEY] = _mark(group, ordered[0])
    order = SaveOrder(group.workload, group.step, group.epoch, ordered[0].site, now_s, context)
    with open_writing(objects, f"close {group.words}") as writing:
        _check_present(objects, group, parts)
        return commit(writing, catalog, stored, order)


def _check_present(objects: Objects, group: Group, parts: dict[int, Part]) -> None:
    """Within a writing, so that what is there now is there at the commit. A part that lost blocks is no part any more."""
    lost = []
    for number, part in parts.items():
        if objects.lacking(stored_refs([*(ref for file in part.files for ref in file.blocks), *part.pinned])):
            objects.blobs.delete(group.key(number))
            lost.append(number)
    if lost:
        raise _conflict(
            group,
            f"blocks of {_named(lost)} are not there any more: a collection took the share for abandoned",
            "Save these shares again; the others are still there.",
        )


def _part(wanted: PartOrder, stored: StoredFiles, listing: str) -> Part:
    order = wanted.order
    return Part(
        workload=order.workload,
        step=order.step,
        epoch=order.epoch,
        shards=wanted.shard.count,
        shard=wanted.shard.number,
        site=order.site,
        saved_s=order.created_s,
        share=wanted.share,
        attempt=wanted.attempt,
        listing=listing,
        files=stored.files,
        pinned=stored.pinned,
        incomplete=stored.incomplete,
        context=dict(order.context),
    )


def _put(objects: Objects, writing: Writing, group: Group, part: Part) -> None:
    """Write the part, in place of one of an earlier attempt."""
    key = group.key(part.shard)
    for _ in range(2):
        if writing.commit(key, encode(part)):
            return
        try:
            if objects.record(key, Part).digest == part.digest:
                return
        except (Damaged, NotFound):
            pass
        objects.blobs.delete(key)
    raise _conflict(group, f"another process saves shard {part.shard}, too", "Give each rank or node a number of its own.")


def _clear(objects: Objects, group: Group, part: Part) -> None:
    """Remove the part, which one that was killed after its commit has left."""
    try:
        if objects.record(group.key(part.shard), Part).digest == part.digest:
            objects.blobs.delete(group.key(part.shard))
    except (Damaged, NotFound):
        pass


def _read(objects: Objects, group: Group) -> dict[int, Part]:
    found = {}
    for number in sorted(_numbers(objects, group)):
        try:
            found[number] = objects.record(group.key(number), Part)
        except NotFound:
            continue
    return found


def _numbers(objects: Objects, group: Group) -> set[int]:
    names = (key.removeprefix(group.prefix) for key in objects.blobs.list(group.prefix))
    return {int(name) for name in names if name.isdecimal()}


def _missing(group: Group, present: Collection[int]) -> tuple[int, ...]:
    return tuple(number for number in range(1, group.shards + 1) if number not in present)


def _committed(catalog: Catalog, group: Group, parts: Iterable[Part]) -> Snapshot | None:
    """The snapshot that these shards closed before, with exactly these files; of no parts at all, the newest that so many shards closed."""
    parts = list(parts)
    found = None
    for name in catalog.names(group.workload)[0]:
        if (name.step, name.epoch) != (group.step, group.epoch):
            continue
        try:
            snapshot = catalog.snapshot(name.id)
        except (Damaged, NotFound):
            continue
        mark = snapshot.context.get(CONTEXT_KEY, "")
        held = {file.path: entry_content(file) for file in snapshot.files}
        if mark.partition(" ")[0] == str(group.shards) and all(
            mark == _mark(group, part) and all(held.get(file.path) == entry_content(file) for file in part.files) for part in parts
        ):
            found = snapshot if found is None or snapshot.created_s > found.created_s else found
    return found


def _mark(group: Group, part: Part) -> str:
    return f"{group.shards} {part.agreement}"


def _check_agreement(objects: Objects, group: Group, parts: dict[int, Part], digests: Mapping[int, str]) -> None:
    by_agreement: dict[str, list[int]] = {}
    for number, part in parts.items():
        by_agreement.setdefault(part.agreement, []).append(number)
    if len(by_agreement) > 1:
        sides = " and ".join(_named(numbers) for numbers in by_agreement.values())
        raise _conflict(
            group,
            f"{sides} do not belong together: they saw different files, or are of different attempts",
            "Save all shares again, each with the same --attempt. Nodes that see only files of their own need --mine.",
        )
    other = [number for number, digest in digests.items() if parts[number].digest != digest]
    if other:
        raise _conflict(group, f"{_named(other)} were saved again meanwhile, by another process", "End it, and save again.")
    strangers = [one for one in _elsewhere(objects, group, parts.values()) if one[1].share is Share.OWN]
    if strangers:
        raise _conflict(group, _disagreement(strangers), "Save again, with the same step, epoch and number of shards on all.")


def _why_missing(objects: Objects, group: Group, missing: Collection[int], parts: Mapping[int, Part]) -> tuple[str, str]:
    happened = f"{_named(missing)} of {group.shards} {'has' if len(missing) == 1 else 'have'} not stored any share"
    elsewhere = _elsewhere(objects, group, parts.values())
    if elsewhere:
        happened += f"; the shards disagree: {_disagreement(elsewhere)}"
    return happened, "Save the missing shares; the last one closes the snapshot, or commit again."


def _elsewhere(objects: Objects, group: Group, parts: Collection[Part]) -> list[tuple[Group, Part]]:
    """Parts of the same workload that agree with these in all but step, epoch or number of shards; with none given, all of this step."""
    agreements = {part.agreement for part in parts}
    found = []
    prefix = f"{PARTS_PREFIX}{group.workload}/"
    for key in objects.blobs.list(prefix):
        folder, _, name = key.removeprefix(prefix).partition("/")
        match = _GROUP.fullmatch(folder)
        if match is None or not name.isdecimal():
            continue
        other = Group(group.workload, int(match[1]), Epoch(int(match[2])), int(match[3]))
        if other == group:
            continue
        try:
            part = objects.record(key, Part)
        except (Damaged, NotFound):
            continue
        if part.agreement in agreements or (not agreements and other.step == group.step):
            found.append((other, part))
    return found


def _disagreement(found: list[tuple[Group, Part]]) -> str:
    return "; ".join(f"shard {part.shard} was saved for {other.words}" for other, part in found[:3])


def _sweep(objects: Objects, workload: WorkloadId, *, now_s: float) -> None:
    """Remove parts of this workload that wait for nobody any more."""
    for key in objects.blobs.list(f"{PARTS_PREFIX}{workload}/"):
        try:
            if now_s - objects.record(key, Part).saved_s >= WAITING_S:
                objects.blobs.delete(key)
        except (Damaged, NotFound):
            continue


def _listing(sources: list[Source]) -> str:
    return block_hash(canonical([[source.path, source.size_bytes, source.mtime_ns] for source in sources]))


def _check_group(group: Group) -> None:
    if not (is_name(group.workload) and 0 <= group.step <= MAX_STEP and 0 <= group.epoch <= MAX_EPOCH):
        raise bad_input(group.words, "step, epoch or workload are out of range", "Correct them.")


def _named(numbers: Collection[int]) -> str:
    return f"shard{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _conflict(group: Group, happened: str, remedy: str) -> Conflict:
    return Conflict(happened, tried=_TRIED, subject=group.words, remedy=remedy)
