"""One process that uses the vault as a library, as a trainer does; prints a line of JSON for each operation.

Run: python bench/vault_worker.py VAULT OPERATION ...   with OPERATION = init | plain | save:STEP:FOLDER | restore:STEP:FOLDER |
     restore-to-disk:STEP:FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault import Vault

WORKLOAD = WorkloadId("bench")


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def by_class(snapshot: Snapshot) -> dict[str, int]:
    """Stored bytes by the name of the file, each object once."""
    seen: set[str] = set()
    found: dict[str, int] = {}
    for file in snapshot.files:
        for ref in file.blocks:
            if (ref.stored or ref.block) not in seen:
                seen.add(ref.stored or ref.block)
                kind = Path(file.path).stem
                found[kind] = found.get(kind, 0) + (ref.stored_bytes or ref.size_bytes)
    return found


def main() -> None:
    place, operations = sys.argv[1], sys.argv[2:]
    store = LocalBlobs(LocalBlobsOptions(place))
    vault = None if operations[0] in ("init", "plain") else Vault.open(store)
    for operation in operations:
        kind, *rest = operation.split(":", 2)
        if kind in ("init", "plain"):
            vault = Vault.init(store, codec=kind == "init")
            continue
        assert vault is not None
        os.sync()
        cpu_s, began_s = time.process_time(), time.perf_counter()
        line: dict[str, object] = {"operation": kind}
        if kind == "save":
            saved = vault.save(rest[1], workload=WORKLOAD, step=int(rest[0]), epoch=Epoch(0), site=SiteId("a"))
            wall_s = time.perf_counter() - began_s
            line |= {"raw_bytes": saved.raw_bytes, "written_bytes": saved.written_bytes, "stored": by_class(saved.snapshot)}
            line |= {"generation": max((ref.generation for file in saved.snapshot.files for ref in file.blocks), default=0)}
        else:
            vault = Vault.open(store)
            wanted = next(info for info in vault.list(WORKLOAD) if info.step == int(rest[0]))
            vault.restore(SnapshotId(wanted.id), to=rest[1], sync=kind == "restore-to-disk")
            wall_s = time.perf_counter() - began_s
            line |= {"raw_bytes": wanted.raw_bytes}
        line |= {"wall_s": wall_s, "cpu_s": time.process_time() - cpu_s, "rss_bytes": peak_bytes()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
