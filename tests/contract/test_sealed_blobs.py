from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.blobs_suite import BlobsSuite
from bridgehead.vault.crypt.ring import KeyRing, RingCipher, new_root
from bridgehead.vault.crypt.sealed import SealedBlobs


class TestSealedBlobs(BlobsSuite):
    """A store of which nobody without the key can read anything keeps the same contract."""

    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        self.ring, self.folder = KeyRing([new_root(now_s=1.0)]), str(tmp_path / "store")
        return self._open()

    def reopened(self, blobs: Blobs) -> Blobs:
        return self._open()

    def _open(self) -> SealedBlobs:
        inner = LocalBlobs(LocalBlobsOptions(self.folder))
        return SealedBlobs(inner, cipher=RingCipher(self.ring, "records"), names_key=self.ring.names_key)
