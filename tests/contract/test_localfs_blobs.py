from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.blobs_suite import BlobsSuite
from bridgehead.testing.faulty_blobs import FaultyBlobs


class TestLocalBlobs(BlobsSuite):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        self.options = LocalBlobsOptions(str(tmp_path / "new" / "store"))
        return LocalBlobs(self.options)

    def reopened(self, blobs: Blobs) -> Blobs:
        return LocalBlobs(self.options)

    def opening(self, blobs: Blobs) -> str:
        return f"""
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
blobs = LocalBlobs(LocalBlobsOptions({self.options.directory!r}))
"""


class TestFaultyBlobsWithoutFaults(BlobsSuite):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        self.options = LocalBlobsOptions(str(tmp_path))
        return FaultyBlobs(LocalBlobs(self.options))

    def reopened(self, blobs: Blobs) -> Blobs:
        return FaultyBlobs(LocalBlobs(self.options))
