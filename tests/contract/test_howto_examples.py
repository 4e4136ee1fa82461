"""The action and the driver that the how-to pages show do what the pages say."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobSpec
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Pending

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
SITE, JOB = SiteId("here"), JobName("convert")
STAMP = Stamp(RunId("r"), StepId("s"), 1, Epoch(1))
CALL = Call(stamp=STAMP, recorded={}, applied={}, earlier={}, since_s=0.0, now_s=0.0)


def example(page: str, name: str, into: str) -> types.ModuleType:
    """An example of a page as a module of its own; one of the same name is added to."""
    source = re.search(rf"<!-- test: {name} -->\n```python\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)
    assert source is not None, f"{page} has no example {name}"
    module = sys.modules.setdefault(into, types.ModuleType(into))
    exec(compile(source[1], f"{page}: {name}", "exec"), module.__dict__)
    return module


ACTION = example("write-an-action.md", "action", "howto_action")
example("write-a-driver.md", "driver", "howto_driver")
TestFileServing = example("write-a-driver.md", "suite", "howto_driver").TestFileServing


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ProcessScheduler]:
    scheduler = ProcessScheduler(SITE, ProcessOptions(directory=str(tmp_path)))
    yield scheduler
    if (tmp_path / JOB).exists():
        scheduler.kill(JOB, stamp=STAMP)


def outcomes(site: ProcessScheduler) -> tuple:
    ports = Switchboard(schedulers={SITE: site}, trainings={}, traffics={}, servings={}, metrics=None, vaults=None)
    action, params = ACTION.AwaitJob(ports), ACTION.AwaitJobParams(site=SITE, job=JOB)
    return action.precheck(params, CALL), action.verify(params, CALL)


def test_action_refuses_a_job_that_was_never_started(site: ProcessScheduler) -> None:
    assert isinstance(outcomes(site)[0], Failed)


@pytest.mark.parametrize(("script", "end"), [("exit 0", Done({"exit_code": 0})), ("exit 3", Failed)])
def test_action_waits_for_the_end_and_tells_good_from_bad(site: ProcessScheduler, script: str, end: object) -> None:
    site.start(JobSpec(name=JOB, command=("sh", "-c", f"sleep 0.2; {script}")), stamp=STAMP)
    while isinstance(seen := outcomes(site)[1], Pending):
        continue
    assert outcomes(site)[0] == Done()
    assert seen == end or (end is Failed and isinstance(seen, Failed) and "code 3" in seen.reason)


def test_action_is_patient_while_the_job_runs(site: ProcessScheduler) -> None:
    site.start(JobSpec(name=JOB, command=("sleep", "60")), stamp=STAMP)
    assert isinstance(outcomes(site)[1], Pending)
