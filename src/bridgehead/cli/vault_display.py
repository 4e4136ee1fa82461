"""How vaults look in a terminal: plain columns, so that `vault list` pays for nothing heavy, and a line of progress on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType

from bridgehead.app.vault_contents import Shown, ShownFile
from bridgehead.app.vault_copies import Copied
from bridgehead.app.vault_diff import Change, Comparison, Difference
from bridgehead.app.vault_status import Listing, VaultStatus, WorkloadStatus
from bridgehead.app.vault_tiers import TierStatus
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.quantity import format_bytes, format_duration
from bridgehead.model.snapshot import FileEntry, Snapshot, SnapshotInfo
from bridgehead.vault import VerifyReport
from bridgehead.vault.paths import shown
from bridgehead.vault.verify import ObjectKind

_DIGITS = 3
_MARKS = {Change.SAME: "=", Change.CHANGED: "~", Change.ADDED: "+", Change.REMOVED: "-"}


class Progress:
    """Bytes done of about ``total_bytes`` (None: not known), on stderr: a line that is redrawn in a terminal, a line every ten seconds
    elsewhere, and so none for what is quick. Safe for threads."""

    def __init__(self, what: str, *, total_bytes: int | None = None) -> None:
        self.total_bytes = total_bytes
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._done_bytes = 0
        self._began_s = time.monotonic()
        self._shown_s = self._began_s + (0.3 if self._terminal else 0.0)
        self._drawn = False
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._drawn:
            self.clear()

    def moved(self, size_bytes: int) -> None:
        """Some bytes more are done."""
        with self._lock:
            self._done_bytes += size_bytes
            now_s = time.monotonic()
            if now_s - self._shown_s >= (0.2 if self._terminal else 10.0):
                self._shown_s = now_s
                self._draw(now_s - self._began_s)

    def say(self, text: str) -> None:
        """A line of its own on stderr."""
        with self._lock:
            self.clear()
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False

    def _draw(self, took_s: float) -> None:
        rate = self._done_bytes / took_s
        text = f"{self._what}: {size(self._done_bytes)}"
        if self.total_bytes:
            text += f" of {size(self.total_bytes)} ({min(1.0, self._done_bytes / self.total_bytes):.0%})"
        text += f", {size(int(rate))}/s"
        if self.total_bytes and rate > 0 and self.total_bytes > self._done_bytes:
            text += f", {duration((self.total_bytes - self._done_bytes) / rate)} left"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._drawn = True
        else:
            print(text, file=sys.stderr, flush=True)


def size(size_bytes: int) -> str:
    """A size for people."""
    return format_bytes(size_bytes, digits=_DIGITS)


def duration(duration_s: float) -> str:
    """A duration for people."""
    return format_duration(duration_s, digits=2)


def foreseen(duration_s: float) -> str:
    """A prediction for people: no better than to the second, for a restore has costs that no speed of bytes tells."""
    return "under 1 s" if duration_s < 1 else duration(duration_s)


def clock(at_s: float) -> str:
    """A time of the wall clock, UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_s))


def counted(number: int, word: str) -> str:
    """A number with its noun."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def entries(files: Iterable[FileEntry]) -> str:
    """How many files, links and folders."""
    kinds = Counter(file.kind.value if file.kind else "file" for file in files)
    return ", ".join(counted(kinds[kind], kind) for kind in ("file", "link", "folder") if kinds[kind])


def clean(text: str) -> str:
    """A name out of a file, without what would move the cursor; a byte that is not UTF-8 as ``\\xff``."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode() for sign in shown(text))


def warnings(snapshot: Snapshot) -> list[str]:
    """What was noticed about the files of a save; first what makes it no whole checkpoint."""
    found = sorted(snapshot.findings or (), key=lambda finding: not finding.spoils)
    texts = [f"{clean(finding.path)}: {clean(finding.happened)}" for finding in found]
    if snapshot.incomplete:
        texts.append("the snapshot is kept, but is never the newest")
    return texts


def print_columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Aligned columns; the last one is not padded."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)] if rows else []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        print(indent + "  ".join([*padded, row[-1]]))


def print_listing(found: Listing) -> None:
    """One line a snapshot, then those that are passed over with the reason."""
    if found.snapshots:
        head = ("snapshot", "step", "epoch", "site", "saved", "size", "")
        print_columns([head, *(_row(info) for info in found.snapshots)])
    else:
        print(f"no usable snapshot; `bridgehead vault save {found.vault} PATH --workload NAME --step N` makes one")
    if found.passed_over:
        print(f"passed over ({len(found.passed_over)}):")
        for one in found.passed_over:
            print(f"  {one.snapshot.id if one.snapshot else one.key}: {clean(one.reason)}")


def _row(info: SnapshotInfo) -> tuple[str, ...]:
    return (info.id, str(info.step), str(info.epoch), info.site, clock(info.created_s), size(info.raw_bytes), "usable")


