"""The tools that the vault is measured beside: each makes a repository, saves a folder into it and restores it, as commands do.

Every command is a process of its own; its wall time, the CPU time of all its processes and its peak memory are the kernel's. What the disk
still has to write from before is written first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
BRIDGEHEAD = [sys.executable, "-m", "bridgehead.cli.main", "vault"]
PASSWORD = "bench bench bench"


@dataclass(frozen=True)
class Cost:
    """Of one operation on ``raw_bytes``."""

    raw_bytes: int
    wall_s: float
    cpu_s: float
    rss_bytes: int

    @property
    def mb_s(self) -> float:
        return self.raw_bytes / self.wall_s / 1e6


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def run(*command: object, at: Path, raw_bytes: int = 0, environment: Mapping[str, str] | None = None) -> Cost:
    """Run to the end. Raises when it fails."""
    os.sync()
    words = [str(word) for word in command]
    began = time.perf_counter()
    process = subprocess.Popen(
        words, cwd=at, env=os.environ | (environment or {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{said}")
    return Cost(raw_bytes, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KIB)


class Tool:
    """``keeps``: a repository that knows earlier saves."""

    name = ""
    encrypts = False
    keeps = True

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment: Mapping[str, str] = {}

    def fork(self, repository: Path, to: Path) -> None:
        """A second repository that holds and knows what the first one does."""
        shutil.copytree(repository, to)

    def drop(self, repository: Path) -> None:
        shutil.rmtree(repository)

    def make(self, repository: Path) -> None:
        raise NotImplementedError

    def save(self, repository: Path, folder: Path, name: str) -> Cost:
        raise NotImplementedError

    def restore(self, repository: Path, name: str, to: Path, raw_bytes: int) -> Cost:
        """Written, and not waited for."""
        raise NotImplementedError

    def restore_to_disk(self, repository: Path, name: str, to: Path, raw_bytes: int) -> Cost:
        """The same, and on the disk."""
        written = self.restore(repository, name, to, raw_bytes)
        began = time.perf_counter()
        subprocess.run(["sync", "-f", to], check=True)
        return Cost(raw_bytes, written.wall_s + time.perf_counter() - began, written.cpu_s, written.rss_bytes)


class Bridgehead(Tool):
    """Its modules are compiled by the first command and found so by the others, as after an installation."""

    name = "bridgehead"

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "compiled")}

    def make(self, repository: Path) -> None:
        run(*BRIDGEHEAD, "init", repository, at=self.home, environment=self.environment)

    def save(self, repository: Path, folder: Path, name: str) -> Cost:
        step = "0" if name == "base" else name
        command = [*BRIDGEHEAD, "save", repository, folder, "--workload", "bench", "--step", step]
        return run(*command, at=self.home, raw_bytes=folder_bytes(folder), environment=self.environment)

    def restore(self, repository: Path, name: str, to: Path, raw_bytes: int) -> Cost:
        step = "0" if name == "base" else name
        command = [*BRIDGEHEAD, "restore", repository, f"bench@{step}", "--to", to, "--no-sync"]
        return run(*command, at=self.home, raw_bytes=raw_bytes, environment=self.environment)

    def restore_to_disk(self, repository: Path, name: str, to: Path, raw_bytes: int) -> Cost:
        step = "0" if name == "base" else name
        command = [*BRIDGEHEAD, "restore", repository, f"bench@{step}", "--to", to]
        return run(*command, at=self.home, raw_bytes=raw_bytes, environment=self.environment)


class SealedBridgehead(Bridgehead):
    name = "bridgehead, encrypted"
    encrypts = True

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.environment = {**self.environment, "BRIDGEHEAD_PASSPHRASE": PASSWORD}


class Restic(Tool):
    name = "restic"
    encrypts = True

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.environment = {"RESTIC_PASSWORD": PASSWORD, "XDG_CACHE_HOME": str(home / "cache")}

    def make(self, repository: Path) -> None:
        run("restic", "init", "--repo", repository, at=self.home, environment=self.environment)

    def save(self, repository: Path, folder: Path, name: str) -> Cost:
        command = ["restic", "backup", "--repo", repository, "--tag", name, folder.name]
        return run(*command, at=folder.parent, raw_bytes=folder_bytes(folder), environment=self.environment)

    def restore(self, repository: Path, name: str, to: Path, raw_bytes: int) -> Cost:
        command = ["restic", "restore", "latest", "--repo", repository, "--tag", name, "--target", to]
        return run(*command, at=self.home, raw_bytes=raw_bytes, environment=self.environment)


class Borg(Tool):
    """``compression``: lz4 is what borg does when nothing is said. What borg remembers of a repository lies beside it here."""

    def __init__(self, home: Path, compression: str = "lz4") -> None:
        super().__init__(home)
        self.name = f"borg, {compression}"
        self._compression = compression

    def _environment(self, repository: Path) -> dict[str, str]:
        allowed = dict.fromkeys(("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "BORG_RELOCATED_REPO_ACCESS_IS_OK"), "yes")
        return allowed | {"BORG_BASE_DIR": str(_beside(repository))}

    def fork(self, repository: Path, to: Path) -> None:
        super().fork(repository, to)
        shutil.copytree(_beside(repository), _beside(to))

    def drop(self, repository: Path) -> None:
        super().drop(repository)
        shutil.rmtree(_beside(repository))

    def make(self, repository: Path) -> None:
        run("borg", "init", "--encryption", "none", repository, at=self.home, environment=self._environment(repository))

    def save(self, repository: Path, folder: Path, name: str) -> Cost:
        command = ["borg", "create", "--compression", self._compression, f"{repository}::{name}", folder.name]
        return run(*command, at=folder.parent, raw_bytes=folder_bytes(folder), environment=self._environment(repository))

    def restore(self, repository: Path, name: str, to: Path, raw_bytes: int) -> Cost:
        to.mkdir()
        return run("borg", "extract", f"{repository}::{name}", at=to, raw_bytes=raw_bytes, environment=self._environment(repository))


def _beside(repository: Path) -> Path:
    return repository.with_name(f"{repository.name}-home")


class Copy(Tool):
    """The floor: read, write, sync, nothing else."""

    name = "copy and sync"
    keeps = False

    def make(self, repository: Path) -> None:
        repository.mkdir()

    def save(self, repository: Path, folder: Path, name: str) -> Cost:
        target = repository / name
        return run("sh", "-c", f"cp -r '{folder}' '{target}' && sync -f '{target}'", at=self.home, raw_bytes=folder_bytes(folder))

    def restore(self, repository: Path, name: str, to: Path, raw_bytes: int) -> Cost:
        return run("cp", "-r", repository / name, to, at=self.home, raw_bytes=raw_bytes)


def tools(home: Path) -> list[Tool]:
    """Those that are installed, ours first."""
    peers: list[Tool] = []
    if shutil.which("restic"):
        peers.append(Restic(home))
    if shutil.which("borg"):
        peers += [Borg(home), Borg(home, "zstd,3")]
    return [Bridgehead(home), SealedBridgehead(home), *peers, Copy(home)]


ZIPNN = """
import json, sys
from zipnn import ZipNN
kind, total = sys.argv[1], 0
for path in sys.argv[2:]:
    data = open(path, "rb").read()
    packed = ZipNN(bytearray_dtype=kind, threads=2).compress(bytearray(data))
    total += len(packed)
