"""A control plane that is restored from an old copy of its journal stops before it acts (J09)."""

from __future__ import annotations

import shutil
import signal

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model import event as ev
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.runbook import state as st
from bridgehead.testing.command_line import CommandLine
from bridgehead.vault import SiteVaults, Vault

WORKLOAD = WorkloadId("train")


class TwoVaults(CommandLine):
    """Its sites have vaults."""

    def __init__(self, folder) -> None:
        super().__init__(folder)
        self.stores = {}
        sites = {}
        for site in ("ams", "fra"):
            options = {"directory": str(folder / f"{site}-vault")}
            self.stores[SiteId(site)] = LocalBlobs(LocalBlobsOptions(options["directory"]))
            Vault.init(self.stores[SiteId(site)])
            scheduler = {"driver": "process", "directory": str(folder / site)}
            sites[site] = {"connections": {"scheduler": scheduler, "vault": {"driver": "localfs", **options}}}
        self.estate = self.write("estate.yaml", {"estate": "lab", "sites": sites})

    def fence(self, *, by: str, run: str, epoch: int = 1, driver: int = 1, opened_s: float = 4e9) -> None:
        """As a driver of ``run`` raises one at both sites."""
        stamp = Stamp(RunId(run), StepId("fence"), 1, Epoch(driver))
        vaults = SiteVaults({site: Vault.open(store) for site, store in self.stores.items()})
        for site in self.stores:
            vaults.fence(Fence(WORKLOAD, Epoch(epoch), SiteId("fra"), (), by, opened_s), site=site, stamp=stamp)

    def copy_home(self) -> None:
        """As a backup does, while nobody writes."""
        shutil.copytree(self.home, self.folder / "backup")

    def restore_home(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.folder / "backup", self.home)


@pytest.fixture
def line(tmp_path):
    with TwoVaults(tmp_path) as line:
        yield line


def killed(line, driver) -> None:
    driver.send(signal.SIGKILL)
    driver.end()


def fencing(*needs: str) -> dict[str, object]:
    """A step that the tests never come to; it names the workload."""
    given = {"workload": WORKLOAD, "holder": "fra", "sites": ["ams", "fra"], "of": "start-new"}
    return {"id": "fence", "action": "training.fence", "with": given, "deadline": "10 s", "needs": [*needs]}


def test_J09_a_run_that_went_on_after_the_copy_waits_for_a_person(line, steps) -> None:
    book = [steps.start_job(), steps.approval(needs=("start-new",)), steps.start_job("later", needs=("agree",))]
    driver = line.start([*book, steps.task(needs=("start-later",)), fencing("cable")])
    line.until_step("move", "agree", st.Asking)
    killed(line, driver)
    line.copy_home()
    # The run goes on: a second driver starts the next job and raises the fence; then the control plane is lost.
    line.run("run", "approve", "move", "agree", "--as", "ann")
    driver = line.drive("run", "resume", "move")
    line.until_step("move", "cable", st.Assigned)
    killed(line, driver)
    later = line.job("fra", "later")
    line.fence(by="move/fence", run="move", driver=5)
    line.restore_home()

    resumed = line.run("run", "resume", "move")
    assert resumed.returncode == 5, resumed.stderr
    assert "WAIT_FOR_OPERATOR" in resumed.stderr
    assert "the vault of ams was changed by driver 5 of this run, the journal knows of 1" in resumed.stderr
    assert "epoch 1 of train was opened for fra by move/fence" in resumed.stderr
    explained = line.run("run", "explain", "move")
    assert "bridgehead run abort move  # end the run here; nothing is touched" in explained.stdout
    assert line.job("fra", "later") == later
    assert [event.step for event in line.events("move") if isinstance(event, ev.Intent)] == ["start-new"] * 3

    # It stays so however often somebody tries, until he ends it.
    ended = line.run("run", "abort", "move", "--as", "ann")
    assert ended.returncode == 0, ended.stderr
    assert "abandoned" in ended.stdout
    assert line.job("fra", "later") == later
    assert line.run("ledger", "verify", "move").returncode == 0


def test_J09_a_person_may_say_that_it_goes_on_all_the_same(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",)), fencing("agree")])
    line.until_step("move", "agree", st.Asking)
    killed(line, driver)
    line.fence(by="other-run/fence", run="other-run")
    stopped = line.run("run", "resume", "move")
    assert (stopped.returncode, "opened for fra by other-run/fence" in stopped.stderr) == (5, True)
    again = line.drive("run", "resume", "move", "--as", "ann")
    line.until("move", lambda state: state.epoch == 3 and isinstance(state.mode, st.Forward) and bool(state.accepted))
    # What he accepted is asked no more; a second difference is.
    killed(line, again)
    again = line.drive("run", "resume", "move", "--as", "ann")
    line.until("move", lambda state: state.epoch == 4 and isinstance(state.mode, st.Forward))
    killed(line, again)
    line.fence(by="third-run/fence", run="third-run", epoch=2)
    stopped = line.run("run", "resume", "move")
    assert (stopped.returncode, "epoch 2 of train was opened for fra by third-run/fence" in stopped.stderr) == (5, True)
    assert steps.starts("new") == 1


def test_J09_a_site_that_is_gone_is_no_difference(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",)), fencing("agree")])
    line.until_step("move", "agree", st.Asking)
    killed(line, driver)
    shutil.rmtree(line.folder / "ams-vault")
    resumed = line.drive("run", "resume", "move")
    line.until("move", lambda state: state.epoch == 2)
    assert line.run("run", "reject", "move", "agree", "--as", "ann").returncode == 0
    assert resumed.end().returncode == 1
