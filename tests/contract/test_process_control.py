"""Training control through files keeps the port's contract."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.process.control import FileTrainingControl
from bridgehead.kernel.errors import Conflict, Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.training import Continue, OrderEnvelope, SaveAndHold
from bridgehead.testing.training_suite import JOB, REPORT, TrainingControlSuite, stamp

SITE = SiteId("site-a")


class TestFileTrainingControl(TrainingControlSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "control"

    @pytest.fixture
    def control(self) -> FileTrainingControl:
        return FileTrainingControl(SITE, str(self.directory))

    def report(self, control, job, progress):
        folder = Path(control.folder(job))
        folder.mkdir(exist_ok=True)
        (folder / "new").write_bytes(msgspec.json.encode(progress))
        (folder / "new").rename(folder / "progress.json")

    def received(self, control, job):
        path = Path(control.folder(job)) / "order.json"
        return msgspec.json.decode(path.read_bytes(), type=OrderEnvelope) if path.exists() else None

    def tear_report(self, control, job):
        path = Path(control.folder(job)) / "progress.json"
        path.write_bytes(path.read_bytes()[:-7])

    def reopened(self, control):
        return FileTrainingControl(SITE, str(self.directory))

    @contextmanager
    def blinded(self, control):
        away = self.directory.with_name("away")
        self.directory.rename(away)
        self.directory.mkdir()  # what an unmounted file system leaves
        yield
        self.directory.rmdir()
        away.rename(self.directory)

    def test_an_id_used_for_two_different_orders_is_refused(self, control):
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        with pytest.raises(Conflict, match="o1 was already given"):
            control.request(JOB, Continue(), order_id="o1", stamp=stamp())
        assert self.received(control, JOB) == OrderEnvelope(id="o1", order=SaveAndHold())

    @pytest.mark.parametrize("text", ["", "{}", "null", "[1", '{"state":"dancing"}'])
    def test_what_is_no_report_is_no_answer(self, control, text):
        self.report(control, JOB, REPORT)
        (Path(control.folder(JOB)) / "progress.json").write_text(text)
        with pytest.raises(Transient, match=r"torn or not valid"):
            control.progress(JOB)

    def test_a_reader_never_sees_half_an_order(self, control):
        control.request(JOB, SaveAndHold(), order_id="o0", stamp=stamp())
        with open(Path(control.folder(JOB)) / "order.json", "rb") as before:
            control.request(JOB, Continue(), order_id="o1" * 1000, stamp=stamp())
            # the file that a reader had open is still the old one, whole: the new one came by rename
            assert msgspec.json.decode(before.read(), type=OrderEnvelope).id == "o0"
        assert self.received(control, JOB).id == "o1" * 1000

    def test_a_name_that_is_no_file_name_is_refused(self, control):
        for name in ("..", "a/b", ""):
            with pytest.raises(Permanent):
                control.request(JobName(name), SaveAndHold(), order_id="o1", stamp=stamp())

    def test_the_directory_of_another_site_is_refused(self, control):
        with pytest.raises(Permanent, match="belongs to site site-a"):
            FileTrainingControl(SiteId("site-b"), str(self.directory))
