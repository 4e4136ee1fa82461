"""Checking a context out: what belonged to a snapshot is written, made again where it can be, compared, and the rest is said (R10)."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bridgehead.app.vault_context import hash_of
from bridgehead.app.vaults import missing, refusing_occupied, space_named
from bridgehead.host.git import GitFailed, apply, clone, git, has_commit, tree_of, untracked, whole_tree
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import SnapshotId
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault import Vault
from bridgehead.vault import context as ctx
from bridgehead.vault.tracked import FileStamp

CODE = "code"
_NAMED = 3


class Standing(enum.StrEnum):
    """What became of a part of the context."""

    RESTORED = "restored"
    """It is there, and its hash is that of the capture."""
    BY_HAND = "by hand"
    """It cannot be made again from here; what to do is said."""
    FAILED = "failed"
    """It should be there and is not, or is something else."""


class Part(msgspec.Struct, frozen=True):
    """One part. ``remedy``: how to get by hand what is not restored."""

    what: str
    standing: Standing
    happened: str
    remedy: str = ""


class CheckedOut(msgspec.Struct, frozen=True):
    """All parts of a snapshot's context, and where they are."""

    snapshot: SnapshotId
    to: str
    context: dict[str, str]
    parts: tuple[Part, ...]

    @property
    def whole(self) -> bool:
        """Nothing failed."""
        return all(part.standing is not Standing.FAILED for part in self.parts)


def check_out(vault: Vault, snapshot: Snapshot, *, to: Path, data: Path | None) -> CheckedOut:
    """Write the context of a snapshot into the new folder ``to``, with the code in ``to/code``.

    Args:
        data: where the data is on this machine, to be compared with the manifest; None: where it was.

    Raises BridgeheadError: VAULT_NOT_FOUND when the snapshot has no context, BAD_USAGE when ``to`` holds something else, VAULT_DAMAGED.
    """
    paths = [file.path for file in snapshot.files if file.path.startswith(ctx.RESERVED)]
    if ctx.RECORD_PATH not in paths:
        raise missing(
            "restore the context",
            subject=snapshot.id,
            happened="it was saved without one",
            remedy="`bridgehead vault save --capture DIR` keeps code, dependencies and data manifests with a snapshot.",
        )
    with refusing_occupied(to), space_named():
        vault.restore(snapshot.id, to=to, only=paths)
        reserved = to / ctx.RESERVED.rstrip("/")
        for entry in sorted(os.listdir(reserved)):
            os.rename(reserved / entry, to / entry)
        reserved.rmdir()
    point = ctx.decode_context((to / "context.json").read_bytes())
    parts = [*_code(point, to), *_dependencies(point, to), *_container(point), *_config(point, to), *_data(point, to, data)]
    return CheckedOut(snapshot.id, str(to), snapshot.context, tuple(parts))


def _place(to: Path, kept: str) -> Path:
    return to / kept.removeprefix(ctx.RESERVED)


def _kept_part(what: str, kept: ctx.Kept, to: Path) -> Part:
    """A file that lies in the snapshot: the vault has verified it; that the record speaks of this file is seen here."""
    path = _place(to, kept.path)
    if path.is_file() and block_hash(path.read_bytes()) == kept.blake3:
        return Part(what, Standing.RESTORED, str(path))
    return Part(what, Standing.FAILED, f"{path} is not what the record says", "Use the files of another snapshot, or `vault verify`.")


def _code(point: ctx.PointInTime, to: Path) -> Iterator[Part]:
    code = point.code
    if code is None:
        return
    target = to / CODE
    diff = _place(to, ctx.DIFF_PATH)
    by_hand = f"git clone {code.remote or code.place} {target} && git -C {target} checkout {code.commit}"
    by_hand += f" && git -C {target} apply --binary {diff.absolute()}" if code.diff_kept else ""
    tried = []
    source = ""
    for source in [place for place in (code.place, code.remote) if place]:
        try:
            if source == code.place and not (os.path.isdir(source) and has_commit(Path(source), code.commit)):
                tried.append(f"{source}: not there, or without this commit")
                continue
            clone(os.path.abspath(source) if os.path.isdir(source) else source, target.absolute(), code.commit)
            break
        except GitFailed as error:
            tried.append(f"{source}: {error}")
    if not target.is_dir():
        yield Part("code", Standing.FAILED, f"commit {code.commit} could not be had ({'; '.join(tried) or 'no source'})", by_hand)
        return
    yield _tree(code, target, diff, source)
    if code.left_out:
        named = "; ".join(code.left_out[:_NAMED])
        yield Part("untracked files", Standing.BY_HAND, f"{len(code.left_out)} were left out when it was saved: {named}", "Copy them.")


