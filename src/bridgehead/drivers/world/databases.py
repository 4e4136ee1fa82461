"""Databases and hooks of the simulated world behind their ports (R16)."""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.drivers.world.calls import Calls
from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import SiteId
from bridgehead.model.recovery import Capture, Database, Hook
from bridgehead.model.stamp import Stamp
from bridgehead.ports.captures import Captured
from bridgehead.ports.hooks import HookRun
from bridgehead.ports.quiesce import Copied, Held, HoldKey, Released
from bridgehead.simulate.databases import Application, WorldHold
from bridgehead.simulate.network import EDGE

COPY_BPS = 10_000_000.0


class WorldQuiesce:
    """Implements ``ports.quiesce.Quiesce``. Holds are the world's: they outlive a driver that dies, until their time is over."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def check(self, database: Database) -> dict[str, str]:
        """See the port."""
        return self._calls.read("databases.check", EDGE, lambda: {"size_bytes": str(self._application(database).size_bytes)})

    def hold(self, database: Database, *, key: HoldKey, folder: str, wait_s: float, lasts_s: float) -> Held:
        """See the port."""
        return self._calls.read("databases.hold", EDGE, lambda: self._hold(database, key, wait_s, lasts_s))

    def release(self, database: Database, *, key: HoldKey) -> Released:
        """See the port."""
        return self._calls.read("databases.release", EDGE, lambda: self._release(database, key))

    def copy(self, database: Database, *, key: HoldKey) -> Copied:
        """See the port."""
        return self._calls.read("databases.copy", EDGE, lambda: self._copy(database, key))

    def drop(self, database: Database, *, key: HoldKey) -> None:
        """See the port."""
        self._calls.read("databases.drop", EDGE, lambda: self._drop(database, key))

    def _hold(self, database: Database, key: HoldKey, wait_s: float, lasts_s: float) -> Held:
        world, application = self._calls.world, self._application(database)
        known = world.databases.holds.get(_name(database, key))
        if known is None or not known.holds(world.now_s):
            waited_s = max(0.0, application.busy_until_s - world.now_s)
            self._calls.spend(min(wait_s, waited_s))
            if waited_s > wait_s:
                raise Transient("somebody writes all the time", tried="hold a database", subject=database.id)
            pinned = world.databases.written(application, world.now_s)
            known = WorldHold(database.location, world.now_s, world.now_s + waited_s + lasts_s, pinned)
            world.databases.holds[_name(database, key)] = known
        return Held(pinned=True, evidence={"written": str(known.pinned)})

    def _release(self, database: Database, key: HoldKey) -> Released:
        now_s, hold = self._calls.world.now_s, self._calls.world.databases.holds.get(_name(database, key))
        if hold is None or not hold.holds(now_s):
            return Released(intact=False, held_s=0.0)
        self._calls.world.databases.written(self._application(database), now_s)
        hold.released_s = now_s
        return Released(intact=True, held_s=now_s - hold.began_s)

    def _copy(self, database: Database, key: HoldKey) -> Copied:
        world, hold = self._calls.world, self._calls.world.databases.holds.get(_name(database, key))
        if hold is None:
            raise NotFound("its state is not pinned", tried="copy a database", subject=database.id)
        size_bytes = self._application(database).size_bytes
        if hold.copy_ends_s is None:
            hold.copy_ends_s = world.now_s + size_bytes / COPY_BPS
        done, file = world.now_s >= hold.copy_ends_s, f"{_name(database, key)}.copy"
        if done:
            world.databases.copies[file], world.databases.pinned[file] = size_bytes, hold.pinned
        return Copied(done, file, size_bytes if done else 0, {"written": str(hold.pinned)} if done else {})

    def _drop(self, database: Database, key: HoldKey) -> None:
        world = self._calls.world
        hold = world.databases.holds.get(_name(database, key))
        if hold is not None:
            world.databases.written(self._application(database), world.now_s)
            del world.databases.holds[_name(database, key)]

    def _application(self, database: Database) -> Application:
        found = self._calls.world.databases.of(database.location)
        if found is None:
            raise NotFound("there is no such database", tried="find a database", subject=f"{database.id} ({database.location})")
        return found


class WorldHooks:
    """Implements ``ports.hooks.Hooks``: each takes ``takes_s``, and fails when it is among ``failing``; ``begun`` notes each beginning."""

    def __init__(self, calls: Calls, *, takes_s: float = 0.5, failing: Mapping[str, str] | None = None) -> None:
        self._calls = calls
        self._takes_s = takes_s
        self._failing = failing or {}
        self._ends_s: dict[tuple[str, str, str, int], float] = {}
        self._well: dict[tuple[str, str], HookRun] = {}
        self.begun: list[str] = []

    def run(self, hook: Hook, *, site: SiteId, folder: str, env: dict[str, str], stamp: Stamp) -> HookRun | None:
        """See the port."""
        return self._calls.write("hooks.run", site, lambda: self._run(hook, folder, stamp), stamp=stamp, place=f"hooks@{folder}")

    def _run(self, hook: Hook, folder: str, stamp: Stamp) -> HookRun | None:
        now_s, well = self._calls.world.now_s, (folder, f"{hook.at.value}.{hook.id}")
        if well in self._well:
            return self._well[well]
        mine = (*well, stamp.step, stamp.attempt)
        if mine not in self._ends_s:
            self._ends_s[mine] = now_s + min(self._takes_s, hook.timeout_s)
            self.begun.append(hook.id)
        if now_s < self._ends_s[mine]:
            return None
        late, happened = self._takes_s > hook.timeout_s, self._failing.get(hook.id, "")
        code = None if late else 1 if happened else 0
        text = f"no end is known within {hook.timeout_s:g} s" if late else happened
        run = HookRun(code, text, "", "", self._ends_s[mine] - self._takes_s, min(self._takes_s, hook.timeout_s))
        if run.well:
            self._well[well] = run
        return run


class WorldCaptures:
    """Implements ``ports.captures.Captures``: there is neither code nor data in the world, and nothing to wait for."""

    def capture(self, what: Capture, *, folder: str) -> Captured | None:
        """See the port."""
        return Captured({}, {"code": what.code})

    def drop(self, folder: str) -> None:
        """See the port."""


def _name(database: Database, key: HoldKey) -> str:
    return f"{database.id}/{key}"
