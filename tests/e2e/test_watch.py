"""The whole watch over real vaults in directories and the scheduler of processes: looks, restarts, two observers, what is out of reach."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from bridgehead.app.home import Home
from bridgehead.app.watch import Watch, order_for, verdict_on
from bridgehead.app.watch_look import Looker
from bridgehead.app.watch_probes import Probes
from bridgehead.app.watch_scope import ScopeFiles, read_scope
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, SnapshotId, StepId
from bridgehead.model.exposition import parse_exposition
from bridgehead.model.finding import FindingStatus
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobSpec
from bridgehead.ports.training import TrainerState, TrainingProgress
from bridgehead.recovery.watch.facts import Facts
from bridgehead.recovery.watch.liveness import Evidence, EvidenceKind, SiteState
from bridgehead.recovery.watch.readiness import WatchReport
from bridgehead.testing.watch_bed import LM, A, B, write_files
from bridgehead.vault import Vault
from bridgehead.vault.access import Reading, note_reading
from bridgehead.vault.drills import Drill, record_drill
from bridgehead.vault.replicate import Pace, replicate

PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
STAMP = Stamp(RunId("r"), StepId("s"), 1, Epoch(1))


class Bed:
    """Two sites on disk: vaults with one copied, drilled snapshot; a job that runs at site-a; a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("a", "b"):
            (folder / name / "vault").mkdir(parents=True)
        self.estate, self.policy = write_files(folder)
        self.a = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / "a" / "vault"))))
        self.b = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / "b" / "vault"))))
        self.now_s = time.time()
        first = self.save(100)
        self.copy(first)
        objects = self.b.place.objects
        record_drill(objects, Drill(first, self.now_s, 1.0, 0.5, 1000, passed=True, happened="", by="ann"))
        note_reading(objects, Reading(self.now_s, 2_000_000, 1.0))
        self.progress(100)

    def save(self, step: int) -> SnapshotId:
        return self.a.save({"w": os.urandom(5000)}, workload=LM, step=step, epoch=Epoch(0), site=A).snapshot.id

    def copy(self, snapshot: SnapshotId) -> None:
        left = replicate(
            self.a.snapshot(snapshot), source=self.a.place, target=self.b.place, pace=Pace(30.0, time.monotonic, lambda _: None)
        )
        assert left == 0
        self.b.receipt(snapshot, site=B)

    def progress(self, step: int) -> None:
        said = TrainingProgress(TrainerState.RUNNING, step, Epoch(0), None, None, "", self.now_s, self.now_s)
        folder = self.folder / "a" / "control" / "lm"
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "progress.json.part"
        part.write_bytes(msgspec.json.encode(said))
        part.replace(folder / "progress.json")

    @property
    def files(self) -> ScopeFiles:
        return ScopeFiles(self.estate, policy=self.policy)

    def watch(self, observer: str = "one", *, alone: bool = True) -> Watch:
        order = order_for(observer=observer, every_s=10.0, grace_s=120.0, observers=2, lead_s=900.0, alone=alone)
        return Watch(self.files, Home(self.folder / "home"), order, now_s=lambda: self.now_s)

    def command(self, *words: str, policy: bool = True) -> list[str]:
        given = ["--policy", str(self.policy)] if policy else []
        return [str(PROGRAM), *words, *given, "--home", str(self.folder / "home")]


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def statuses(made: WatchReport) -> dict[str, FindingStatus]:
    return {one.code: one.status for one in made.findings}


def state(made: WatchReport, site: SiteId) -> SiteState:
    found = verdict_on(site, made)
    assert found is not None
    return found.state


def away(folder: Path, what: str) -> None:
    """A share that is not mounted: a file stands where the folder was, so that nobody makes it anew."""
    (folder / what).rename(folder / f"{what}.away")
    (folder / what).write_text("")


def back(folder: Path, what: str) -> None:
    (folder / what).unlink()
    (folder / f"{what}.away").rename(folder / what)


