"""Writing: packs go to the store while blocks go on coming, and not more of them than memory was set aside for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId
from bridgehead.vault.layout import DATA_PREFIX
from bridgehead.vault.objects import Objects
from bridgehead.vault.writing import UPLOADS, Writing, open_writing

BLOCK_BYTES = 1000


class Gated(LocalBlobs):
    """Packs wait at a gate until it is open; after that they fail when ``fails``."""

    def __init__(self, directory: Path) -> None:
        super().__init__(LocalBlobsOptions(directory=str(directory)))
        self.open, self.fails = threading.Event(), False
        self.waiting = threading.Semaphore(0)

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        if key.startswith(DATA_PREFIX):
            self.waiting.release()
            assert self.open.wait(10)
            if self.fails:
                raise Transient("the line is cut", tried="store a value", subject=key, remedy="Wait.")
        return super().put_new(key, data)


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    return Gated(tmp_path)


def objects_on(store: Gated) -> Objects:
    """Whose packs are full with one block."""
    objects = Objects(store)
    objects.pack_bytes = 1
    return objects


def block(number: int) -> tuple[BlockId, bytes]:
    data = number.to_bytes(4, "little") * (BLOCK_BYTES // 4)
    return BlockId(block_hash(data)), data


def store(writing: Writing, numbers: range) -> None:
    for number in numbers:
        name, data = block(number)
        assert writing.store_block(name, (data,))


def test_blocks_go_on_while_packs_are_on_their_way_and_wait_when_those_are_many(gated: Gated) -> None:
    objects = objects_on(gated)
    with ThreadPoolExecutor(1) as pool, open_writing(objects, "save") as writing:
        store(writing, range(UPLOADS + 1))  # so many on their way, and one pack that is open
        one_more = pool.submit(store, writing, range(UPLOADS + 1, UPLOADS + 2))
        with pytest.raises(TimeoutError):
            one_more.result(0.1)
        gated.open.set()
        one_more.result(10)
        writing.flush()
        assert all(objects.holds(block(number)[0], BLOCK_BYTES) for number in range(UPLOADS + 2))


def test_an_upload_that_failed_is_told_to_whoever_stores_next_or_flushes(gated: Gated) -> None:
    gated.fails = True
    gated.open.set()
    with open_writing(objects_on(gated), "save") as writing:
        store(writing, range(2))
        assert gated.waiting.acquire(timeout=10)
        with pytest.raises(Transient, match="the line is cut"):
            store(writing, range(2, 100))
        with pytest.raises(Transient, match="the line is cut"):
            writing.flush()


def test_nothing_is_on_its_way_when_a_save_was_given_up(gated: Gated) -> None:
    def given_up() -> None:
        with open_writing(objects_on(gated), "save") as writing:
            store(writing, range(2))
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(given_up)
        assert gated.waiting.acquire(timeout=10)
        with pytest.raises(TimeoutError):
            saving.exception(0.1)
        gated.open.set()
        assert isinstance(saving.exception(10), KeyboardInterrupt)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("upload")]