print(total)
"""


def zipnn_bytes(python: str, file: Path, *, narrow: bool) -> int | None:
    """What ZipNN makes of one file; None when ``python`` cannot import it."""
    command = [python, "-W", "ignore", "-c", ZIPNN, "bfloat16" if narrow else "float32", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) if done.returncode == 0 else None


def xdelta3_bytes(old: Path, new: Path, scratch: Path) -> int | None:
    """The delta between two files; None when xdelta3 is not installed."""
    if not shutil.which("xdelta3"):
        return None
    scratch.unlink(missing_ok=True)
    run("xdelta3", "-e", "-f", "-B", str(1 << 28), "-s", old, new, scratch, at=scratch.parent)
    return scratch.stat().st_size


def zstd_bytes(file: Path) -> int:
    """zstd at its usual level, by the library that the vault has anyway."""
    import zstandard

    # In pieces: what this process takes, the kernel would count as the peak of every command that it starts.
    with file.open("rb") as source:
        return sum(len(piece) for piece in zstandard.ZstdCompressor(level=3).read_to_iter(source, size=file.stat().st_size))


def worker(home: Path, *words: object, environment: Mapping[str, str] | None = None) -> list[dict[str, float]]:
    """Lines of ``vault_worker.py``, which uses the library in one process, as a trainer does."""
    os.sync()
    command = [sys.executable, str(Path(__file__).with_name("vault_worker.py")), *map(str, words)]
    done = subprocess.run(command, cwd=home, env=os.environ | (environment or {}), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]