def test_all_is_green_and_the_loss_is_what_it_is(bed: Bed) -> None:
    with bed.watch() as watch:
        first = watch.look()
        assert {one.code: one.text for one in first.findings if one.status is not FindingStatus.PASS} == {}
        [line] = first.workloads
        assert (line.lost_s, line.lost_steps) == (0.0, 0)
        bed.now_s += 60
        bed.progress(160)
        [line] = watch.look().workloads
        assert line.lost_steps == 60
        assert line.lost_s == pytest.approx(60, abs=5)
        newer = bed.save(150)
        [line] = watch.look().workloads
        assert line.newest is not None
        assert (line.newest.step, line.lag_steps) == (150, 50)
        bed.copy(newer)
        [line] = watch.look().workloads
        assert (line.lost_steps, line.lag_steps) == (10, 0)


def test_a_trainer_that_reports_no_more_is_not_taken_at_its_word(bed: Bed) -> None:
    """Its file can be read as before; it told, an hour ago, that nothing was computed since the copy."""
    with bed.watch() as watch:
        assert watch.look().workloads[0].lost_s == 0.0
        bed.now_s += 3600
        made = watch.look()
        assert (made.workloads[0].lost_s, made.workloads[0].lost_steps) == (pytest.approx(3600, abs=5), None)
        assert "last reported 1 h ago" in next(one.text for one in made.findings if one.code == "WCH-RPO")
        bed.now_s += 2 * 3600
        assert statuses(watch.look())["WCH-RPO"] is FindingStatus.FAIL


def test_a_vault_out_of_reach_is_unknown_after_a_while_and_known_again(bed: Bed) -> None:
    with bed.watch() as watch:
        watch.look()
        away(bed.folder / "b", "vault")
        bed.now_s += 10
        assert statuses(watch.look())["WCH-RPO"] is FindingStatus.PASS, "what was seen a moment ago is still known"
        bed.now_s += 60
        made = watch.look()
        assert made.status is FindingStatus.UNKNOWN
        assert statuses(made)["WCH-RPO"] is FindingStatus.UNKNOWN
        assert made.workloads[0].lost_s is None
        back(bed.folder / "b", "vault")
        bed.now_s += 10
        assert watch.look().status is FindingStatus.PASS


def test_damage_at_the_recovery_site_is_noticed(bed: Bed) -> None:
    for pack in (bed.folder / "b" / "vault" / "data").rglob("*"):
        if pack.is_file():
            pack.chmod(0o600)
            pack.write_bytes(pack.read_bytes()[:10])
    with bed.watch() as watch:
        assert statuses(watch.look())["WCH-COVER"] is FindingStatus.FAIL


def silence(bed: Bed) -> None:
    for what in ("jobs", "control", "vault"):
        away(bed.folder / "a", what)


def test_J01_J03_silence_grace_restart_and_two_observers(bed: Bed) -> None:
    with bed.watch("one") as one, bed.watch("two") as two:
        for _ in range(2):
            one.look()
            two.look()
        silence(bed)
        began_s = bed.now_s
        for _ in range(8):  # to 80 s of silence
            bed.now_s += 10
            one.look()
            made = two.look()
        assert state(made, A) is SiteState.SILENT
        assert state(made, B) is SiteState.ALIVE
    with bed.watch("one") as one, bed.watch("two") as two:  # both restarted in the middle of the grace
        found = None
        while bed.now_s < began_s + 400:
            bed.now_s += 10
            one.look()
            found = verdict_on(A, two.look())
            assert found is not None
            assert found.state is not SiteState.LOST
            if found.may_fail_over:
                break
        assert bed.now_s - began_s == pytest.approx(130, abs=20), "counted from the first loss, not from the restart"
        for what in ("jobs", "control", "vault"):
            back(bed.folder / "a", what)
        bed.now_s += 10
        assert state(one.look(), A) is SiteState.ALIVE
        assert state(two.look(), A) is SiteState.ALIVE, "the other's word, or its own look"


