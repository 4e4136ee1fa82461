"""Delay: a line with a delay, for kernels without netem. ``python -m bridgehead.testing.lab.delay``.

Two TUN devices, each in its own network namespace; every packet that one hands over comes out of the other ``--delay`` seconds later.
While the cut file exists packets are thrown away, those on their way too, as on a line that is dug up.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import fcntl
import os
import select
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CLONE_NEWNET: Final = 0x40000000
TUNSETIFF: Final = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU_BYTES: Final = 9000
MAX_QUEUED: Final = 20_000
"""Packets on their way in one direction; more are lost, as in any queue."""
CUT_POLL_S: Final = 0.02


def enter(namespace: Path) -> None:
    """Make a network namespace this process's own. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(namespace, "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(namespace))


def open_tun(device: str) -> int:
    """A descriptor of the TUN device ``device`` of the namespace that this process is in; the device must exist. Raises OSError."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return descriptor


class Way:
    """One direction: packets wait in the order in which they came, since all wait equally long."""

    def __init__(self, into: int, delay_s: float) -> None:
        self._into = into
        self._delay_s = delay_s
        self._queue: collections.deque[tuple[float, bytes]] = collections.deque()

    def take(self, descriptor: int) -> None:
        """Read all packets that are there."""
        due_s = time.monotonic() + self._delay_s
        while True:
            try:
                packet = os.read(descriptor, MTU_BYTES + 100)
            except BlockingIOError:
                return
            if len(self._queue) < MAX_QUEUED:
                self._queue.append((due_s, packet))

    def hand_out(self, now_s: float) -> float | None:
        """Write what is due; seconds until the next is, None when none waits."""
        while self._queue and self._queue[0][0] <= now_s:
            packet = self._queue.popleft()[1]
            try:
                os.write(self._into, packet)
            except OSError:
                continue  # the device is down: lost
        return self._queue[0][0] - now_s if self._queue else None

    def lose_all(self) -> None:
        """Nothing of what is on its way arrives."""
        self._queue.clear()


def relay(ends: tuple[int, int], *, delay_s: float, cut_file: Path) -> None:
    """Hand packets on between the two descriptors, for ever."""
    ways = {ends[0]: Way(ends[1], delay_s), ends[1]: Way(ends[0], delay_s)}
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLIN)
    looked_s, cut = 0.0, False
    while True:
        now_s = time.monotonic()
        if now_s - looked_s >= CUT_POLL_S:
            looked_s, cut = now_s, cut_file.exists()
        if cut:
            for way in ways.values():
                way.lose_all()
        waits = [wait for way in ways.values() if (wait := way.hand_out(now_s)) is not None]
        # A line that is idle looks for its cut now and then; the next packet after a pause sees the file as it is then.
        timeout_s = min([*waits, 10 * CUT_POLL_S])
        for end, _ in poll.poll(max(0.0, timeout_s) * 1000):
            ways[end].take(end)


def main(arguments: Sequence[str] | None = None) -> None:
    """Relay until killed."""
    parser = argparse.ArgumentParser(prog="bridgehead.testing.lab.delay", description=__doc__)
    parser.add_argument("--far", type=Path, required=True, help="file of the namespace with the far device")
    parser.add_argument("--far-device", required=True)
    parser.add_argument("--near", type=Path, required=True, help="file of the namespace with the near device, in which it stays")
    parser.add_argument("--near-device", required=True)
    parser.add_argument("--delay", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--cut-file", type=Path, required=True)
    parser.add_argument("--ready", type=Path, required=True, help="appears when packets are handed on")
    asked = parser.parse_args(arguments)
    enter(asked.far)
    far = open_tun(asked.far_device)
    enter(asked.near)
    near = open_tun(asked.near_device)
    asked.ready.touch()
    relay((far, near), delay_s=asked.delay, cut_file=asked.cut_file)


if __name__ == "__main__":
    main()
