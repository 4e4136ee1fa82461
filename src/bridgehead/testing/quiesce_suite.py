"""Conformance suite of the quiesce port (R16). A driver inherits the class and gives a rig, which is the application that writes.

Call ``pytest.register_assert_rewrite("bridgehead.testing.quiesce_suite")`` in a ``conftest.py`` to see values in failed assertions.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.model.recovery import Database
from bridgehead.ports.quiesce import Copied, Held, HoldKey, Quiesce

KEY, OTHER = HoldKey("run/pin/1"), HoldKey("run/pin/2")
LASTS_S = 20.0


class QuiesceRig:
    """The outside of one database, which begins with no rows."""

    database: Database
    missing: Database

    def driver(self) -> Quiesce:
        """A driver that shares no memory with others."""
        raise NotImplementedError

    def write(self) -> bool:
        """Commit one row; False when writers are made to wait (the row is not written then, also not later)."""
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[None] | None:
        """Inside of it a transaction has written a row that it commits at the end. Optional."""
        return None

    def rows(self, copied: Copied) -> int:
        """How many rows a copy has."""
        raise NotImplementedError

    def made(self) -> str:
        """Python that makes the driver and the database of this rig in another process: ``driver, database = ...``. Optional."""
        return ""

    def advance(self, seconds_s: float) -> None:
        """Let time pass."""
        time.sleep(seconds_s)


SCRIPT = """
{made}
held = driver.hold(database, key="k", folder={folder!r}, wait_s=5.0, lasts_s={lasts_s})
print("held", flush=True)
input()
print(driver.release(database, key="k").intact, flush=True)
driver.drop(database, key="k")
"""


class QuiesceSuite:
    """What every driver of the quiesce port must do."""

    @pytest.fixture
    def rig(self, tmp_path: Path) -> QuiesceRig:
        """One database."""
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        """Where copies lie."""
        return str(tmp_path / "copies")

    def held(
        self, rig: QuiesceRig, driver: Quiesce, folder: str, *, key: HoldKey = KEY, lasts_s: float = LASTS_S, wait_s: float = 1.0
    ) -> Held:
        """Hold, and wait until the state is pinned."""
        found = driver.hold(rig.database, key=key, folder=folder, wait_s=wait_s, lasts_s=lasts_s)
        for _ in range(500):
            if found.pinned:
                return found
            rig.advance(0.02)
            found = driver.hold(rig.database, key=key, folder=folder, wait_s=wait_s, lasts_s=lasts_s)
        raise AssertionError("the state is not pinned")

    def copied(self, rig: QuiesceRig, driver: Quiesce, *, key: HoldKey = KEY) -> Copied:
        """Copy to the end."""
        for _ in range(500):
            found = driver.copy(rig.database, key=key)
            if found.done:
                return found
            rig.advance(0.02)
        raise AssertionError("the copy does not end")

    def test_R16_what_is_pinned_is_copied_while_writers_go_on(self, rig: QuiesceRig, folder: str) -> None:
        """Nobody writes between hold and release; what is written after it is not in the copy."""
        driver = rig.driver()
        assert rig.write()
        assert rig.write()
        held = self.held(rig, driver, folder)
        assert held.evidence
        assert not rig.write()
        released = driver.release(rig.database, key=KEY)
        assert released.intact
        assert 0 < released.held_s < LASTS_S
        assert rig.write()
        copy = self.copied(rig, driver)
        assert rig.rows(copy) == 2
        assert copy.size_bytes > 0
        assert driver.copy(rig.database, key=KEY) == copy
        driver.drop(rig.database, key=KEY)

    def test_a_repeat_of_a_hold_is_the_same_hold(self, rig: QuiesceRig, folder: str) -> None:
        """Nothing is pinned anew, and one release ends it."""
        driver = rig.driver()
        assert rig.write()
        first = self.held(rig, driver, folder)
        assert self.held(rig, driver, folder) == first
        assert driver.release(rig.database, key=KEY).intact
        assert rig.write()
        assert rig.rows(self.copied(rig, driver)) == 1
        driver.drop(rig.database, key=KEY)

    def test_who_writes_is_waited_for(self, rig: QuiesceRig, folder: str) -> None:
        """Longer than that it is Transient, and nothing is held."""
        driver, writer = rig.driver(), rig.writing()
        if writer is None:
            pytest.skip("this rig has no writer that takes long")
        with writer:
            with pytest.raises(Transient):
                driver.hold(rig.database, key=KEY, folder=folder, wait_s=0.2, lasts_s=LASTS_S)
            assert not driver.release(rig.database, key=KEY).intact
        assert rig.write()
        self.held(rig, driver, folder)
        driver.release(rig.database, key=KEY)
        assert rig.rows(self.copied(rig, driver)) == 2
        driver.drop(rig.database, key=KEY)

    def test_a_hold_ends_by_itself(self, rig: QuiesceRig, folder: str) -> None:
        """And a release says that it did, so that nobody believes the point."""
        driver = rig.driver()
        self.held(rig, driver, folder, lasts_s=0.4)
        assert not rig.write()
        for _ in range(100):
            rig.advance(0.05)
            if rig.write():
                break
        else:
            raise AssertionError("the hold does not end")
        assert not driver.release(rig.database, key=KEY).intact
        driver.drop(rig.database, key=KEY)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
    def test_R16_a_process_that_is_dead_or_frozen_holds_nobody_for_longer(
        self, rig: QuiesceRig, folder: str, number: signal.Signals
    ) -> None:
        """kill -9 ends the hold at once, and a process that stands still has it for ``lasts_s``; when it wakes up, it knows."""
        if not rig.made():
            pytest.skip("this driver has no process of its own")
        script = SCRIPT.format(made=rig.made(), folder=folder, lasts_s=LASTS_S if number is signal.SIGKILL else 1.0)
        process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            process.send_signal(number)
            began_s = time.monotonic()
            while not rig.write():
                assert time.monotonic() - began_s < 8.0
            if number is signal.SIGSTOP:
                process.send_signal(signal.SIGCONT)
                said, _ = process.communicate(b"\n", timeout=20)
                assert said == b"False\n"
        finally:
            process.kill()
            process.communicate()

    def test_drop_ends_everything(self, rig: QuiesceRig, folder: str) -> None:
        """Also in the middle; a repeat does nothing, and another hold is as good as the first."""
        driver = rig.driver()
        self.held(rig, driver, folder)
        driver.drop(rig.database, key=KEY)
        driver.drop(rig.database, key=KEY)
        assert rig.write()
        with pytest.raises(NotFound):
            driver.copy(rig.database, key=KEY)
        self.held(rig, driver, folder, key=OTHER)
        driver.release(rig.database, key=OTHER)
        self.copied(rig, driver, key=OTHER)
        driver.drop(rig.database, key=OTHER)
        assert not [path for path in Path(folder).rglob("*") if path.is_file()]

    def test_what_was_never_held_is_neither_released_nor_copied(self, rig: QuiesceRig) -> None:
        """Nothing breaks either."""
        driver = rig.driver()
        assert not driver.release(rig.database, key=KEY).intact
        with pytest.raises(NotFound):
            driver.copy(rig.database, key=KEY)
        driver.drop(rig.database, key=KEY)

    def test_check_disturbs_nobody(self, rig: QuiesceRig) -> None:
        """It says what is there."""
        assert rig.driver().check(rig.database)
        assert rig.write()

    def test_a_database_that_is_not_there_is_not_found(self, rig: QuiesceRig, folder: str) -> None:
        """By check and by hold; it is not made either."""
        for _ in range(2):
            with pytest.raises(NotFound):
                rig.driver().check(rig.missing)
            with pytest.raises(NotFound):
                rig.driver().hold(rig.missing, key=KEY, folder=folder, wait_s=0.2, lasts_s=LASTS_S)
