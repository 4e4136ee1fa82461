"""Bank: transfers between two databases of PostgreSQL, committed in both before the next one begins: what both hold never changes."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

START = 1000


class Bank:
    """A context manager: writers work inside of it, and have ended after it.

    Args:
        urls: of the two databases.
        tellers: writers at a time, each with an account of its own in both.
        both_ways: half of them write to the second database first.

    Attributes:
        transfers: how many were committed.
        longest_s: the longest time between two commits of one teller.
    """

    def __init__(self, urls: tuple[str, str], *, tellers: int = 4, both_ways: bool = False, pause_s: float = 0.002) -> None:
        self._urls, self._tellers, self._both_ways, self._pause_s = urls, tellers, both_ways, pause_s
        self.transfers = 0
        self.longest_s = 0.0
        self.trouble: list[str] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(tellers)]
        for url in urls:
            with _connect(url) as db:
                db.execute("CREATE TABLE accounts (teller int PRIMARY KEY, amount bigint NOT NULL)")
                db.execute("CREATE TABLE moves (teller int, amount bigint)")
                for number in range(tellers):
                    db.execute("INSERT INTO accounts VALUES (%s, %s)", (number, START))

    @property
    def total(self) -> int:
        """What both databases hold together."""
        return 2 * START * self._tellers

    def __enter__(self) -> Bank:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        try:
            with _connect(self._urls[0]) as first, _connect(self._urls[1]) as second:
                order = [(first, -1), (second, 1)]
                if self._both_ways and number % 2:
                    order.reverse()
                last_s = time.monotonic()
                while not self._over.wait(self._pause_s):
                    self._transfer(number, order)
                    now_s = time.monotonic()
                    with self._lock:
                        self.transfers += 1
                        self.longest_s = max(self.longest_s, now_s - last_s)
                    last_s = now_s
        except Exception as error:  # the test looks at it
            self.trouble.append(f"teller {number}: {error}")

    def _transfer(self, number: int, order: list[tuple[psycopg.Connection[Any], int]]) -> None:
        amount = 1 + self.transfers % 7
        for db, sign in order:
            db.execute("BEGIN")
            db.execute("UPDATE accounts SET amount = amount + %s WHERE teller = %s", (sign * amount, number))
            db.execute("INSERT INTO moves VALUES (%s, %s)", (number, sign * amount))
        for db, _ in order:
            db.execute("COMMIT")


def _connect(url: str) -> psycopg.Connection[Any]:
    import psycopg

    return psycopg.connect(url, autocommit=True)
