"""localfs: blobs as files of a directory."""

from bridgehead.drivers.localfs.blobs import LocalBlobs, LocalBlobsOptions

__all__ = ["LocalBlobs", "LocalBlobsOptions"]
