import pytest

from bridgehead.ports.blobs import Blobs
from bridgehead.testing.blobs_suite import BlobsSuite
from bridgehead.testing.memory_blobs import MemoryBlobs


class TestMemoryBlobs(BlobsSuite):
    @pytest.fixture
    def blobs(self) -> Blobs:
        return MemoryBlobs()

    def reopened(self, blobs: Blobs) -> Blobs:
        return blobs
