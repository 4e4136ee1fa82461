"""Applications: their databases and their hooks, with drivers that are made when the first one is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, assert_never

from bridgehead.app.secrets import secret_value
from bridgehead.kernel.ids import SiteId
from bridgehead.model.recovery import DatabaseEngine, Hook
from bridgehead.model.stamp import Stamp
from bridgehead.ports.hooks import HookRun
from bridgehead.ports.quiesce import Quiesce

if TYPE_CHECKING:
    from bridgehead.drivers.hooks import ShellHooks
    from bridgehead.ports.shell import Shell


class Databases(Mapping[DatabaseEngine, Quiesce]):
    """The driver of each engine. Holds live in it: one for a run."""

    def __init__(self) -> None:
        self._made: dict[DatabaseEngine, Quiesce] = {}

    def __getitem__(self, engine: DatabaseEngine) -> Quiesce:
        if engine not in self._made:
            self._made[engine] = _driver(engine)
        return self._made[engine]

    def __contains__(self, engine: object) -> bool:
        return isinstance(engine, DatabaseEngine)

    def __iter__(self) -> Iterator[DatabaseEngine]:
        return iter(DatabaseEngine)

    def __len__(self) -> int:
        return len(DatabaseEngine)


def _driver(engine: DatabaseEngine) -> Quiesce:
    match engine:
        case DatabaseEngine.POSTGRES:
            from bridgehead.drivers.postgres_backup import PostgresQuiesce

            return PostgresQuiesce(secret=secret_value)
        case DatabaseEngine.SQLITE:
            from bridgehead.drivers.sqlite_backup import SqliteQuiesce

            return SqliteQuiesce()
        case _:
            assert_never(engine)


class SiteHooks:
    """Hooks of each site, through its shell; of a site without one, on this machine. See ``ports.hooks``."""

    def __init__(self, shells: Mapping[SiteId, Callable[[], Shell]]) -> None:
        self._shells = shells

    def run(self, hook: Hook, *, site: SiteId, folder: str, env: dict[str, str], stamp: Stamp) -> HookRun | None:
        """See the port."""
        return self._hooks.run(hook, site=site, folder=folder, env=env, stamp=stamp)

    @cached_property
    def _hooks(self) -> ShellHooks:
        from bridgehead.drivers.hooks import ShellHooks
        from bridgehead.drivers.shell import LocalShell

        return ShellHooks({site: make() for site, make in self._shells.items()}, elsewhere=LocalShell)