def print_shown(found: Shown) -> None:
    """All about one snapshot."""
    print(found.id)
    standing = "counts" if found.counts else "does NOT count: its epoch is closed, or nobody opened it"
    faults = [f"{counted(len(found.incomplete), 'file')} missing or cut off (below)"] if found.incomplete else []
    faults += [found.lacking] if found.lacking else []
    whole = f"NOT usable: {'; '.join(faults)}" if faults else "all blocks are there" if found.verified else "NOT usable"
    kinds = Counter(one.kind for one in found.files)
    number = ", ".join(counted(kinds[kind], kind) for kind in ("file", "link", "folder") if kinds[kind])
    told = {finding.path for finding in found.findings}
    rows = [
        ("saved", f"{clock(found.created_s)} at {found.site}, step {found.step}, epoch {found.epoch}"),
        ("standing", f"{standing}; {whole}"),
        ("size", f"{size(found.raw_bytes)} in {number}; {size(found.stored_bytes)} in the vault; {size(found.restored_bytes)} on a disk"),
        ("restore", _restore_of(found)),
        *((f"context {clean(key)}", clean(value)) for key, value in sorted(found.context.items())),
        *((one.kind.value.replace("-", " "), f"{clean(one.path)}: {clean(one.happened)}") for one in found.findings),
        *(("cut off", clean(path)) for path in found.incomplete if path not in told),
        *(("do", text) for text in _what_to_do(found)),
    ]
    print_columns(rows, indent="  ")
    print("files:")
    print_columns([_shown_file(one) for one in found.files], indent="  ")
    if found.tensors:
        print("tensors:")
        rows_ = [
            (
                clean(one.name),
                clean(one.dtype),
                str(list(one.shape)),
                size(one.size_bytes),
                one.hash[:16] if one.hash else "-",
                clean(one.file),
            )
            for one in found.tensors
        ]
        print_columns([("name", "dtype", "shape", "size", "hash", "file"), *rows_], indent="  ")


def _what_to_do(found: Shown) -> list[str]:
    texts = []
    if found.incomplete:
        texts.append(f"save step {found.step} of {found.workload} again once those files are whole, or go on from an older snapshot")
        texts.append("what it holds can be restored all the same, by its whole id")
    if found.lacking:
        texts.append("`bridgehead vault verify VAULT --read-data` names what is damaged")
        texts.append("`bridgehead vault replicate OTHER VAULT --heal` brings it from a vault that holds it whole")
    return texts


def _restore_of(found: Shown) -> str:
    chain = f"decodes {counted(found.earlier_saves, 'earlier save')}" if found.earlier_saves else "needs no earlier save"
    return f"{chain}; {foreseen(found.restore_s)} predicted" if found.restore_s is not None else chain


def _shown_file(one: ShownFile) -> tuple[str, str, str]:
    match one.kind:
        case "link":
            return f"{clean(one.path)} -> {clean(one.target or '')}", "link", ""
        case "folder":
            return f"{clean(one.path)}/", f"{one.mode:o}", "folder"
    notes = [f"the same file as {clean(one.same_as)}"] if one.same_as else []
    notes += [f"{size(one.hole_bytes)} of it zeros without space"] if one.hole_bytes else []
    notes += [f"no tensor reaches {size(one.unreached_bytes)} of it"] if one.unreached_bytes else []
    return clean(one.path), f"{one.mode:o}", ", ".join([size(one.size_bytes), *notes])


def print_comparison(found: Comparison, *, every: bool) -> None:
    """What differs; all when ``every``."""
    print(f"{found.before} -> {found.after}")
    for title, differences in (("tensors", found.tensors), ("files", found.files)):
        shown = [one for one in differences if every or one.change is not Change.SAME]
        counts = {change: sum(one.change is change for one in differences) for change in Change}
        if differences:
            print(f"{title}: " + ", ".join(f"{count} {change.value}" for change, count in counts.items() if count))
        print_columns([(_MARKS[one.change], clean(one.name), _what(one)) for one in shown], indent="  ")
    what = "tensor" if found.tensors else "file"
    print("no difference" if found.same else f"{found.changed_share:.1%} of the {what} bytes are in blocks that differ")


def _what(one: Difference) -> str:
    match one.change:
        case Change.CHANGED:
            share = f"{one.changed_bytes / one.size_bytes:.1%} of {size(one.size_bytes)}" if one.size_bytes else size(0)
            kind = clean(str(one.before)) if one.before == one.after else f"{clean(str(one.before))} -> {clean(str(one.after))}"
            return f"{kind}, {share}"
        case _:
            return f"{clean(str(one.after or one.before))}, {size(one.size_bytes)}"


