"""Writing: blocks are put into packs, packs are stored, the index says what lies where; then records may be committed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import BlockRef, Snapshot
from bridgehead.vault.objects import Objects
from bridgehead.vault.packs import OpenPack, Pack
from bridgehead.vault.sealing import Parts
from bridgehead.vault.sessions import Session, open_session
from bridgehead.vault.snapshots import blocks_of

UPLOADS: Final = 2
"""Full packs that are on their way at once."""
INDEXED_EVERY: Final = 8
"""After so many packs the index is written, so that a save that is killed later does not write them again."""


@contextmanager
def open_writing(objects: Objects, what: str) -> Iterator[Writing]:
    """For one save. See ``sessions.open_session`` for the errors."""
    with open_session(objects, what) as session:
        objects.index.refresh()
        objects.heed_doubts()
        writing = Writing(objects, session)
        try:
            yield writing
        finally:
            writing.close()


class Writing:
    """Made by ``open_writing``. Safe for threads. Nothing is durable before ``flush``."""

    def __init__(self, objects: Objects, session: Session) -> None:
        self._objects = objects
        self._session = session
        self._lock = threading.Lock()
        self._room = threading.Semaphore(UPLOADS)
        self._uploader = ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload")
        self._uploads: list[Future[None]] = []
        self._open = OpenPack()
        self._taken: set[BlockId] = set()
        self._closed: list[Pack] = []

    def holds(self, block: BlockId, size_bytes: int) -> bool:
        """Whether the vault has a block, encoded or not, under the hash of what it stores."""
        return self._objects.holds(block, size_bytes)

    def store_block(self, block: BlockId, data: Parts) -> bool:
        """True when it had to be put into a pack, False when the vault has it (deduplication)."""
        size_bytes = sum(map(len, data))
        if self._objects.holds(block, size_bytes):
            return False
        with self._lock:
            if block in self._taken:
                return False
            self._taken.add(block)
        sealed = self._objects.cipher.seal_parts(data, label=block)
        while True:
            with self._lock:
                if self._open.size_bytes < self._objects.pack_bytes:
                    self._open.add(block, size_bytes, sealed)
                    return True
            self._send()

    def lacking(self, snapshot: Snapshot) -> list[BlockRef]:
        """What a snapshot needs and the vault has not. See ``Objects.lacking``."""
        return self._objects.lacking(blocks_of(snapshot))

    def flush(self) -> None:
        """On return all blocks are durable, and the index knows them. Raises what the upload of any pack raised."""
        with self._lock:
            last, self._open = self._open, OpenPack()
        if last.size_bytes:
            self._upload(last)
        self._await(unfinished=True)
        self._write_index(1)

    def close(self) -> None:
        """No upload is left behind, whatever happened."""
        self._uploader.shutdown()

    def _send(self) -> None:
        """Have the open pack uploaded when it is full; others go on meanwhile. It is taken away when there is room for it, so that few are
        in memory. Raises what an earlier upload raised."""
        self._await(unfinished=False)
        self._room.acquire()
        with self._lock:
            if self._open.size_bytes < self._objects.pack_bytes:
                self._room.release()
                return
            full, self._open = self._open, OpenPack()
            upload = self._uploader.submit(self._upload, full)
            upload.add_done_callback(lambda _: self._room.release())
            self._uploads.append(upload)

    def _await(self, *, unfinished: bool) -> None:
        with self._lock:
            ended = [upload for upload in self._uploads if unfinished or upload.done()]
            self._uploads = [upload for upload in self._uploads if upload not in ended]
        for upload in ended:
            upload.result()

    def _upload(self, full: OpenPack) -> None:
        pack, data = full.close(self._objects.cipher)
        self._objects.put_pack(pack, data)
        with self._lock:
            self._closed.append(pack)
        self._write_index(INDEXED_EVERY)

    def _write_index(self, at_least: int) -> None:
        with self._lock:
            packs = self._closed if len(self._closed) >= at_least else []
            if packs:
                self._closed = []
        if packs:
            self._objects.index.add(packs)

    def commit(self, key: str, record: bytes) -> bool:
        """See ``Session.commit``. Raises Conflict when this writer was set aside."""
        self.flush()
        return self._session.commit(key, record)
