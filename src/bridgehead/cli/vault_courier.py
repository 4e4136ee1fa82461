"""``bridgehead vault courier``: a vault, or what another one lacks of it, on drives that travel by road."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from bridgehead.cli.options import AsOption, HomeOption, JsonOption, who
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import Person, SiteId

app = App(name="courier", help="Ship a vault on drives, any of which may be lost within the parity.")

Folders = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)]


@app.command(name="want")
def want_list(target: str, /, *, to: Path) -> int:
    """Note in a file what the vault TARGET has, so that only the rest is packed for it. Needs no key.

    Args:
        target: a directory, or the address of a store.
        to: the file to write, for `pack --lacking`.
    """
    from bridgehead.app import vault_courier

    data = vault_courier.want(target)
    to.write_bytes(data)
    print(f"{to}: what {target} has; give it to `bridgehead vault courier pack --lacking {to}`")
    return ExitCode.DONE


@app.command
def pack(
    vault: str,
    /,
    *,
    to: Folders,
    parity: int = 1,
    lacking: Path | None = None,
    by: AsOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Write VAULT, as it lies in its store, onto drives. Keys are not packed. Stopped anywhere, the same command goes on.

    Args:
        vault: a directory, or the address of a store.
        to: where the drives are mounted.
        parity: so many of the drives may be lost or damaged.
        lacking: a file of `want`: pack only what that vault lacks.
    """
    from bridgehead.app import vault_courier
    from bridgehead.app.home import Home
    from bridgehead.cli.vault_display import Progress, counted, size

    with Progress("packing") as progress:
        packing = vault_courier.start(vault, to, parity=parity, lacking=lacking, now_s=time.time())
        progress.total_bytes = packing.head.total_bytes
        keys, person = Home(home).keys, Person(who(by))
        done = vault_courier.finish(vault, packing, signer=keys, by=person, now_s=time.time(), moved=progress.moved)
    if json:
        _print({"vault": vault, **msgspec.to_builtins(done)})
        return ExitCode.DONE
    drives = counted(len(done.drives), "drive")
    print(
        f"set {done.set[:8]}: {counted(done.objects, 'object')}, {size(done.total_bytes)}, on {drives}, {done.parity} of which may be lost"
    )
    print(f"root {done.root}, signed with key {done.key_id}; tell both to the receiver by another path")
    if not done.sealed:
        print("note: this vault is not encrypted: whoever holds the drives can read the checkpoints")
    return ExitCode.DONE


@app.command(name="receive")
def receive_set(
    vault: str,
    /,
    *,
    source: Annotated[tuple[str, ...], Parameter(name="--from", consume_multiple=True, negative="")],
    expect: str | None = None,
    site: str | None = None,
    by: AsOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Bring what is on the drives into VAULT, verified, also without its key. Exit code 1: something is lost, or custody is broken.

    Args:
        vault: the vault that receives; `vault init` makes it first.
        source: where the drives are mounted.
        expect: the root that `pack` printed: the set is refused when it has another one.
        site: in whose name receipts are given; default vault- and the begin of its id.
    """
    from bridgehead.app import vault_courier, vaults
    from bridgehead.app.home import Home
    from bridgehead.cli.vault_courier_display import print_arrived
    from bridgehead.cli.vault_display import Progress

    named = SiteId(vaults.checked_name(site, option="--site")) if site else None
    with Progress("receiving") as progress:
        found = vault_courier.open_set(source, expect=expect)
        progress.total_bytes = found.head.total_bytes
        keys, person = Home(home).keys, Person(who(by))
        done = vault_courier.bring(vault, found, signer=keys, by=person, site=named, now_s=time.time(), moved=progress.moved)
    if json:
        _print({"vault": vault, "whole": done.whole, **msgspec.to_builtins(done)})
    else:
        print_arrived(done, vault=vault)
    return ExitCode.DONE if done.whole else ExitCode.NEGATIVE


@app.command
def custody(
    *drives: str,
    sign: str | None = None,
    note: str = "",
    show: Annotated[bool, Parameter(negative="")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Sign for DRIVES at a hand-over, or show and verify who had them; exit code 1 when a chain is broken.

    Args:
        drives: where the drives are mounted.
        sign: who takes them over; signed with the key of this home.
        note: what to note with it: a place, the number of a seal.
        show: show the chains; also without --sign.
    """
    from bridgehead.app import vault_courier
    from bridgehead.app.home import Home
    from bridgehead.cli.vault_courier_display import print_chains

    keys = Home(home).keys
    if sign is not None:
        vault_courier.take_over(drives, by=Person(sign), note=note, signer=keys, now_s=time.time())
    found = vault_courier.chains(drives)
    if json:
        _print([{"set": label.head.id, "number": label.number, **msgspec.to_builtins(chain)} for label, chain in found])
    elif show or sign is None:
        print_chains(found, known=keys.knows)
    else:
        for label, chain in found:
            print(f"{chain.drive}: drive {label.number} of set {label.head.id[:8]}, entry {len(chain.links)} signed by {sign}")
    return ExitCode.NEGATIVE if any(chain.faults for _, chain in found) else ExitCode.DONE


@app.command
def plan(
    *,
    size: str,
    rate: str,
    drives: int,
    drive_size: str,
    write_speed: str,
    read_speed: str | None = None,
    parity: int = 1,
    efficiency: float = 0.8,
    order: str = "4 h",
    transport: str = "12 h",
    handling: str = "0 s",
    verify_speed: str = "16 Gbps",
    json: JsonOption = False,
) -> int:
    """Say when drives on the road beat the network: both times, and where they meet.

    Args:
        size: bytes to move, such as '50 TB'.
        rate: of the link, such as '1 Gbps'.
        drives: how many travel, parity included.
        drive_size: of each.
        write_speed: of each, such as '400 MB/s'.
        read_speed: of each, where it is unloaded; default as it is written.
        parity: so many of the drives hold no data of their own.
        efficiency: share of the link's rate that arrives.
        order: until the drives are there.
        transport: door to door.
        handling: packing, customs, plugging in.
        verify_speed: reading back at the target.
    """
    from bridgehead.app.vaults import usage
    from bridgehead.cli.vault_courier_display import print_plan
    from bridgehead.kernel.quantity import parse, parse_rate
    from bridgehead.kernel.units import Dimension
    from bridgehead.vault.courier.plan import Drives, Road, compare

    write_bps = parse_rate(write_speed)
    read_bps = parse_rate(read_speed) if read_speed is not None else write_bps
    bytes_, each = int(parse(size, Dimension.SIZE)), int(parse(drive_size, Dimension.SIZE))
    rate_bps, verify_bps = parse_rate(rate), parse_rate(verify_speed)
    if min(bytes_, each, write_bps, read_bps, rate_bps, verify_bps, efficiency) <= 0 or not 0 <= parity < drives:
        happened = "sizes, speeds and the efficiency must be above 0, and there must be more drives than parity"
        raise usage("plan a courier", subject="the figures", happened=happened, remedy="Mind --drives and --parity.")
    road = Road(*(parse(text, Dimension.DURATION) for text in (order, transport, handling)))
    fleet = Drives(count=drives, size_bytes=each, write_bytes_per_s=write_bps / 8, read_bytes_per_s=read_bps / 8, parity=parity)
    found = compare(bytes_, fleet, road, rate_bps=rate_bps, efficiency=efficiency, verify_bytes_per_s=verify_bps / 8)
    if json:
        _print(found)
    else:
        print_plan(found, drives=drives)
    return ExitCode.DONE


def _print(document: object) -> None:
    print(msgspec.json.encode(document).decode())
