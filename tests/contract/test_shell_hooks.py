"""Hooks through the shell port, on real programs (R16)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridgehead.drivers.hooks import ShellHooks
from bridgehead.drivers.shell import LocalShell
from bridgehead.model.recovery import Hook, HookPoint
from bridgehead.testing.hooks_suite import SITE, HooksRig, HooksSuite, hook, stamp


class Rig(HooksRig):
    def __init__(self, folder: Path):
        self.log = folder / "begun"

    def driver(self):
        return ShellHooks({}, elsewhere=LocalShell)

    def well(self, name):
        return hook(name, "sh", "-c", f"echo {name} >> {self.log}; sleep 0.1")

    def failing(self, name):
        return hook(name, "sh", "-c", f"echo {name} >> {self.log}; echo no such luck >&2; exit 3")

    def slow(self, name):
        return hook(name, "sh", "-c", f"echo {name} >> {self.log}; sleep 30", timeout_s=0.3)

    def begun(self, name):
        return self.log.read_text().split().count(name) if self.log.exists() else 0


class TestShellHooks(HooksSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return Rig(tmp_path)

    def test_output_is_kept_whole_and_its_end_goes_into_the_journal(self, rig, folder) -> None:
        long = hook("talk", "sh", "-c", "seq 1 100000; echo last >&2; exit 1")
        run = self.ended(rig, rig.driver(), long, folder, stamp())
        assert run.output.endswith("last\n")
        assert len(run.output) == 2000
        assert run.happened == "it ended with 1: last"
        assert Path(run.log).read_text().splitlines()[0] == "1"
        assert len(Path(run.log).read_text().splitlines()) == 100_001

    def test_what_cannot_be_executed_has_failed(self, rig, folder) -> None:
        run = self.ended(rig, rig.driver(), hook("gone", "/no/such/program"), folder, stamp())
        assert (run.exit_code, run.well) == (None, False)
        assert "cannot be executed" in run.happened

    def test_environment_and_site(self, rig, folder) -> None:
        """A site's own shell is used; the hook's environment goes over the one that it is given."""
        from bridgehead.drivers.shell import LocalShellOptions

        own = LocalShell(LocalShellOptions(env={"WHERE": "its own"}))
        driver = ShellHooks({SITE: own}, elsewhere=LocalShell)
        one = Hook("say", HookPoint.AFTER_SNAPSHOT, ("sh", "-c", 'echo "$WHERE, $ONE, $TWO"'), env={"TWO": "hook"})
        while (run := driver.run(one, site=SITE, folder=folder, env={"ONE": "run", "TWO": "run"}, stamp=stamp())) is None:
            time.sleep(0.01)
        assert run.output == "its own, run, hook\n"

    def test_a_controller_that_is_killed_runs_it_again_and_the_next_knows_what_has_ended(self, rig, folder) -> None:
        """At least once; what ended well before the kill is not run again."""
        script = f"""
import time
from bridgehead.drivers.hooks import ShellHooks
from bridgehead.drivers.shell import LocalShell
from bridgehead.testing.hooks_suite import SITE, hook, stamp
hooks = ShellHooks({{}}, elsewhere=LocalShell)
first, second = hook("first", "sh", "-c", "echo first >> {rig.log}"), hook("second", "sh", "-c", "echo second >> {rig.log}; sleep 5")
while hooks.run(first, site=SITE, folder={folder!r}, env={{}}, stamp=stamp()) is None:
    time.sleep(0.01)
hooks.run(second, site=SITE, folder={folder!r}, env={{}}, stamp=stamp())
time.sleep(30)
"""
        process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ})
        try:
            end_s = time.monotonic() + 20
            while rig.begun("second") == 0:
                assert time.monotonic() < end_s
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        driver = rig.driver()
        again = stamp(epoch=2)
        self.ended(rig, driver, rig.well("first"), folder, again)
        self.ended(rig, driver, rig.well("second"), folder, again)
        assert (rig.begun("first"), rig.begun("second")) == (1, 2)
