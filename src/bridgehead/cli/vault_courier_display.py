"""How courier sets look in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridgehead.app.vault_courier import Arrived
from bridgehead.cli.vault_display import clean, clock, counted, duration, print_columns, size
from bridgehead.kernel.quantity import format_rate
from bridgehead.vault.courier.custody import Chain
from bridgehead.vault.courier.layout import DriveLabel
from bridgehead.vault.courier.plan import Comparison


def print_arrived(done: Arrived, *, vault: str) -> None:
    """What arrived, what was made up for, what is lost."""
    for fault in done.custody:
        print(f"CUSTODY BROKEN {clean(fault)}")
    for one in done.failed:
        print(f"FAILED {clean(one.key)}: {clean(one.reason)}")
    for number in done.missing:
        print(f"drive {number} is not here; what it held was made up for")
    for number, count in sorted(done.lost_shares.items()):
        print(f"drive {number} ({clean(done.drives.get(number, '?'))}): {counted(count, 'share')} missing or damaged")
    if done.held_back:
        print(f"{counted(done.held_back, 'snapshot record')} held back until all else is there; give more drives, or replicate the rest")
    print(
        f"set {done.set[:8]} in {vault}: {counted(done.written, 'object')} received ({size(done.written_bytes)}), "
        f"{done.present} were there; {counted(done.receipts, 'receipt')}"
    )
    if done.keyless and not done.failed:
        print("verified without a key; `bridgehead vault receipt` gives receipts where the key is")


def print_chains(found: Sequence[tuple[DriveLabel, Chain]], *, known: Callable[[str], bool]) -> None:
    """Who had each drive."""
    for label, chain in found:
        print(f"{chain.drive}: drive {label.number} of {label.head.drives}, set {label.head.id[:8]} of vault {label.head.vault[:8]}")
        rows = []
        for link in chain.links:
            if link.handover is None:
                rows.append((str(link.seq), "?", "?", "?", "?", "unreadable"))
                continue
            key = f"{link.key_id} ({'known' if known(link.key_id) else 'UNKNOWN'})"
            what = link.handover
            rows.append((str(link.seq), what.step.value, clean(what.by), clock(what.at_s), key, clean(what.note) or "-"))
        print_columns(rows, indent="  ")
        for fault in chain.faults:
            print(f"  BROKEN {clean(fault)}")
        if not chain.faults:
            print("  the chain holds")


def print_plan(found: Comparison, *, drives: int) -> None:
    """Both times, and where they meet."""
    courier = found.courier
    parts = f"road {duration(courier.road_s)}, fill {duration(courier.fill_s)}, unload {duration(courier.unload_s)}"
    print_columns(
        [
            ("network", duration(found.network_s), ""),
            ("courier", duration(courier.total_s), f"{parts}, verify {duration(courier.verify_s)}"),
        ]
    )
    if not found.fits:
        print(f"{size(found.size_bytes)} does not fit on {counted(drives, 'drive')}: {found.drives_needed} are needed, parity included")
    print(f"quicker: {'courier' if found.courier_wins else 'network'}")
    meet = size(round(found.break_even_bytes)) if found.break_even_bytes is not None else None
    print(f"at this rate the courier is quicker from {meet} on" if meet else "at this rate the courier never is, with these drives")
    print(f"for this size it is quicker on links below {format_rate(found.break_even_bps, digits=3)}")
