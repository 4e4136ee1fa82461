"""Capturing the context of a save: code, container, dependencies, data, configuration and job, at one point in time (R10)."""

from __future__ import annotations

import fnmatch
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from bridgehead.app.code_capture import capture_code
from bridgehead.app.surroundings import container_of, job_of
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.hashing import block_hash
from bridgehead.vault import context as ctx
from bridgehead.vault.tracked import FileStamp, stamp_of
from bridgehead.vault.watch import Extra

_LOCKS: Final = (
    *("requirements*.txt", "constraints*.txt", "uv.lock", "poetry.lock", "pdm.lock", "pylock*.toml", "Pipfile.lock", "pixi.lock"),
    *("environment*.yml", "environment*.yaml", "conda-lock.yml", "pyproject.toml"),
)
_SKIPPED: Final = frozenset({".git", ".dvc", ".venv", "venv", "node_modules", "__pycache__", ".bridgehead-watch"})
_MAX_LOCK_BYTES: Final = 8 << 20
_MAX_CONFIG_BYTES: Final = 4 << 20
_MAX_ENTRIES: Final = 20_000
_CHUNK_BYTES: Final = 8 << 20
_PACKAGES: Final = """
import importlib.metadata as m, json
found = set()
for one in m.distributions():
    name, url = one.metadata["Name"], one.read_text("direct_url.json")
    where = json.loads(url) if url else None
    vcs = where.get("vcs_info") if where else None
    if vcs:
        found.add(f"{name} @ {vcs['vcs']}+{where['url']}@{vcs['commit_id']}")
    elif where and (where.get("dir_info") or {}).get("editable"):
        found.add(f"# editable: {name}=={one.version}")
    elif name:
        found.add(f"{name}=={one.version}")
print("\\n".join(sorted(found, key=str.lower)))
"""


class CaptureOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to capture.

    Attributes:
        directory: where the code is; its repository is found from there.
        diff: keep the diff itself, not only its hash.
        data: a folder of which a manifest is made.
        config: a JSON or YAML file of seeds and hyperparameters.
        python: the interpreter whose packages are listed.
        outside: folders that are none of the code, though they may lie in it: the vault, the checkpoints.
    """

    directory: Path
    diff: bool = True
    data: Path | None = None
    config: Path | None = None
    python: str | None = None
    outside: tuple[Path, ...] = ()


class Capturer:
    """Captures again and again; what did not change of the data is not hashed again."""

    def __init__(self, order: CaptureOrder, *, env: Mapping[str, str], root: Path = Path("/")) -> None:
        self._order, self._env, self._root = order, env, root
        self._hashes: dict[FileStamp, str] = {}

    def capture(self) -> Extra:
        """The pairs and the files. What cannot be had is a note in it. Raises BAD_INPUT for a folder or file that was named and is none."""
        order = self._order
        if not order.directory.is_dir():
            raise _bad(order.directory, "it is not a folder", "Give the folder of the code.")
        files: dict[str, bytes] = {}
        notes: list[str] = []
        code = capture_code(order.directory, keep_diff=order.diff, outside=order.outside, notes=notes)
        if code is not None and code.diff is not None:
            files[ctx.DIFF_PATH] = code.diff
        top = Path(code.code.place) if code is not None else order.directory
        locks = _kept(_locks(order.directory, top), ctx.LOCKS, files)
        dvc = _kept(_dvc(order.directory, order.outside), ctx.DVC, files)
        environment = self._environment(files, notes) if order.python else None
        config, flat = self._config(files) if order.config is not None else (None, {})
        data = self._data(order.data, files) if order.data is not None else None
        point = ctx.PointInTime(
            format=ctx.FORMAT,
            captured=str(order.directory.resolve()),
            code=code.code if code is not None else None,
            container=container_of(self._env, self._root),
            job=job_of(self._env),
            locks=locks,
            dvc=dvc,
            environment=environment,
            config=config,
            data=data,
            notes=tuple(notes),
        )
        files[ctx.RECORD_PATH] = ctx.encode_context(point)
        return Extra({**ctx.pairs(point), **flat}, files)

    def _environment(self, files: dict[str, bytes], notes: list[str]) -> ctx.Kept | None:
        python = self._order.python
        assert python is not None
        try:
            done = subprocess.run([python, "-c", _PACKAGES], capture_output=True, timeout=120, check=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError) as error:
            notes.append(f"the packages of {python} cannot be listed: {error}")
            return None
        files[ctx.ENVIRONMENT_PATH] = done.stdout
        return ctx.kept(python, ctx.ENVIRONMENT_PATH, done.stdout)

    def _config(self, files: dict[str, bytes]) -> tuple[ctx.Kept, dict[str, str]]:
        path = self._order.config
        assert path is not None
        try:
            content = path.read_bytes()
        except OSError as error:
            raise _bad(path, f"it cannot be read ({error.strerror})", "Give a JSON or YAML file.") from error
        if len(content) > _MAX_CONFIG_BYTES:
            raise _bad(path, f"it is larger than {_MAX_CONFIG_BYTES} bytes", "Give the file of hyperparameters alone.")
        files[ctx.CONFIG_PATH] = content
        return ctx.kept(path.name, ctx.CONFIG_PATH, content), ctx.flattened(_parsed(path, content))

    def _data(self, folder: Path, files: dict[str, bytes]) -> ctx.DataSummary:
        manifest = data_manifest(folder, known=self._hashes)
        content = msgspec.json.encode(manifest) + b"\n"
        files[ctx.DATA_PATH] = content
        return ctx.DataSummary(manifest.place, len(manifest.files), sum(one.size_bytes for one in manifest.files), block_hash(content))


def data_manifest(folder: Path, *, known: dict[FileStamp, str]) -> ctx.Data:
    """Each file below a folder, sorted by path. ``known``: hashes of files that are untouched since; added to. Raises BAD_INPUT."""
    if not folder.is_dir():
        raise _bad(folder, "it is not a folder", "Give the folder of the data.")
    found = []
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            try:
                path.relative_to(folder).as_posix().encode()
                found.append(ctx.DataFile(path.relative_to(folder).as_posix(), path.stat().st_size, hash_of(path, known=known)))
            except (OSError, UnicodeEncodeError) as error:
                raise _bad(path, f"it cannot be read ({error})", "Correct it, or name a folder without it.") from error
    return ctx.Data(str(folder.resolve()), tuple(sorted(found, key=lambda one: one.path)))


def hash_of(path: Path, *, known: dict[FileStamp, str]) -> str:
    """BLAKE3 of a file. Raises OSError."""
    stamp = stamp_of(path)
    if stamp is not None and stamp in known and not path.is_symlink():
        return known[stamp]
    hasher = blake3()
    with path.open("rb") as stream:
        while data := stream.read(_CHUNK_BYTES):
            hasher.update(data)
    if stamp is not None and stamp_of(path) == stamp:
        known[stamp] = hasher.hexdigest()
    return hasher.hexdigest()


def _kept(found: Iterator[tuple[str, bytes]], prefix: str, files: dict[str, bytes]) -> tuple[ctx.Kept, ...]:
    kept = []
    for name, content in found:
        path = prefix + name
        if path not in files:
            files[path] = content
            kept.append(ctx.kept(name, path, content))
    return tuple(sorted(kept, key=lambda one: one.name))


def _locks(directory: Path, top: Path) -> Iterator[tuple[str, bytes]]:
    """Lock files of the folder and of the top of its repository, by their path from there."""
    base = top if directory.resolve().is_relative_to(top.resolve()) else directory
    for folder in dict.fromkeys((base.resolve(), directory.resolve())):
        for name in sorted(os.listdir(folder)):
            path = folder / name
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in _LOCKS) and path.is_file() and path.stat().st_size <= _MAX_LOCK_BYTES:
                yield path.relative_to(base.resolve()).as_posix(), path.read_bytes()


def _dvc(directory: Path, outside: tuple[Path, ...]) -> Iterator[tuple[str, bytes]]:
    away = {path.resolve() for path in outside}
    seen = 0
    for parent, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and (Path(parent) / name).resolve() not in away)
        for name in sorted(names):
            seen += 1
            if seen > _MAX_ENTRIES:
                return
            path = Path(parent) / name
            if (name.endswith(".dvc") or name == "dvc.lock") and path.is_file() and path.stat().st_size <= _MAX_LOCK_BYTES:
                yield path.relative_to(directory).as_posix(), path.read_bytes()


def _parsed(path: Path, content: bytes) -> object:
    import yaml

    try:
        return msgspec.json.decode(content) if path.suffix == ".json" else yaml.safe_load(content)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(path, f"it is neither JSON nor YAML ({str(error).splitlines()[0]})", "Correct it.") from error


def _bad(path: Path, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="capture the context", subject=str(path), happened=happened, remedy=remedy)
