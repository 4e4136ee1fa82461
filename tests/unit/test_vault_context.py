"""One point in time: code, container, dependencies, data and configuration go with a snapshot and come back (R10)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app.surroundings import container_of, job_of
from bridgehead.cli.main import call
from bridgehead.host.git import without_secrets
from bridgehead.vault.context import Container, Job, flattened


class Project:
    """A git repository with code, data and checkpoints, and a vault, in the current folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.repo, self._capsys = folder, folder / "project", capsys
        self.repo.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write("train.py", "print('one')\n")
        self.write("requirements.txt", "numpy==2.0\n")
        self.write(".gitignore", "ignored/\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "first")
        (folder / "ckpt").mkdir()
        (folder / "ckpt" / "w.bin").write_bytes(b"weights")
        self("init", "v")

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def git(self, *words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", "-C", str(self.repo), *identity, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def __call__(self, *words: str | Path, code: int = 0) -> str:
        found = call(["vault", *map(str, words)])
        out, err = self._capsys.readouterr()
        assert found == code, err + out
        return out if code in (0, 1) else err

    def save(self, *more: str | Path, step: int = 1, code: int = 0) -> Any:
        words = ("save", "v", "ckpt", "--workload", "train", "--step", step, "--site", "lab", "--capture", "project", *more, "--json")
        return json.loads(self(*map(str, words), code=code))

    def context(self) -> dict[str, str]:
        return json.loads(self("show", "v", "train", "--json"))["context"]

    def restore(self, *more: str | Path, code: int = 0) -> dict[str, dict[str, str]]:
        document = json.loads(self("restore", "v", "train", "--context", "back", *more, "--json", code=code))
        return {part["what"]: part for part in document["parts"]}

    def files(self, folder: Path) -> dict[str, bytes]:
        paths = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    for name in ("BRIDGEHEAD_EPOCH", "BRIDGEHEAD_SITE", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return Project(tmp_path, capsys)


def dirty(project: Project) -> None:
    """Everything that a working tree can have and a commit not."""
    project.write("train.py", "print('two')\n")
    project.write("new/module.py", "x = 1\n")
    project.write("binary.bin", bytes(range(256)))
    project.write("staged.py", "staged\n")
    project.git("add", "staged.py")
    project.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (project.repo / "link").symlink_to("train.py")
    (project.repo / "requirements.txt").rename(project.repo / "requirements-gpu.txt")
    project.write("ignored/big.bin", b"x" * 100)


def test_R10_code_comes_back_with_its_changes_and_the_repository_is_untouched(project: Project) -> None:
    dirty(project)
    before = project.git("status", "--porcelain"), project.git("count-objects"), (project.repo / ".git" / "index").read_bytes()
    project.save()
    assert before == (project.git("status", "--porcelain"), project.git("count-objects"), (project.repo / ".git" / "index").read_bytes())
    commit = project.git("rev-parse", "HEAD")
    assert {"git.commit": commit, "git.dirty": "yes", "git.branch": "main"}.items() <= project.context().items()
    parts = project.restore()
    assert parts["code"]["standing"] == "restored", parts
    wanted = {name: data for name, data in project.files(project.repo).items() if not name.startswith("ignored/")}
    assert project.files(project.folder / "back" / "code") == wanted
    assert (project.folder / "back" / "code" / "run.sh").stat().st_mode & 0o111
    assert (project.folder / "back" / "code" / "link").is_symlink()
    assert json.loads(Path("back/context.json").read_bytes())["code"]["commit"] == commit
    assert parts["lock file requirements-gpu.txt"]["standing"] == "restored"
    assert "pip install -r back/locks/requirements-gpu.txt" in parts["dependencies"]["remedy"]


def test_R10_change_within_the_tick_of_the_commit_and_of_the_same_size_is_seen(project: Project) -> None:
    code = project.repo / "train.py"
    tick = code.stat().st_mtime_ns - 10 * 10**9
    project.git("config", "core.trustctime", "false")
    os.utime(code, ns=(tick, tick))
    project.git("update-index", "--refresh")
    code.write_text("print('two')\n")
    for path in (code, project.repo / ".git" / "index"):
        os.utime(path, ns=(tick, tick))
    project.save()
    assert project.context()["git.dirty"] == "yes"
    assert project.restore()["code"]["standing"] == "restored"
    assert (project.folder / "back" / "code" / "train.py").read_text() == "print('two')\n"


def test_R10_clean_commit_from_a_remote_when_the_place_is_gone(project: Project, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(project.repo), str(remote)], check=True)
    project.git("remote", "add", "origin", str(remote))
    project.save()
    assert project.context()["git.dirty"] == "no"
    project.repo.rename(tmp_path / "elsewhere")
    parts = project.restore()
    assert parts["code"]["standing"] == "restored"
    assert (
        str(remote)
        == subprocess.run(
            ["git", "-C", "back/code", "config", "remote.origin.url"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )


def test_R10_what_cannot_be_had_is_said_with_the_way_by_hand(project: Project, tmp_path: Path) -> None:
    dirty(project)
    project.save()
    commit = project.git("rev-parse", "HEAD")
    project.repo.rename(tmp_path / "elsewhere")
    parts = project.restore(code=1)
    assert parts["code"]["standing"] == "failed"
    assert f"git -C back/code checkout {commit} && git -C back/code apply" in parts["code"]["remedy"]
    subprocess.run(["git", "clone", "-q", str(tmp_path / "elsewhere"), "back/code"], check=True)
    subprocess.run(["git", "-C", "back/code", "apply", "--binary", str(Path("back/code.diff").absolute())], check=True)
    assert Path("back/code/train.py").read_text() == "print('two')\n"


def test_R10_without_the_diff_only_its_hash_is_kept(project: Project) -> None:
    project.write("train.py", "print('two')\n")
    project.save("--no-diff")
    assert len(project.context()["git.diff"]) == 64
    parts = project.restore(code=1)
    assert "only the hash" in parts["code"]["happened"]
    assert not Path("back/code.diff").exists()


def test_R10_secrets_and_large_untracked_files_are_left_out_and_named(project: Project) -> None:
    project.write(".env", "TOKEN=secret")
    project.write("core.dump", b"x" * (2 << 20))
    project.save()
    parts = project.restore()
    assert parts["code"]["standing"] == "restored"
    assert "2 were left out" in parts["untracked files"]["happened"]
    assert ".env: it may hold secrets" in parts["untracked files"]["happened"]
    assert project.context()["git.dirty"] == "yes"
    assert b"TOKEN=secret" not in b"".join(path.read_bytes() for path in Path("back").rglob("*") if path.is_file())


def test_R10_same_state_captured_again_is_the_same_snapshot(project: Project) -> None:
    dirty(project)
    first, again = project.save(), project.save()
    assert (again["id"], again["created"]) == (first["id"], False)
    project.write("train.py", "print('three')\n")
    assert project.save()["id"] != first["id"]


def test_checkpoints_and_vault_inside_the_repository_are_no_code(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.repo)
    project("init", "vault")
    project.write("out/step-1/w.bin", b"1")
    words = ("watch", "vault", "out", "--workload", "t", "--once", "--settle", "0.05 s", "--capture", ".")
    project(*words)
    context = json.loads(project("show", "vault", "t", "--json"))["context"]
    assert (context["git.dirty"], context["checkpoint"]) == ("no", "step-1")
    project("restore", "vault", "t", "--to", "../plain")
    assert project.files(Path("../plain")) == {"w.bin": b"1"}, "a plain restore gives back the checkpoint alone"


def test_R10_configuration_environment_and_data(project: Project, tmp_path: Path) -> None:
    config = tmp_path / "hp.yaml"
    config.write_text("seed: 7\noptimizer: {lr: 0.001, betas: [0.9, 0.95]}\nbf16: true\n")
    data = tmp_path / "data"
    (data / "shards").mkdir(parents=True)
    (data / "shards" / "a.bin").write_bytes(b"a" * 1000)
    (data / "b.txt").write_text("b")
    project.save("--config", config, "--data", data, "--python", sys.executable)
    context = project.context()
    assert {
        "config.seed": "7",
        "config.optimizer.lr": "0.001",
        "config.optimizer.betas.1": "0.95",
        "config.bf16": "true",
    }.items() <= context.items()
    assert (context["data.files"], context["data.bytes"]) == ("2", "1001")
    parts = project.restore()
    assert parts["configuration hp.yaml"]["standing"] == parts["data"]["standing"] == "restored"
    assert Path("back/config").read_text() == config.read_text()
    assert "msgspec==" in Path("back/environment.txt").read_text()
    (data / "b.txt").write_text("c")
    (data / "new.txt").write_text("n")
    (data / "shards" / "a.bin").unlink()
    Path("back").rename("was")
    part = project.restore(code=1)["data"]
    assert part["standing"] == "failed"
    assert all(word in part["happened"] for word in ("b.txt changed", "shards/a.bin is missing", "new.txt is new"))
    Path("back").rename("was2")
    part = project.restore("--data", tmp_path / "nowhere")["data"]
    assert part["standing"] == "by hand"
    assert "2 files, 1001 bytes" in part["remedy"]


def test_R10_dvc_files_are_kept(project: Project) -> None:
    project.write("data/train.csv.dvc", "outs:\n- md5: 0123456789abcdef0123456789abcdef\n  path: train.csv\n")
    project.save()
    parts = project.restore()
    assert parts["DVC file data/train.csv.dvc"]["standing"] == "restored"
    assert "dvc pull" in parts["data of DVC"]["remedy"]
    assert "train.csv" in Path("back/dvc/data/train.csv.dvc").read_text()


def test_no_repository_is_a_note(project: Project, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "uv.lock").write_text("version = 1\n")
    project("save", "v", "ckpt", "--workload", "train", "--step", "1", "--capture", plain)
    parts = project.restore()
    assert set(parts) - {"container"} == {"lock file uv.lock", "dependencies"}
    assert parts["dependencies"]["remedy"] == "`uv sync --frozen` in back/locks"
    notes = json.loads(Path("back/context.json").read_bytes())["notes"]
    assert "not a git repository" in notes[0]


def test_wrong_use(project: Project, tmp_path: Path) -> None:
    project("save", "v", "ckpt", "--workload", "train", "--step", "1")
    assert "without one" in project("restore", "v", "train", "--context", "back", code=6)
    assert "goes alone" in project("restore", "v", "train", "--context", "back", "--to", "x", code=2)
    assert "no place" in project("restore", "v", "train", code=2)
    assert "--capture" in project("save", "v", "ckpt", "--workload", "train", "--step", "2", "--config", "x", code=2)
    (tmp_path / "bad.json").write_text("{")
    words = ("save", "v", "ckpt", "--workload", "train", "--step", "2", "--capture", "project", "--config", "bad.json")
    assert "neither JSON nor YAML" in project(*words, code=2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    project.save(step=3)
    project("restore", "v", "train", "--context", "full", code=2)
    assert (tmp_path / "full" / "mine.txt").read_text() == "mine"


def test_passwords_of_remotes_are_not_kept() -> None:
    assert without_secrets("https://user:token@host.example/x.git") == "https://host.example/x.git"
    assert without_secrets("git@host.example:x.git") == "git@host.example:x.git"
    assert without_secrets("ssh://git@host.example/x.git") == "ssh://host.example/x.git"


def test_jobs_of_schedulers() -> None:
    assert job_of({}) is None
    assert job_of({"SLURM_JOB_ID": "17", "SLURM_JOB_NAME": "train"}) == Job("slurm", "17", "train")
    assert job_of({"PBS_JOBID": "3.host"}) == Job("pbs", "3.host")
    assert job_of({"JOB_ID": "5"}) is None
    assert job_of({"JOB_ID": "5", "SGE_ROOT": "/sge"}) == Job("grid engine", "5")
    assert job_of({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-0"}) == Job("kubernetes", "train-0")


def test_containers(tmp_path: Path) -> None:
    assert container_of({}, tmp_path) is None
    number = "ab" * 32
    digest = f"sha256:{'cd' * 32}"
    assert container_of({"CONTAINER_IMAGE": f"reg/img@{digest}"}, tmp_path) == Container("unknown", f"reg/img@{digest}", digest, "")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"0::/system.slice/docker-{number}.scope\n")
    assert container_of({}, tmp_path) is None, "a cgroup alone is no container"
    (tmp_path / ".dockerenv").touch()
    assert container_of({"IMAGE_DIGEST": digest}, tmp_path) == Container("docker", "", digest, number)
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "proc" / "self" / "mountinfo").write_text(f"1 2 8:1 /var/lib/docker/containers/{number}/hostname /etc/hostname rw\n")
    assert container_of({}, tmp_path) == Container("docker", "", "", number)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").write_text(f'engine="podman-4"\nid="{number}"\nimage="img:1"\nimageid="{"ef" * 32}"\n')
    assert container_of({}, tmp_path) == Container("podman", "img:1", "ef" * 32, number)


def test_flattened_configuration_is_bounded() -> None:
    assert flattened({"a": {"b": [1, None]}, "c": "x" * 300}) == {"config.a.b.0": "1", "config.a.b.1": "null"}
    assert len(flattened(list(range(10_000)))) == 500
