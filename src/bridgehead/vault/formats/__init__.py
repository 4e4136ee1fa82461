"""Formats: what is inside a file, read with bounds and without trust. Nothing is ever unpickled. One file a format."""

from bridgehead.vault.formats.contents import OPAQUE, Contents, Extent, FileFormat, Reader
from bridgehead.vault.formats.detect import examine
from bridgehead.vault.formats.shardindex import IndexFindings, index_findings

__all__ = ["OPAQUE", "Contents", "Extent", "FileFormat", "IndexFindings", "Reader", "examine", "index_findings"]
