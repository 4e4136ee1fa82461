"""Doubts: packs that a verification found damaged, noted for whoever saves next (V22).

    state/damaged/<pack>       without content

A save looks whether a pack is there with the right size, and does not read it. So that it never counts on what is known to be damaged, it
takes a noted pack for missing: blocks that only lie there are written anew when their bytes come by. A note goes when its pack was written
anew, proved intact, or is gone. Notes may be lost; then a save trusts sizes, as before the verification.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import PackId
from bridgehead.ports.blobs import Blobs

DOUBTS_PREFIX: Final = "state/damaged/"


def noted(blobs: Blobs) -> frozenset[PackId]:
    """Packs that were found damaged. One listing."""
    return frozenset(PackId(key.removeprefix(DOUBTS_PREFIX)) for key in blobs.list(DOUBTS_PREFIX))


def note(blobs: Blobs, *, damaged: Iterable[PackId], intact: Iterable[PackId], present: Iterable[PackId]) -> None:
    """Note what was found of the packs that are ``present``. A store that takes no notes is no reason to fail: the report says it all."""
    with contextlib.suppress(PortError):
        old, bad = noted(blobs), frozenset(damaged)
        for pack in bad - old:
            blobs.put_new(f"{DOUBTS_PREFIX}{pack}", b"")
        for pack in old - bad:
            if pack in frozenset(intact) or pack not in frozenset(present):
                forget(blobs, pack)


def forget(blobs: Blobs, pack: PackId) -> None:
    """It is sound. A note that cannot be removed costs a save the space of some blocks, and nothing else."""
    with contextlib.suppress(PortError):
        blobs.delete(f"{DOUBTS_PREFIX}{pack}")