def test_one_observer_whose_path_is_down_for_ten_minutes_proposes_nothing(bed: Bed) -> None:
    with bed.watch("one") as watch:
        watch.look()
        silence(bed)
        for _ in range(60):
            bed.now_s += 10
            found = verdict_on(A, watch.look())
            assert found is not None
            assert found.state is not SiteState.LOST
            assert not found.may_fail_over
        for what in ("jobs", "control", "vault"):
            back(bed.folder / "a", what)
        bed.now_s += 10
        assert state(watch.look(), A) is SiteState.ALIVE


@pytest.mark.parametrize("what", ["a report", "a snapshot that was copied late", "a report by a clock that is behind"])
def test_what_was_written_before_the_kill_and_read_after_it_is_no_sign_of_now(bed: Bed, what: str) -> None:
    with bed.watch() as watch:
        watch.look()
        seen_s = bed.now_s
        bed.now_s += 20 if what == "a report" else -600
        if what == "a snapshot that was copied late":
            bed.copy(bed.save(150))
            away(bed.folder / "a", "control")
        else:
            bed.progress(120)
        for part in ("jobs", "vault"):
            away(bed.folder / "a", part)
        bed.now_s = seen_s + 300
        found = verdict_on(A, watch.look())
        assert found is not None
        assert found.contact_s == pytest.approx(seen_s + (20 if what == "a report" else 0), abs=9)
        assert found.state is SiteState.UNKNOWN
        bed.now_s += 10
        assert state(watch.look(), A) is not SiteState.ALIVE


def test_a_declared_loss_is_seen_by_all_and_refuted_by_life(bed: Bed) -> None:
    with bed.watch("one") as one, bed.watch("two") as two:
        one.look()
        silence(bed)
        one.declare(A, Evidence(A, EvidenceKind.DECLARED, "ann", "fire", bed.now_s + 1))
        bed.now_s += 60
        assert state(two.look(), A) is not SiteState.LOST, "it was seen less than the grace ago"
        bed.now_s += 90
        assert state(two.look(), A) is not SiteState.LOST, "how old the other's first word is, this one cannot tell"
        bed.now_s += 40
        assert state(two.look(), A) is SiteState.LOST
        for what in ("jobs", "control", "vault"):
            back(bed.folder / "a", what)
        bed.now_s += 10
        assert state(two.look(), A) is SiteState.ALIVE
        assert one.declare(A, None) == 1
        with pytest.raises(BridgeheadError, match="no such site"):
            one.declare(SiteId("nowhere"), None)


def test_a_running_job_is_a_sign_of_life_and_its_end_is_told(bed: Bed) -> None:
    jobs = ProcessScheduler(A, ProcessOptions(directory=str(bed.folder / "a" / "jobs")))
    jobs.start(JobSpec(JobName("lm"), (sys.executable, "-c", "import time; time.sleep(600)")), stamp=STAMP)
    try:
        looked = Looker(read_scope(bed.files), probes=Probes()).look(Facts(), now_s=bed.now_s)
        [look] = [one for one in looked.looks if one.site == A]
        assert "the scheduler answered (lm)" in look.life
        assert looked.facts.jobs["lm@site-a"].value.state == "running"
    finally:
        jobs.kill(JobName("lm"), stamp=STAMP)


def test_clock_skew_between_sites_is_told_and_ages_are_not_made_up(bed: Bed) -> None:
    bed.now_s -= 3600  # this observer's clock is an hour behind those of the sites
    with bed.watch() as watch:
        made = watch.look()
        assert statuses(made)["WCH-CLOCK"] is FindingStatus.FAIL
        assert statuses(made)["WCH-RPO"] is FindingStatus.UNKNOWN


