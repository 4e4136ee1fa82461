"""`bridgehead recover drill` on real processes: measured, with faults, killed, refused; and nothing of it is left (R1, R2, R13)."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.host.netns import NETNS_FOLDER
from bridgehead.kernel.ids import Epoch, SiteId, StepId, WorkloadId
from bridgehead.model.runbook import ActionStep, Runbook, UndoPolicy
from bridgehead.recovery.actions.milestones import ReachMilestone
from bridgehead.testing.servers import free_port
from bridgehead.training import create_vault, open_vault
from bridgehead.training.state import Capture

JOBS = Path(__file__).with_name("drill_jobs.py")
SITES = SITE_A, SITE_B = "site-a", "site-b"


class Scene:
    """Estate, recovery and objectives files of two embedded sites; site-b's vault holds two snapshots of a training and of a model."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.home, self.tag = folder, free_port(), folder / "home", os.urandom(3).hex()
        self.log = folder / "log" / "steps"
        self.log.parent.mkdir()
        for site in SITES:
            create_vault(folder / site / "vault")
        for step in (10, 20):
            self.save(step)
        self._write("estate.yaml", self._estate())
        covers = {"rpo": "1 h", "rto": "5 min", "covers": ["lm", "chat"]}
        self._write("objectives.yaml", {"continuity": "small", "objectives": {"all": covers}})
        self.plan()

    def save(self, step: int) -> None:
        """One more snapshot of both, as if it had just been replicated to site-b."""
        vault = open_vault(self.folder / SITE_B / "vault")
        for workload in ("lm", "chat-model"):
            capture = Capture()
            capture.take({"weights": os.urandom(100_000).hex()})
            vault.save(capture.files(), workload=WorkloadId(workload), step=step, epoch=Epoch(0), site=SiteId(SITE_A))

    def plan(self, *, serve: str = "serve", answer: str = "1 s") -> None:
        """The recovery file."""
        train = {"command": [sys.executable, str(JOBS), "train", "--log", str(self.log)]}
        server = {"command": [sys.executable, str(JOBS), serve, "--port", str(self.port), "--snapshot", "{snapshot}"]}
        both = {"home": SITE_A, "refuge": SITE_B}
        lm = {"kind": "training", **both, "jobs": dict.fromkeys(SITES, train), "gpus": 8}
        chat = {"kind": "inference", **both, "jobs": dict.fromkeys(SITES, server), "service": "chat", "model": "chat-model"}
        self._write(
            "recovery.yaml",
            {
                "recovery": "small",
                "sites": [*SITES],
                "objectives": "objectives.yaml",
                "approvers": {"people": ["ana", "ben"], "answer": answer},
                "deadlines": {"restore": "20 s"},
                "drills": {"every": "7 d", "own": [str(self.log.parent)]},
                "workloads": {"lm": lm, "chat": chat},
            },
        )

    def named(self, name: str) -> str:
        """A name that no other test gives to a drill."""
        return f"{name}-{self.tag}"

    def line(self, *words: str) -> list[str]:
        """The command line."""
        files = ["--recovery", str(self.folder / "recovery.yaml"), "--home", str(self.home)]
        return [
            sys.executable,
            "-m",
            "bridgehead.cli.main",
            "recover",
            "drill",
            "--estate",
            str(self.folder / "estate.yaml"),
            *files,
            *words,
        ]

    def __call__(self, *words: str, code: int = 0) -> dict:
        """Give the command; what it printed."""
        done = subprocess.run(self.line(*words, "--json"), capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr[-3000:]}"
        return json.loads(done.stdout)

    def leftovers(self) -> list[str]:
        """Bubbles, processes, namespaces, and anything in the real places but the notes of drills."""
        drills = self.home / "drills"
        found = [f"bubble {path.name}" for path in drills.iterdir() if path.name != "reports"] if drills.is_dir() else []
        found += [f"process {pid}" for pid in self._processes()]
        found += [f"namespace {path.name}" for path in NETNS_FOLDER.glob(f"bh-*-{self.tag}-*")] if NETNS_FOLDER.is_dir() else []
        found += [f"{path}" for path in self.log.parent.iterdir()]
        found += [f"{path}" for part in ("jobs", "control") for path in self.folder.glob(f"site-?/{part}/[!.]*")]
        vault = self.folder / SITE_B / "vault"
        fences = [path for path in vault.glob("fences/*/*")]
        return found + [f"fence {path}" for path in fences]

    def _processes(self) -> list[str]:
        """Of jobs whose environment or command names this scene's bubbles."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(JOBS).encode() in words and any(
                str(self.home).encode() in word for word in (entry / "environ").read_bytes().split(b"\0")
            ):
                found.append(entry.name)
        return found

    def _write(self, name: str, content: object) -> None:
        (self.folder / name).write_text(yaml.safe_dump(content, sort_keys=False))

    def _estate(self) -> object:
        def site(name: str) -> object:
            drivers = {"scheduler": ("process", "jobs"), "training": ("files", "control"), "vault": ("localfs", "vault")}
            places = {port: {"driver": driver, "directory": str(self.folder / name / part)} for port, (driver, part) in drivers.items()}
            return {"connections": places}

        addresses = {SITE_A: "127.0.0.1:1", SITE_B: f"127.0.0.1:{self.port}"}
        urls = {site: f"http://{address}" for site, address in addresses.items()}
        listens = {"chat": {"listen": "127.0.0.1:2", "sites": addresses, "initial": {SITE_A: 100, SITE_B: 0}}}
        traffic = {"driver": "haproxy", "socket": str(self.folder / "s"), "state_file": str(self.folder / "weights"), "services": listens}
        chat = {"sites": [*SITES], "serving": {"driver": "http", "backends": {"chat": urls}}, "traffic": traffic}
        workloads = {"lm": {"kind": "training", "site": SITE_A}}
        return {"estate": "small", "sites": {name: site(name) for name in SITES}, "workloads": workloads, "services": {"chat": chat}}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_R13_drill_is_measured_held_against_objectives_and_signed(scene: Scene, tmp_path: Path) -> None:
    came = scene("--name", scene.named("one"), "--fault", "kill-restore=lm", "--fault", "dead-node=chat")
    assert came["verdict"] == "passed"
    assert [fault["hit"] for fault in came["faults"]] == [True, True]
    assert 0 < came["rto_s"] < 60
    assert 0 < came["rpo_s"] < 600
    assert came["rpo_steps"] is None, "no trainer at home has reported: the steps are not known, and not 0"
    assert came["rpo_gpu_hours"] == pytest.approx(came["rpo_s"] * 8 / 3600)
    assert [came["milestones"][name]["after_s"] for name in ("lost", "recovered")] == [0.0, pytest.approx(came["rto_s"])]
    cases = {case["workload"]: case for case in came["cases"]}
    assert cases["lm"]["snapshot"].startswith("lm@20.")
    assert cases["lm"]["evidence"] == "computed step 21"
    assert cases["lm"]["rto"] == {
        "measured_s": cases["lm"]["rto"]["measured_s"],
        "objective_s": 300.0,
        "met": True,
        "set_by": "objectives.all.rto",
    }
    if os.geteuid() == 0:
        assert came["network"].startswith("bh-one-"), (
            "the job has a network namespace of its own, in which it listens on the port of production"
        )
    assert scene.leftovers() == []
    report = scene.home / "drills" / "reports" / f"{came['drill']}.json"
    assert scene("--verify", str(report))["problem"] == ""
    page = report.with_suffix(".html").read_text()
    assert "computed step 21" in page
    assert "http" not in page.replace("http-equiv", ""), "it asks for nothing from elsewhere"
    report.write_text(report.read_text().replace('"passed"', '"missed"'))
    assert "changed" in scene("--verify", str(report), code=1)["problem"]


def test_R13_site_that_goes_down_again_and_damage_of_the_newest(scene: Scene) -> None:
    came = scene("--name", scene.named("down"), "--fault", "site-down", "--fault", "damaged-block=lm", "--network", "shared")
    assert came["verdict"] == "passed"
    assert [fault["hit"] for fault in came["faults"]] == [True, True]
    lm = next(case for case in came["cases"] if case["workload"] == "lm")
    assert lm["snapshot"].startswith("lm@10."), "what a loss would have cost counts from the snapshot that could be restored"
    assert [name.partition("-")[0] for name in lm["passed_over"]] == ["lm@20.0"]
    assert int(lm["evidence"].rpartition(" ")[2]) >= 11
    assert scene.leftovers() == []
    assert scene("--due") == {"overdue": [], "workloads": scene("--due")["workloads"]}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_R13_drill_that_is_killed_leaves_nothing_after_the_next_command(scene: Scene, number: signal.Signals) -> None:
    name = scene.named("killed")
    with subprocess.Popen(scene.line("--name", name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as drill:
        deadline_s = time.monotonic() + 30
        while not list(scene.home.glob(f"drills/{name}/control/*/progress*")):
            assert time.monotonic() < deadline_s
            assert drill.poll() is None
            time.sleep(0.01)
        drill.send_signal(number)
        drill.wait(30)
    if number is signal.SIGKILL:
        assert scene.leftovers()
        assert scene("--clean") == {"bubbles": [{"bubble": name, "run": name, "left": [], "busy": False}]}
    assert scene.leftovers() == []
    assert scene("--clean") == {"bubbles": []}
    [line] = scene("--history")["drills"]
    assert (line["drill"], line["verdict"]) == (name, "stopped")


def test_R13_full_journal_keeps_no_bubble_alive(scene: Scene) -> None:
    name = scene.named("full")
    with subprocess.Popen(scene.line("--name", name), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as drill:
        deadline_s = time.monotonic() + 30
        while not list(scene.home.glob(f"drills/{name}/control/*/progress*")):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        # Files that are larger cannot grow: the journal takes nothing more.
        full = (max(path.stat().st_size for path in scene.home.glob("journal.db*")), resource.RLIM_INFINITY)
        resource.prlimit(drill.pid, resource.RLIMIT_FSIZE, full)
        _, said = drill.communicate(timeout=60)
    assert drill.returncode == 7
    assert "run resume" not in said, "a drill is not resumed"
    assert f"`bridgehead recover drill --clean --home {scene.home}`" in said
    assert scene.leftovers() == [f"bubble {name}"]
    assert [path.name for path in (scene.home / "drills" / name).iterdir()] == ["bubble.json"]
    own = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32_768, own[1]))  # enough to open the journal and for an entry, not for all
    try:
        [bubble] = scene("--clean", code=1)["bubbles"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, own)
    assert "is not ended" in bubble["left"][0]
    assert "no space" in bubble["left"][0]
    assert scene("--clean") == {"bubbles": [{"bubble": name, "run": name, "left": [], "busy": False}]}
    assert scene.leftovers() == []
    [line] = scene("--history")["drills"]
    assert (line["drill"], line["verdict"]) == (name, "stopped")


def test_R13_nobody_approves_and_the_drill_ends_as_refused(scene: Scene) -> None:
    came = scene("--name", scene.named("asked"), "--ask", code=1)
    assert came["verdict"] == "not-approved"
    assert came["milestones"] == {"lost": None, "recovered": None, "clean": None}
    assert scene.leftovers() == []


def test_R13_recovery_that_fails_is_told_with_the_logs_of_its_jobs(scene: Scene) -> None:
    scene.plan(serve="no-such-thing")
    came = scene("--name", scene.named("bad"), code=1)
    assert came["verdict"] == "failed"
    assert "ready-chat" in came["reason"]
    assert came["rto_s"] is None
    logs = [path.read_text() for path in (scene.home / "drills" / "reports" / f"{came['drill']}.logs").iterdir()]
    assert any("invalid choice: 'no-such-thing'" in log for log in logs)
    assert scene.leftovers() == []
    assert set(scene("--due", code=1)["overdue"]) >= {"chat"}


def test_R13_no_drill_begins_beside_a_recovery(scene: Scene) -> None:
    given = {"milestone": "serving", "site": SITE_B, "since_s": time.time()}
    step = ActionStep(StepId("serving"), ReachMilestone.name, given, 60.0, undo=UndoPolicy.KEEP, undo_reason="nothing is changed")
    sites = {SITE_B: {"vault": {"driver": "localfs", "directory": str(scene.folder / SITE_B / "vault")}}}
    runs.start(Home(scene.home), Runbook("failover", (step,)), {"sites": sites, "services": {}}, name="failover", by="ana")
    assert scene("--name", scene.named("late"), code=1)["error"]["code"] == "recovery-refused"
    assert scene.leftovers() == []
