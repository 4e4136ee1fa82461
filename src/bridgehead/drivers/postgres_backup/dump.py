"""Dump: pg_dump of an exported snapshot, as a child that is looked at and not waited for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bridgehead.kernel.errors import Permanent
from bridgehead.model.recovery import Database


class Dump:
    """One pg_dump. It brings the snapshot into a transaction of its own, so it does not need who exported it once it has begun.

    The archive is not compressed: the vault finds what did not change since the last one, and compresses what is new. Raises OSError when
    pg_dump cannot be started.
    """

    def __init__(self, database: Database, *, dump: str, restore: str, snapshot: str, file: Path, password: str) -> None:
        self._database, self._restore, self.file = database, restore, file
        self._said = file.with_suffix(".log")
        self._listed = -1
        command = [dump, "--format=custom", "--compress=0", "--no-password", "--lock-wait-timeout=30s", f"--snapshot={snapshot}"]
        command += [f"--file={file}", f"--dbname={database.location}"]
        env = {**os.environ, **({"PGPASSWORD": password} if password else {})}
        with self._said.open("wb") as said:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env, start_new_session=True)

    @property
    def size_bytes(self) -> int:
        """What is written so far."""
        return self.file.stat().st_size if self.file.exists() else 0

    def is_done(self) -> bool:
        """Whether it has ended well and its archive can be read. Raises Permanent when it failed."""
        code = self._child.poll()
        if code is None:
            return False
        if code:
            raise self._failed(f"pg_dump ended with {code}", self._said.read_bytes())
        if self._listed < 0:
            listed = subprocess.run([self._restore, "--list", str(self.file)], capture_output=True, check=False)
            if listed.returncode:
                raise self._failed("the archive cannot be read back", listed.stderr)
            self._listed = sum(not text.startswith(b";") for text in listed.stdout.splitlines() if text.strip())
        return True

    @property
    def entries(self) -> int:
        """Objects in the archive's table of contents, once it is done."""
        return self._listed

    def end(self) -> None:
        """End it if it runs."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()

    def _failed(self, what: str, said: bytes) -> Permanent:
        lines = [text.strip() for text in said.decode("utf-8", "replace").splitlines() if text.strip()]
        return Permanent(
            f"{what}: {'; '.join(lines[-3:])}", tried="copy a database", subject=self._database.id, remedy="Take the point again."
        )