def print_verified(report: VerifyReport, *, place: str, read_data: bool) -> None:
    """The verdict, with every damaged object."""
    for damage in report.damages:
        print(f"damaged {damage.kind.value} {damage.key}: {clean(damage.happened)}")
        for hurt in damage.hurts:
            print(f"  hurts {clean(hurt)}")
    what = f"{counted(report.snapshots, 'snapshot')}, {counted(report.blocks, 'block')} in {counted(report.packs, 'pack')}"
    unused = f", {size(report.unused_bytes)} used by no snapshot" if report.unused_bytes else ""
    if report.damages:
        print(f"{place}: {counted(len(report.damages), 'damaged object')} among {what}")
        for remedy in dict.fromkeys(_remedy(damage.kind, place) for damage in report.damages):
            print(f"do: {remedy}")
    elif read_data:
        print(f"{place}: intact; {what}{unused}; {size(report.read_bytes)} read and every hash compared")
    else:
        print(f"{place}: records are intact and all packs are there with the right size; {what}{unused}")
        print("their contents were not read: --read-data does that")


def _remedy(kind: ObjectKind, place: str) -> str:
    match kind:
        case ObjectKind.INDEX | ObjectKind.VAULT:
            return f"{kind.value}: `bridgehead vault repair {place}` makes it anew"
        case ObjectKind.PACK | ObjectKind.SNAPSHOT | ObjectKind.RECEIPT | ObjectKind.SIGNATURE:
            heal = f"`bridgehead vault replicate OTHER {place} --heal` brings it from a vault that holds it whole"
            return f"{kind.value}: {heal}; other snapshots can be used as they are"
        case ObjectKind.UNKNOWN:
            return f"unknown: find out what it is, and move it out of {place}"
        case _:
            return f"{kind.value}: copy this object from a vault that holds it intact"


def print_copied(copied: Copied, *, target: str) -> None:
    """What a replication came to."""
    for one in copied.skipped:
        print(f"skipped {one.what}: {one.reason}")
    for one in copied.failed:
        print(f"FAILED {one.what}: {clean(one.reason)}")
    for key in copied.healed_records:
        print(f"healed {key}")
    if copied.healed:
        print(f"healed damaged blocks of {counted(copied.healed, 'snapshot')}")
    print(
        f"{target}: {counted(len(copied.copied), 'snapshot')} copied ({size(copied.raw_bytes)}), {copied.present} were there; "
        f"{size(copied.sent_bytes)} sent; {counted(copied.receipts, 'receipt')} of {copied.site}"
    )


def print_status(found: VaultStatus) -> None:
    """The whole vault, a paragraph a workload."""
    print(f"{found.vault}: vault {found.id}, made {clock(found.created_s)}")
    print(f"  {size(found.raw_bytes)} of checkpoints in {size(found.stored_bytes)}")
    for workload in found.workloads:
        print_columns([*_workload_rows(workload)], indent="")
    if found.tiers:
        print_tiers(found.tiers)
    if not found.workloads:
        print(f"  empty; `bridgehead vault save {found.vault} PATH --workload NAME --step N` saves the first snapshot")


def print_tiers(tiers: Sequence[TierStatus]) -> None:
    """One line a tier."""
    rows = [("tier", "snapshots", "size", "restore of the newest", "measured last", "vault")]
    for one in tiers:
        takes = f"{foreseen(one.newest_restore_s)} predicted" if one.newest_restore_s is not None else "-"
        last = f"{size(one.last.read_bytes)} in {duration(one.last.took_s)}" if one.last is not None else "-"
        rows.append((one.name, str(one.snapshots), size(one.raw_bytes), takes, last, one.place))
    print_columns(rows)


def _workload_rows(one: WorkloadStatus) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = [
        (one.workload, f"{counted(one.usable, 'usable snapshot')}, {one.passed_over} passed over, {size(one.stored_bytes)} stored")
    ]
    if one.newest is not None and one.age_s is not None:
        rows.append(("  newest", f"{one.newest.id}, {duration(one.age_s)} old, {size(one.newest.raw_bytes)}"))
    else:
        rows.append(("  newest", "NONE that can be used"))
    if one.fence is not None:
        rows.append(("  fence", f"epoch {one.fence.epoch} belongs to {one.fence.holder}, opened {clock(one.fence.opened_s)}"))
    for replica in one.receipts:
        lag = (
            f"{counted(replica.lag_steps, 'step')}, {duration(replica.lag_s)}, {size(replica.lag_bytes)} behind"
            if replica.lag_bytes
            else "up to date"
        )
        if replica.unusable_newer:
            lag += f", as far as can be told: {counted(replica.unusable_newer, 'newer snapshot')} damaged or lost here"
        rows.append(("  receipt", f"{replica.site} holds step {replica.step}: {lag}"))
    rows += [("  DAMAGE", clean(text)) for text in one.damage]
    return rows


def to_stdout(pieces: Iterable[bytes | memoryview]) -> int:
    """Write bytes as they are. Returns the exit code."""
    out = sys.stdout.buffer
    for piece in pieces:
        out.write(piece)
    out.flush()
    return ExitCode.DONE
