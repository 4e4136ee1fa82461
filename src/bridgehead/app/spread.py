"""Spread: work over several processes, results in the order of the work. For what takes seconds; a start costs some tenths of one."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

if TYPE_CHECKING:
    from concurrent.futures import Future

Work = TypeVar("Work")
Result = TypeVar("Result")

_AHEAD: Final = 3
"""Pieces of work under way for each process: enough to keep it busy, few enough to bound what waits in memory."""
_COLLECT_AFTER: Final = 200_000
"""Objects between two runs of the collector of cycles: values made here hold none, and looking through them took a fifth of the time."""


def processes() -> int:
    """How many may run at once."""
    return len(os.sched_getaffinity(0))


def spread(function: Callable[[Work], Result], work: Iterable[Work], *, jobs: int) -> Iterator[Result]:
    """Results in the order of the work; with one job here, else in so many other processes, which end when this one does.

    Args:
        function: of a module, so that another process can import it.
        jobs: how many processes.

    Raises PORT_PERMANENT when a process is killed, as when memory runs out, and whatever the function raises.
    """
    if jobs <= 1:
        yield from map(function, work)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Fresh interpreters: a fork would copy whatever threads and locks the caller has.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
    waiting: deque[Future[Result]] = deque()
    try:
        for piece in work:
            waiting.append(pool.submit(function, piece))
            if len(waiting) >= _AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise BridgeheadError(
            ErrorCode.PORT_PERMANENT,
            tried="work in several processes",
            subject=f"{jobs} processes",
            happened="one of them was killed",
            remedy="Check whether memory ran out; `--jobs 1` takes the least.",
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def collect_rarely() -> None:
    """For a process that holds a large estate and ends soon."""
    import gc

    gc.set_threshold(_COLLECT_AFTER)


def _begin() -> None:
    import multiprocessing
    import signal

    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this process
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: object) -> None:
    """A parent that was killed cannot say so."""
    parent.join()  # type: ignore[attr-defined]  # multiprocessing gives its class no public name
    os._exit(1)
