"""What the verbs of ``vault`` say of signatures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridgehead.app.vault_signatures import Trust
    from bridgehead.vault import Vault


def keep_signed(vault: Vault) -> None:
    """Have what is saved signed; say so when it cannot be."""
    from bridgehead.app.vault_signatures import sign_as_this_machine

    why_not = sign_as_this_machine(vault)
    if why_not:
        print(f"note: what is saved is not signed ({why_not}); BRIDGEHEAD_HOME names a folder for the key", file=sys.stderr)


def print_trust(found: Trust) -> None:
    """Every snapshot that no trusted key has signed, and how many there are that one has."""
    for one in found.findings:
        what = {
            "unknown-signer": f"signed by {one.signer}, which the list does not name",
            "bad-signature": f"BAD SIGNATURE: {one.happened}",
        }
        print(f"{one.snapshot}: {what.get(one.standing.value, 'unsigned')}")
    print(f"{found.trusted} signed by a key of the list, {len(found.findings)} not")
