"""Blindness: the status path of all observers is down, and everything else goes on. Nobody may fence or start anything (J01, J05).

Run: ``python bench/blindness.py [--blind-s 120] [--write]``; ``--write`` puts the table into docs/benchmarks.md. Exit code 1 when something
was done that must not be. Run it as root (for a mount namespace of its own); needs haproxy.

Two sites and a witness as real processes on this machine: a training, an inference service behind HAProxy, clients whose every answer is
checked. Two observers (`bridgehead watch`, a look every 2 s, grace 20 s) see them over a path of their own: folders through a mount,
addresses through relays. The mount is covered and the relays are cut, for all at once. Meanwhile somebody who trusts nobody gives
`recover failover` for each site, again and again, over the same path.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from table import Table, machine, write_section

from bridgehead.app.demo.lost_site import BACKEND, TRAINER, LostSite
from bridgehead.app.demo.places import SITES, SOURCE
from bridgehead.app.demo.records import Outcome, Record, read_records
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.vault import Vault

EVERY_S, GRACE_S = 2.0, 20.0
SEES_S = 15.0
ASKS_S = 10.0
OBSERVERS = ("one", "two")
CANNOT_TELL = "cannot tell whether it lives"


class StatusPath:
    """The status path: what observers and operators see of a lab. ``down`` and ``up`` change it for all of them at once."""

    def __init__(self, lab: LostSite, folder: Path, stack: ExitStack) -> None:
        root, view = lab.places.root, folder / "view"
        self._cut, self._view = folder / "cut", str(view)
        view.mkdir()
        keeper = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sleep", "infinity"])
        stack.callback(keeper.wait)
        stack.callback(keeper.terminate)
        while os.readlink(f"/proc/{keeper.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
            time.sleep(0.01)
        self.through = ["nsenter", "--mount", "--target", str(keeper.pid), "--"]
        self._mount("mount", "--bind", str(root), self._view)
        ports = lab.scene.ports
        behind = {int(lab.url_a.rpartition(":")[2]), ports.admin, ports.probe, *ports.backend.values()}
        relays = {port: stack.enter_context(relay(folder, port, self._cut)) for port in sorted(behind)}
        text = lab.estate.read_text().replace(str(root), self._view)
        self.estate = folder / "estate.yaml"
        self.estate.write_text(re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{relays.get(int(found[1]), found[1])}", text))

    def down(self) -> None:
        """Nothing can be read, and nothing be made where it was."""
        self._cut.touch()
        self._mount("mount", "-t", "tmpfs", "-o", "ro,size=4k", "none", self._view)

    def up(self) -> None:
        """As it was."""
        self._cut.unlink()
        self._mount("umount", self._view)

    def _mount(self, *words: str) -> None:
        subprocess.run([*self.through, *words], check=True)


@contextmanager
def relay(folder: Path, port: int, cut: Path) -> Iterator[int]:
    """A relay to ``port``; gives its own."""
    file = folder / f"relay-{port}"
    command = [sys.executable, "-m", "bridgehead.testing.relay", "--listen-port-file", str(file), "--to", f"127.0.0.1:{port}"]
    process = subprocess.Popen([*command, "--cut-file", str(cut)])
    try:
        while not file.exists() or not file.read_text().strip():
            time.sleep(0.05)
        yield int(file.read_text())
    finally:
        process.terminate()
        process.wait()


class Operators:
    """The command line over the status path, and observers that go on."""

    def __init__(self, lab: LostSite, path: StatusPath, folder: Path) -> None:
        self._files = ["--recovery", str(lab.recovery)]
        self._estate, self._folder, self._through = str(path.estate), folder, path.through
        self.answers: list[str] = []

    @contextmanager
    def observer(self, name: str) -> Iterator[Path]:
        out = self._folder / f"{name}.jsonl"
        times = ["--every", f"{EVERY_S:g} s", "--grace", f"{GRACE_S:g} s", "--timeout", "2 s", "--observers", "2"]
        command = [*self._through, sys.executable, "-m", "bridgehead.cli.main", "watch", self._estate, *self._files, *times]
        with out.open("wb") as stream, (self._folder / f"{name}.err").open("wb") as errors:
            process = subprocess.Popen(
                [*command, "--observer", name, "--home", str(self._folder / "home"), "--json"], stdout=stream, stderr=errors
            )
            try:
                yield out
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()

    def ask(self, site: str) -> None:
        """Give up a site, and note what came of it."""
        command = [*self._through, sys.executable, "-m", "bridgehead.cli.main", "recover", "failover", site]
        command += ["--estate", self._estate, *self._files]
        done = subprocess.run(
            [*command, "--home", str(self._folder / "operator"), "--json"], capture_output=True, text=True, timeout=300, check=False
        )
        answer: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {}
        error = answer.get("error", {})
        said = error.get("happened") or answer.get("mode") or done.stderr.strip()[-200:]
        self.answers.append("done" if done.returncode == 0 else said)


class Before(msgspec.Struct, frozen=True):
    """Executions of each job, by site and name; fences of each vault."""

    jobs: dict[str, str]
    fences: dict[str, int]


def standing(lab: LostSite) -> Before:
    """What there is now, seen directly and not over the status path."""
    jobs = {}
    for site in SITES:
        for name in (TRAINER[site], BACKEND[site]):
            jobs[f"{name} at {site}"] = str(lab.scene.schedulers[site].observe(name))
    fences = {}
    for name, folder in {**{site: lab.places.vault(site) for site in SITES}, "witness": lab.places.root / "witness"}.items():
        vault = Vault.open(LocalBlobs(LocalBlobsOptions(directory=str(folder))))
        fences[name] = sum(1 for _ in vault.place.objects.blobs.list("fences/"))
    return Before(jobs, fences)


class Blind(msgspec.Struct, frozen=True):
    """One round."""

    reports: dict[str, list[dict[str, Any]]]
    begun_s: float
    ended_s: float
    answers: list[str]
    before: Before
    after: Before
    steps: list[int]
    requests: list[Record]


def play(folder: Path, *, blind_s: float) -> Blind:
    """Seeing, blind, seeing again."""
    with ExitStack() as stack:
        lab = stack.enter_context(LostSite(folder / "lab"))
        path = StatusPath(lab, folder, stack)
        operators = Operators(lab, path, folder)
        files = {name: stack.enter_context(operators.observer(name)) for name in OBSERVERS}
        lab.scene.until(lambda: lab.copied_step() >= 40, "copies at site-b", timeout_s=60.0)
        time.sleep(SEES_S)
        before, first = standing(lab), lab.last_step_at_a()
        begun_s = time.time()
        path.down()
        number = 0
        while time.time() < begun_s + blind_s:
            operators.ask(SITES[number % 2])
            number += 1
            time.sleep(max(0.0, min(begun_s + number * ASKS_S, begun_s + blind_s) - time.time()))
        path.up()
        ended_s = time.time()
        time.sleep(SEES_S)
        operators.ask(SOURCE)
        after = standing(lab)
        lines = lab.places.losses(TRAINER[SOURCE]).read_bytes().splitlines()
        steps = [msgspec.json.decode(line)["step"] for line in lines if line.endswith(b"}")]
        reports = {name: [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")] for name, file in files.items()}
        requests = [one for one in read_records(lab.places.load) if one.sent_s >= begun_s]
        assert first in steps
        return Blind(reports, begun_s, ended_s, operators.answers, before, after, steps, requests)


def within(round_: Blind, begin_s: float, end_s: float) -> list[dict[str, Any]]:
    """Reports of looks in a span of time, of all observers."""
    return [report for reports in round_.reports.values() for report in reports if begin_s <= report["at_s"] < end_s]


def states(reports: Sequence[dict[str, Any]]) -> str:
    """States of sites in them, with how often."""
    found = Counter(site["state"] for report in reports for site in report["sites"])
    return ", ".join(f"{state} {count}" for state, count in sorted(found.items())) or "none"


def first_s(round_: Blind, state: str, after_s: float) -> float:
    """How long after a moment every observer had each site in that state, for the first time."""
    found = []
    for reports in round_.reports.values():
        fitting = [one["at_s"] for one in reports if one["at_s"] >= after_s and all(site["state"] == state for site in one["sites"])]
        found.append(min(fitting, default=float("inf")))
    return max(found) - after_s


def allows(report: dict[str, Any]) -> int:
    """Sites that a report lets be failed over."""
    return sum(site["state"] == "lost" or (site["state"] == "silent" and site["overdue"]) for site in report["sites"])


def table(round_: Blind) -> tuple[str, list[str]]:
    """The table, and what broke a promise."""
    stale_s = 3 * EVERY_S + 2.0
    blind = within(round_, round_.begun_s, round_.ended_s)
    settled = within(round_, round_.begun_s + stale_s, round_.ended_s)
    told = [report for report in settled if any(CANNOT_TELL in alarm["text"] for alarm in report["alarms"])]
    *during, last = round_.answers
    restarted = [name for name, job in round_.before.jobs.items() if round_.after.jobs[name] != job]
    fences = sum(round_.after.fences.values()) - sum(round_.before.fences.values())
    repeated = len(round_.steps) - len(set(round_.steps))
    bad = Counter(one.outcome.value for one in round_.requests if one.outcome is not Outcome.OK)
    rows = [
        ("status path down, s", f"{round_.ended_s - round_.begun_s:.0f}", ""),
        ("looks of 2 observers meanwhile", f"{len(blind)}", ""),
        ("... states that they gave the 2 sites", states(blind), "none silent or lost"),
        ("... looks that allowed a failover", f"{sum(map(allows, blind))}", "0"),
        ("nobody can tell: all sites unknown, s after the path was down", f"{first_s(round_, 'unknown', round_.begun_s):.1f}", ""),
        ("looks from then on whose alarm says so", f"{len(told)} of {len(settled)}", ""),
        ("`recover failover` given meanwhile", f"{len(during)}", ""),
        ("... done", f"{sum(said == 'done' for said in during)}", "0"),
        ("jobs started again, ended or started elsewhere (false restarts)", f"{len(restarted)}", "0"),
        ("fences and ballots written", f"{fences}", "0"),
        ("steps of the training, before, meanwhile and after", f"{len(set(round_.steps))}", ""),
        ("... computed twice", f"{repeated}", "0"),
        ("requests answered meanwhile", f"{len(round_.requests)}", ""),
        ("... failed, wrong or cut", f"{sum(bad.values())}", "0"),
        ("all sites alive again, s after the path was up", f"{first_s(round_, 'alive', round_.ended_s):.1f}", ""),
        ("`recover failover` given then", last, "refused"),
    ]
    made = Table("status path of all observers down", "measured", "wanted")
    for row in rows:
        made.add(*row)
    faults = [f"{what}: {value}" for what, value, wanted in rows if wanted == "0" and value != "0"]
    if {"silent", "lost"} & {site["state"] for report in blind for site in report["sites"]}:
        faults.append("a site was called silent or lost by blind observers")
    if len(told) < len(settled) * 0.8:
        faults.append("nobody was told that nobody can tell")
    if "alive" not in last:
        faults.append(f"the last failover was not refused: {last}")
    return f"{made}\n\nWhat `recover failover` said meanwhile: {'; '.join(sorted(set(during)))}.", faults


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blind-s", type=float, default=120.0)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bridgehead-blind-") as folder:
        made, faults = table(play(Path(folder), blind_s=asked.blind_s))
    intro = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    text = f"{intro}\n\n{machine()} {os.getloadavg()[0]:.1f} processes were at work.\n\n{made}\n"
    print(text)
    if asked.write:
        write_section("blindness", f"python bench/blindness.py --blind-s {asked.blind_s:g} --write", text)
    print(*faults, sep="\n", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
