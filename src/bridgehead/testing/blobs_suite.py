"""Conformance suite of the blobs port (J01, V20, V21). A driver inherits the class and overrides the fixture.

Call ``pytest.register_assert_rewrite("bridgehead.testing.blobs_suite")`` in a ``conftest.py`` to see values in failed assertions.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import BlobDigest, Blobs

LARGE_BYTES: Final = 72 << 20
"""More than what a driver sends in one piece."""
_WRITER: Final = """
import sys
{opening}
from bridgehead.testing.blobs_suite import large_value
key, value = large_value()
print("writing", flush=True)
blobs.put_new(key, value)
print("written", flush=True)
"""

BAD_KEYS = ("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a b", "a\n", "ä", "a\\b", "a~", "a\0b")


def large_value() -> tuple[str, bytes]:
    """A value of ``LARGE_BYTES``, and a key that ends with its hash, as packs have it."""
    value = bytes(index & 0xFF for index in range(251)) * (LARGE_BYTES // 251) + b"end"
    return f"large/{block_hash(value)}", value


class BlobsSuite:
    """What every blob store must do."""

    @pytest.fixture
    def blobs(self) -> Blobs:
        """An empty store."""
        raise NotImplementedError

    def reopened(self, blobs: Blobs) -> Blobs | None:
        """The same store as another process sees it; None where that cannot be had."""
        return None

    def opening(self, blobs: Blobs) -> str:
        """Python lines that open the same store in another process as ``blobs``, to be killed there; empty where that cannot be had."""
        return ""

    def test_large_value_that_is_named_by_its_hash(self, blobs: Blobs) -> None:
        """As a pack: written once, read back, and left alone when it comes again."""
        key, value = large_value()
        assert blobs.put_new(key, memoryview(value)) is True
        assert blobs.digest(key) == BlobDigest(key.rpartition("/")[2], len(value))
        assert blobs.get_range(key, len(value) - 3, 3) == b"end"
        assert blobs.put_new(key, value) is False
        assert list(blobs.list("")) == [key]

    def test_V23_large_value_whose_writer_is_killed_is_there_whole_or_not_at_all(self, blobs: Blobs) -> None:
        """SIGKILL at several moments; whoever comes next writes it whole."""
        key, value = large_value()
        opening = self.opening(blobs)
        if not opening:
            pytest.skip("this store cannot be opened by another process")
        blobs.put_new("small", b"of an earlier writer")
        cut_off = 0
        for pause_s in (0.0, 0.02, 0.1, 0.3):
            with subprocess.Popen(
                [sys.executable, "-c", _WRITER.format(opening=opening)], stdout=subprocess.PIPE, env=dict(os.environ)
            ) as writer:
                assert writer.stdout is not None
                assert writer.stdout.readline() == b"writing\n"
                time.sleep(pause_s)  # the moment of death is what varies
                writer.send_signal(signal.SIGKILL)
                written = writer.stdout.read() == b"written\n"
            assert blobs.size(key) in ((len(value),) if written else (None, len(value)))
            cut_off += not written
            blobs.delete(key)
        assert cut_off, "no writer was killed in the middle"
        assert blobs.put_new(key, value) is True
        assert blobs.digest(key).blake3 == key.rpartition("/")[2]

    def test_value_is_read_back_as_it_was_written(self, blobs: Blobs) -> None:
        """All lengths, from nothing to several megabytes."""
        for length in (0, 1, 4095, 4096, 5_000_001):
            value = bytes(index & 0xFF for index in range(251)) * (length // 251 + 1)
            assert blobs.put_new(f"lengths/{length}", value[:length])
            assert blobs.get(f"lengths/{length}") == value[:length]
            assert blobs.size(f"lengths/{length}") == length
            assert blobs.digest(f"lengths/{length}") == BlobDigest(block_hash(value[:length]), length)

    def test_a_part_of_a_value(self, blobs: Blobs) -> None:
        """Cut off where the value ends, without an error."""
        value = bytes(index & 0xFF for index in range(251)) * 4000
        blobs.put_new("parts/whole", value)
        for offset, size in ((0, 1), (0, len(value)), (999, 100_000), (len(value) - 1, 1), (len(value) - 1, 2), (len(value), 1), (5, 0)):
            assert blobs.get_range("parts/whole", offset, size) == value[offset : offset + size]
        with pytest.raises(NotFound):
            blobs.get_range("parts/absent", 0, 1)

    def test_memoryview_is_written_like_bytes(self, blobs: Blobs) -> None:
        """A slice of a buffer, without a copy."""
        assert blobs.put_new("view", memoryview(bytearray(b"0123456789"))[2:5])
        assert blobs.get("view") == b"234"

    def test_write_is_create_only(self, blobs: Blobs) -> None:
        """The first value stays."""
        assert blobs.put_new("a/b", b"first") is True
        assert blobs.put_new("a/b", b"second, longer") is False
        assert blobs.get("a/b") == b"first"
        assert blobs.size("a/b") == len(b"first")

    def test_of_many_writers_one_wins(self, blobs: Blobs) -> None:
        """V21: also when all write in the same moment."""
        values = [bytes([index]) * 10_000 for index in range(16)]
        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(lambda value: blobs.put_new("race/key", value), values))
        assert won.count(True) == 1
        assert blobs.get("race/key") == values[won.index(True)]
        assert list(blobs.list("")) == ["race/key"]

    def test_missing_key(self, blobs: Blobs) -> None:
        """The three ways to look for what is not there."""
        blobs.put_new("folder/present", b"x")
        for key in ("absent", "folder/absent", "folder", "folder/present/below"):
            with pytest.raises(NotFound):
                blobs.get(key)
            assert blobs.size(key) is None
        assert list(blobs.list("absent/")) == []

    def test_listing_is_sorted_and_keeps_to_its_folder(self, blobs: Blobs) -> None:
        """Sorted as whole keys, not folder by folder."""
        keys = ["a", "b/a", "b/c/d", "b-b", "b.b", "bb/a", "c/z@1.0-x+y_z"]
        for key in reversed(keys):
            blobs.put_new(key, key.encode())
        assert list(blobs.list("")) == sorted(keys)
        assert list(blobs.list("b/")) == ["b/a", "b/c/d"]
        assert list(blobs.list("b/c/")) == ["b/c/d"]

    def test_delete(self, blobs: Blobs) -> None:
        """Gone at once, quiet when absent, and the key is free again."""
        blobs.put_new("a/b", b"first")
        blobs.delete("a/b")
        blobs.delete("a/b")
        blobs.delete("never/there")
        assert blobs.size("a/b") is None
        assert list(blobs.list("")) == []
        assert blobs.put_new("a/b", b"second") is True
        assert blobs.get("a/b") == b"second"

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_key_outside_the_alphabet_is_refused(self, blobs: Blobs, key: str) -> None:
        """No way out of the store by a key."""
        with pytest.raises(Permanent):
            blobs.put_new(key, b"x")
        with pytest.raises(Permanent):
            blobs.get(key)
        with pytest.raises(Permanent):
            blobs.size(key)
        with pytest.raises(Permanent):
            blobs.delete(key)

    def test_other_process_sees_the_same(self, blobs: Blobs) -> None:
        """What a write returned from is there for everybody."""
        blobs.put_new("a/b", b"value")
        other = self.reopened(blobs)
        if other is None:
            pytest.skip("this store cannot be opened twice")
        assert list(other.list("")) == ["a/b"]
        assert other.get("a/b") == b"value"
        assert other.put_new("a/b", b"other") is False
        assert other.put_new("a/c", b"new") is True
        assert blobs.get("a/c") == b"new"
