"""Copies: keeps a site's vault up to date with the other site's, ``python -m bridgehead.app.lab.copies``; what a lab's RPO hangs on.

It stands at the site that gets the copies, and asks again and again: a source that is out of reach is asked again, too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from bridgehead.app.vault_copies import Replication
from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import SiteId
from bridgehead.training import open_vault
from bridgehead.vault import Vault


def copy(source: Vault, target: Vault, site: SiteId) -> list[str]:
    """Bring over all that counts and is not there; what happened, in words. Raises port errors."""
    replication = Replication(source, target, site=site)
    wanted, _ = replication.plan(source.workloads())
    done = replication.run(wanted, say=lambda _: None)
    return [f"copied {name}" for name in done.copied] + [f"FAILED {one.what}: {one.reason}" for one in done.failed]


def main(arguments: Sequence[str] | None = None) -> None:
    """Copy until killed."""
    parser = argparse.ArgumentParser(prog="bridgehead.app.lab.copies", description=main.__doc__)
    parser.add_argument("--source", required=True, help="URL of the other site's vault")
    parser.add_argument("--target", type=Path, required=True, help="directory of this site's vault")
    parser.add_argument("--site", required=True, help="in whose name receipts are given")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two looks")
    asked = parser.parse_args(arguments)
    target, told = open_vault(asked.target), ""
    while True:
        began_s = time.monotonic()
        try:
            said = copy(Vault.open(HttpBlobs(HttpBlobsOptions(url=asked.source, timeout_s=2.0))), target, SiteId(asked.site))
        except BridgeheadError as error:
            said = [str(error)]
        if said and said != [told]:
            print(*(f"{time.time():.3f} {line}" for line in said), sep="\n", flush=True)
            told = said[-1]
        time.sleep(max(0.05, asked.every - (time.monotonic() - began_s)))


if __name__ == "__main__":
    main()