def _tree(code: ctx.Code, target: Path, diff: Path, source: str) -> Part:
    """Apply the diff, and compare git's name of the whole tree."""
    if code.diff_blake3 and not code.diff_kept:
        happened = f"commit {code.commit} of {source}; the tree had changes, of which only the hash {code.diff_blake3} was kept"
        return Part("code", Standing.FAILED, happened, "Find the changes where they were made; the hash is that of `context.json`.")
    try:
        if code.diff_kept:
            if block_hash(diff.read_bytes()) != code.diff_blake3:
                return Part("code", Standing.FAILED, f"{diff} is not what the record says", "Use another snapshot.")
            apply(target, diff)
        with whole_tree(target, adding=untracked(target)) as env:
            tree = tree_of(target, env)
        if code.remote:
            git(target, "remote", "set-url", "origin", code.remote)
    except (GitFailed, OSError) as error:
        return Part("code", Standing.FAILED, f"{target}: {error}", f"git -C {target} apply --binary {diff.absolute()}")
    changes = " with its changes" if code.diff_kept else ""
    if tree != code.tree:
        return Part("code", Standing.FAILED, f"{target} has the tree {tree}, not {code.tree}", f"git -C {target} status")
    return Part("code", Standing.RESTORED, f"commit {code.commit}{changes}, tree {tree}, in {target}")


def _dependencies(point: ctx.PointInTime, to: Path) -> Iterator[Part]:
    for lock in point.locks:
        yield _kept_part(f"lock file {lock.name}", lock, to)
    if point.environment is not None:
        yield _kept_part(f"packages of {point.environment.name}", point.environment, to)
    install = _install(point, to)
    if install:
        yield Part("dependencies", Standing.BY_HAND, "nothing was installed", install)


def _install(point: ctx.PointInTime, to: Path) -> str:
    names = {lock.name.rpartition("/")[2]: _place(to, lock.path) for lock in point.locks}
    for name, words in (
        ("uv.lock", "uv sync --frozen"),
        ("poetry.lock", "poetry sync"),
        ("pdm.lock", "pdm sync"),
        ("pixi.lock", "pixi install"),
    ):
        if name in names:
            return f"`{words}` in {to / CODE if point.code is not None else to / 'locks'}"
    if point.environment is not None:
        return f"`pip install -r {_place(to, ctx.ENVIRONMENT_PATH)}` in a new environment"
    for name, path in sorted(names.items()):
        if name.endswith(".txt"):
            return f"`pip install -r {path}` in a new environment"
        if name.endswith((".yml", ".yaml")):
            return f"`conda env create -f {path}`"
    return ""


def _container(point: ctx.PointInTime) -> Iterator[Part]:
    box = point.container
    if box is not None:
        image = box.image.partition("@")[0]
        pull = f"{image}@{box.digest}" if image and box.digest.startswith("sha256:") else image or box.digest
        happened = f"it ran in {box.runtime} {box.id[:12]}".rstrip()
        yield Part("container", Standing.BY_HAND, happened, f"Run it in {pull}." if pull else "Its image did not show from inside.")


def _config(point: ctx.PointInTime, to: Path) -> Iterator[Part]:
    if point.config is not None:
        yield _kept_part(f"configuration {point.config.name}", point.config, to)


def _data(point: ctx.PointInTime, to: Path, here: Path | None) -> Iterator[Part]:
    for one in point.dvc:
        yield _kept_part(f"DVC file {one.name}", one, to)
    if point.dvc:
        where = to / CODE if point.code is not None else to / "dvc"
        yield Part("data of DVC", Standing.BY_HAND, "DVC keeps it in a store of its own", f"`dvc pull` in {where}")
    if point.data is None:
        return
    path = _place(to, ctx.DATA_PATH)
    content = path.read_bytes()
    if block_hash(content) != point.data.manifest_blake3:
        yield Part("data", Standing.FAILED, f"{path} is not what the record says", "Use another snapshot.")
        return
    manifest = msgspec.json.decode(content, type=ctx.Data)
    folder = here or Path(manifest.place)
    if not folder.is_dir():
        what = f"{point.data.files} files, {point.data.size_bytes} bytes"
        yield Part(
            "data", Standing.BY_HAND, f"{folder} is not there", f"Bring the {what} that {path} lists, and give the folder by --data."
        )
        return
    wrong = list(_differences(manifest, folder))
    if wrong:
        named = "; ".join(wrong[:_NAMED])
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        yield Part("data", Standing.FAILED, f"{folder} differs: {named}{more}", f"Bring these files as {path} lists them.")
    else:
        yield Part("data", Standing.RESTORED, f"every file of {len(manifest.files)} in {folder} has the size and hash that it had")


def _differences(manifest: ctx.Data, folder: Path) -> Iterator[str]:
    known: dict[FileStamp, str] = {}
    wanted = {one.path for one in manifest.files}
    for one in manifest.files:
        path = folder / one.path
        try:
            if path.stat().st_size != one.size_bytes or hash_of(path, known=known) != one.blake3:
                yield f"{one.path} changed"
        except OSError:
            yield f"{one.path} is missing"
    for parent, _, names in os.walk(folder):
        yield from (
            f"{name} is new" for name in ((Path(parent) / one).relative_to(folder).as_posix() for one in names) if name not in wanted
        )
