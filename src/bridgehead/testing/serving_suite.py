"""Conformance suite of the serving port. A driver inherits the class and gives it a rig."""

from __future__ import annotations

import abc

import pytest

from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.serving import Serving, ServingHealth

A, B = SiteId("a"), SiteId("b")
SERVICE = ServiceId("chat")
COLD = ServingHealth(warm=False, model_hash="", snapshot="")
WARM = ServingHealth(warm=True, model_hash="5f3a", snapshot="job@10.1-ab")


class ServingRig(abc.ABC):
    """Backends of service ``chat`` at sites ``a`` and ``b``."""

    @abc.abstractmethod
    def driver(self) -> Serving:
        """The driver for these backends."""

    @abc.abstractmethod
    def show(self, site: SiteId, health: ServingHealth) -> None:
        """What the site's backend says of itself from now on."""

    @abc.abstractmethod
    def unplug(self, site: SiteId) -> None:
        """The site's backend does not answer any more."""


class ServingSuite:
    """What every serving driver must do. Override the fixture ``rig``."""

    @pytest.fixture
    def rig(self) -> ServingRig:
        """Fresh backends; its teardown ends what the test started."""
        raise NotImplementedError

    def test_reports_each_backend_as_it_is_now(self, rig: ServingRig) -> None:
        """A cold one is an answer, not an error; nothing is kept from earlier."""
        rig.show(A, WARM)
        rig.show(B, COLD)
        serving = rig.driver()
        assert serving.health(SERVICE, A) == WARM
        assert serving.health(SERVICE, B) == COLD
        rig.show(A, COLD)
        rig.show(B, WARM)
        assert serving.health(SERVICE, A) == COLD
        assert serving.health(SERVICE, B) == WARM

    def test_unknown_backend_is_not_found(self, rig: ServingRig) -> None:
        """Service or site."""
        with pytest.raises(NotFound):
            rig.driver().health(ServiceId("unknown"), A)
        with pytest.raises(NotFound):
            rig.driver().health(SERVICE, SiteId("c"))

    def test_J01_backend_that_does_not_answer_is_transient(self, rig: ServingRig) -> None:
        """It may still be starting; the other one is seen all the same."""
        rig.show(A, WARM)
        rig.show(B, WARM)
        rig.unplug(A)
        with pytest.raises(Transient):
            rig.driver().health(SERVICE, A)
        assert rig.driver().health(SERVICE, B) == WARM
