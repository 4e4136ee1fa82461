"""Applications: their databases and their hooks, with drivers that are made when the first one is needed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, assert_never

import msgspec

from bridgehead.app.secrets import secret_value
from bridgehead.kernel.errors import BridgeheadError, Permanent, PortError, Transient
from bridgehead.kernel.ids import SiteId
from bridgehead.model.recovery import Capture, DatabaseEngine, Hook
from bridgehead.model.stamp import Stamp
from bridgehead.ports.captures import Captured
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


class FolderCaptures:
    """Captures into a folder, each in a thread. ``captured.json`` is written last. See ``ports.captures``."""

    def __init__(self) -> None:
        self._running: dict[str, Future[Captured]] = {}

    def capture(self, what: Capture, *, folder: str) -> Captured | None:
        """See the port."""
        done = Path(folder) / "captured.json"
        if done.is_file():
            return msgspec.json.decode(done.read_bytes(), type=Captured)
        if folder not in self._running:
            future: Future[Captured] = Future()
            self._running[folder] = future
            Thread(target=_captured, args=(what, Path(folder), future), name="capture", daemon=True).start()
        if not self._running[folder].done():
            return None
        return self._running.pop(folder).result()

    def drop(self, folder: str) -> None:
        """See the port."""
        shutil.rmtree(folder, ignore_errors=True)


def _captured(what: Capture, folder: Path, future: Future[Captured]) -> None:
    from bridgehead.app.vault_context import CaptureOrder, Capturer

    try:
        data, config = (Path(text) if text else None for text in (what.data, what.config))
        order = CaptureOrder(directory=Path(what.code), data=data, config=config, python=what.python or None, outside=())
        extra = Capturer(order, env={}).capture()
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for number, (path, content) in enumerate(sorted(extra.files.items())):
            file = folder / f"{number}"
            file.write_bytes(content)
            files[path] = str(file)
        found = Captured(files, dict(extra.context))
        (folder / "captured.part").write_bytes(msgspec.json.encode(found))
        (folder / "captured.part").rename(folder / "captured.json")
        future.set_result(found)
    except PortError as error:
        future.set_exception(error)
    except BridgeheadError as error:
        future.set_exception(Permanent(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy))
    except OSError as error:
        future.set_exception(Transient(str(error), tried="capture the context", subject=str(folder)))
