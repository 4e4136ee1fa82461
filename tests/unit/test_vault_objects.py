"""Objects: what two operations of one process do to the same pack (M9.1)."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId
from bridgehead.vault.objects import Objects
from bridgehead.vault.packs import OpenPack, read_table
from bridgehead.vault.sealing import Plain

OPEN = OpenPack()
OPEN.add(BlockId(block_hash(b"block")), 5, (b"block",))
PACK, DATA = OPEN.close(Plain())  # which two steps of a run copy at the same time


class SlowLine(LocalBlobs):
    """The first value stays on its way until ``arrive`` is set; puts are counted."""

    def __init__(self, directory: Path, *, fails: bool = False) -> None:
        super().__init__(LocalBlobsOptions(directory=str(directory)))
        self.on_its_way, self.arrive = threading.Event(), threading.Event()
        self.puts = 0
        self._fails = fails

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        self.puts += 1
        if self.puts == 1:
            self.on_its_way.set()
            assert self.arrive.wait(10)
            if self._fails:
                raise Transient("the line is cut", tried="store a value", subject=key, remedy="Wait.")
        return super().put_new(key, data)


def stored_at_once(line: SlowLine) -> list[bool | Exception]:
    """What two threads get that store the same pack while it is on its way."""
    objects = Objects(line)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(objects.put_pack, PACK, DATA)
        assert line.on_its_way.wait(10)
        second = pool.submit(objects.put_pack, PACK, DATA)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        line.arrive.set()
        return [future.exception(10) or future.result() for future in (first, second)]


def test_a_pack_on_its_way_is_not_sent_a_second_time(tmp_path: Path) -> None:
    line = SlowLine(tmp_path)
    assert stored_at_once(line) == [True, False]
    assert line.puts == 1


def test_the_second_sends_a_pack_when_the_first_could_not(tmp_path: Path) -> None:
    line = SlowLine(tmp_path, fails=True)
    first, second = stored_at_once(line)
    assert isinstance(first, Transient)
    assert second is True


def test_a_pack_grows_past_its_first_room_and_holds_every_block() -> None:
    blocks = [os.urandom(size) for size in (0, 1, (1 << 20) - 9, 5 << 20, 37 << 20, 60 << 20)]
    filling = OpenPack()
    for block in blocks:
        filling.add(BlockId(block_hash(block)), len(block), (block,))
    pack, data = filling.close(Plain())
    assert pack.size_bytes == len(data)
    assert pack.id == block_hash(data)
    assert all(data[entry.offset_bytes :][: entry.size_bytes] == block for entry, block in zip(pack.entries, blocks, strict=True))
    assert read_table(pack.id, len(data), lambda at, size: bytes(data[at : at + size]), Plain()) == pack