def test_two_processes_of_one_name_are_refused_and_a_single_look_is_not(bed: Bed) -> None:
    with bed.watch("one") as watch:
        watch.look()
        with pytest.raises(BridgeheadError, match="same name"), bed.watch("one"):
            pass
        with bed.watch("one", alone=False) as beside:
            assert beside.look().status is FindingStatus.PASS
            assert not beside.memory_folder.writes
    assert len(list(watch.memory_folder.history())) == 1


def run(*command: str) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_once_prints_a_report_of_the_documented_form_with_its_exit_code(bed: Bed) -> None:
    code, out, _ = run(*bed.command("watch", str(bed.estate), "--once", "--json"))
    assert code == 0, out
    schema = json.loads(run(str(PROGRAM), "watch", "schema")[1])
    jsonschema.validate(json.loads(out), schema)
    away(bed.folder / "b", "vault")
    assert run(*bed.command("watch", str(bed.estate), "--once", "--every", "1 ms", "--timeout", "5 s"))[0] in (0, 3)
    (bed.folder / "home" / "watch" / "two").rename(bed.folder / "forgotten")
    code, out, _ = run(*bed.command("watch", str(bed.estate), "--once"))
    assert code == 3
    assert "is not known" in out
    back(bed.folder / "b", "vault")
    code, out, _ = run(*bed.command("watch", str(bed.estate), "--once", policy=False))
    assert code == 1, "nobody gave it an objective"


@contextlib.contextmanager
def serving(bed: Bed, observer: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = bed.command("watch", str(bed.estate), "--every", "200 ms", "--observer", observer, "--metrics-port", "0", "--json")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = int(process.stderr.readline().rsplit(":", 1)[1].split("/")[0])
        yield process, port
    finally:
        process.kill()
        process.wait(10)
        if process.stderr is not None:
            process.stderr.close()


def metrics(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return {sample.name: sample.value for sample in parse_exposition(answer.read().decode()).samples}


def until(port: int, name: str, *, timeout_s: float = 20.0) -> dict[str, Any]:
    ends_s = time.monotonic() + timeout_s
    while time.monotonic() < ends_s:
        found = metrics(port)
        if name in found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{name} was never exposed")


def test_killed_observer_goes_on_where_it_was_and_the_other_never_stops(bed: Bed) -> None:
    with serving(bed, "two") as (other, other_port):
        with serving(bed, "one") as (process, port):
            assert until(port, "bridgehead_watch_status")["bridgehead_watch_status"] == 0
            until(port, "bridgehead_observer_age_seconds")
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        kept = json.loads((bed.folder / "home" / "watch" / "two" / "one" / "memory.json").read_bytes())["record"]
        with serving(bed, "one") as (process, port):
            until(port, "bridgehead_observer_age_seconds")
            again = json.loads((bed.folder / "home" / "watch" / "two" / "one" / "memory.json").read_bytes())["record"]
            assert again["number"] > kept["number"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        assert other.poll() is None
        assert until(other_port, "bridgehead_watch_status")["bridgehead_watch_status"] == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", other_port)) != 0


def test_history_shows_the_trend(bed: Bed) -> None:
    for _ in range(3):
        run(*bed.command("watch", str(bed.estate), "--once", "--observer", "h"))
    code, out, _ = run(*bed.command("watch", "history", str(bed.estate), "--observer", "h", "--json", policy=False))
    assert code == 0
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["pass"] * 3
    assert "3 looks" in run(*bed.command("watch", "history", str(bed.estate), "--observer", "h", policy=False))[1]


def test_tables_fit_eighty_columns(bed: Bed) -> None:
    away(bed.folder / "b", "vault")
    for columns in ("80", "120"):
        done = subprocess.run(
            bed.command("status", str(bed.estate), "--observer", f"c{columns}"),
            capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "COLUMNS": columns},
        )  # fmt: skip
        assert done.returncode == 3
        assert max(map(len, done.stdout.splitlines())) <= int(columns)
        assert "?  lm" in done.stdout
