"""Conformance suite of the metrics port (M7.3; G01-G03). A driver inherits the class and gives it a rig."""

from __future__ import annotations

import abc

import pytest

from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.metrics import Metrics

A, B = SiteId("a"), SiteId("b")
SERVICE = ServiceId("chat")


class MetricsRig(abc.ABC):
    """A source of counters for service ``chat`` at sites ``a`` and ``b``."""

    @abc.abstractmethod
    def driver(self) -> Metrics:
        """The driver on this source."""

    @abc.abstractmethod
    def show(self, counters: dict[SiteId, dict[str, float]]) -> None:
        """From now on the source knows exactly these."""

    @abc.abstractmethod
    def unplug(self) -> None:
        """From now on the source cannot be read."""


class MetricsSuite:
    """What every metrics driver must do. Override the fixture ``rig``."""

    @pytest.fixture
    def rig(self) -> MetricsRig:
        """A fresh source; its teardown ends what the test started."""
        raise NotImplementedError

    def test_reads_the_counters_of_each_site(self, rig: MetricsRig) -> None:
        """And does not mix them."""
        rig.show({A: {"requests_total": 120.0, "errors_total": 3.0}, B: {"requests_total": 7.0, "errors_total": 0.0}})
        metrics = rig.driver()
        assert metrics.read(SERVICE, A).counters == {"requests_total": 120.0, "errors_total": 3.0}
        assert metrics.read(SERVICE, B).counters == {"requests_total": 7.0, "errors_total": 0.0}

    def test_follows_the_source(self, rig: MetricsRig) -> None:
        """Each reading is a new one, and says when."""
        metrics = rig.driver()
        rig.show({A: {"requests_total": 1.0}, B: {}})
        first = metrics.read(SERVICE, A)
        rig.show({A: {"requests_total": 5.0}, B: {}})
        second = metrics.read(SERVICE, A)
        assert (first.counters["requests_total"], second.counters["requests_total"]) == (1.0, 5.0)
        assert second.read_s >= first.read_s

    def test_G03_missing_counter_is_absent_and_never_0(self, rig: MetricsRig) -> None:
        """An error counter appears with the first error only."""
        rig.show({A: {"requests_total": 9.0}, B: {}})
        assert rig.driver().read(SERVICE, A).counters == {"requests_total": 9.0}
        assert rig.driver().read(SERVICE, B).counters == {}

    def test_G02_unknown_service_or_site_is_no_data(self, rig: MetricsRig) -> None:
        """Not an error, not 0."""
        rig.show({A: {"requests_total": 9.0}, B: {"requests_total": 9.0}})
        assert rig.driver().read(ServiceId("unknown"), A).counters == {}
        assert rig.driver().read(SERVICE, SiteId("c")).counters == {}

    def test_G01_source_that_cannot_be_read_is_transient(self, rig: MetricsRig) -> None:
        """Never an empty reading."""
        metrics = rig.driver()
        rig.show({A: {"requests_total": 9.0}, B: {}})
        metrics.read(SERVICE, A)
        rig.unplug()
        with pytest.raises(Transient):
            metrics.read(SERVICE, A)
