"""Board: where observers leave word for each other: in the witness's vault, or, without one, in the home folder of this machine (J03).

state/watch/<observer>/<milliseconds>            the last bulletin of each observer
state/watch-evidence/<site>/<milliseconds>       what people and out-of-band readings say of a loss; kept until it is taken back
"""

from __future__ import annotations

import contextlib
from typing import Final

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import SiteId
from bridgehead.recovery.watch.board import Bulletin
from bridgehead.recovery.watch.liveness import Evidence
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged

BULLETINS: Final = "state/watch/"
EVIDENCE: Final = "state/watch-evidence/"


class Board:
    """One board. Methods raise port errors when it is out of reach."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def post(self, bulletin: Bulletin) -> None:
        """Leave word, and remove the last one."""
        prefix = f"{BULLETINS}{bulletin.observer}/"
        key = f"{prefix}{round(bulletin.written_s * 1000):015d}"
        before = [one for one in self._objects.blobs.list(prefix) if one != key]
        self._objects.add(key, bulletin)
        for one in before:
            self._objects.blobs.delete(one)

    def read(self, *, but: str) -> list[Bulletin]:
        """The last bulletin of each other observer."""
        newest: dict[str, Bulletin] = {}
        for key in self._objects.blobs.list(BULLETINS):
            with contextlib.suppress(NotFound, Damaged):  # replaced in between, or torn: the next one comes
                found = self._objects.record(key, Bulletin)
                if found.observer != but:
                    newest[found.observer] = found
        return list(newest.values())

    def declare(self, evidence: Evidence) -> None:
        """Put evidence of a loss up."""
        self._objects.add(f"{EVIDENCE}{evidence.site}/{round(evidence.at_s * 1000):015d}", evidence)

    def withdraw(self, site: SiteId) -> int:
        """Take all evidence of a loss back; returns how much there was."""
        keys = list(self._objects.blobs.list(f"{EVIDENCE}{site}/"))
        for key in keys:
            self._objects.blobs.delete(key)
        return len(keys)

    def evidence(self) -> list[Evidence]:
        """All that is up. What is damaged is passed over: no site is lost by a torn record."""
        found = []
        for key in self._objects.blobs.list(EVIDENCE):
            with contextlib.suppress(NotFound, Damaged):
                found.append(self._objects.record(key, Evidence))
        return found
