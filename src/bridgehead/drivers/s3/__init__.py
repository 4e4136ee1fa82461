"""s3: blobs as objects of a bucket, through obstore."""

from bridgehead.drivers.s3.blobs import S3Blobs
from bridgehead.drivers.s3.options import S3BlobsOptions

__all__ = ["S3Blobs", "S3BlobsOptions"]
