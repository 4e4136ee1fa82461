"""Places: the folders and ports of a demo; everything lies in one folder and listens on loopback."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, WorkloadId

SOURCE = SiteId("site-a")
TARGET = SiteId("site-b")
SITES = (SOURCE, TARGET)
INFRA = SiteId("between")
"""Not a site: proxy, load, blob servers and relays of the demo run under a scheduler of their own."""
WORKLOAD = WorkloadId("lm")
PLAIN = WorkloadId("lm-plain")
"""The same training, moved the plain way (stop, copy, start), for comparison."""
UNMOVED = WorkloadId("lm-unmoved")
"""The same training, never moved."""
SERVICE = ServiceId("chat")


class Ports(msgspec.Struct, frozen=True):
    """TCP ports on loopback. Free when they were chosen."""

    web: int
    admin: int
    backend: dict[SiteId, int]
    probe: int


class Places:
    """Paths below one folder.

    Args:
        root: an empty folder, made when absent.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.home = self.root / "home"
        self.proxy = self.root / "proxy"
        self.wan = self.root / "wan"
        self.load = self.root / "load"
        self.log = self.root / "log"
        for folder in (self.root, self.proxy, self.wan, self.load, self.log, *(self.vault(site) for site in SITES)):
            folder.mkdir(parents=True, exist_ok=True)

    def jobs(self, site: SiteId) -> Path:
        """State of the site's scheduler."""
        return self.root / site / "jobs"

    def control(self, site: SiteId) -> Path:
        """Where trainers of the site get orders and report."""
        return self.root / site / "control"

    def vault(self, site: SiteId) -> Path:
        """The site's vault."""
        return self.root / site / "vault"

    def losses(self, job: JobName) -> Path:
        """What a trainer logs: a line for each step."""
        return self.log / f"{job}.losses.jsonl"

    @property
    def cut_file(self) -> Path:
        """While this file exists, the link between the sites is cut."""
        return self.wan / "cut"

    @property
    def estate(self) -> Path:
        """The estate file of the demo."""
        return self.root / "estate.yaml"

    @property
    def runbook(self) -> Path:
        """The runbook file of the demo."""
        return self.root / "move.yaml"


def free_ports() -> Ports:
    """Ports that are free now; all are held at once while choosing, so that they differ."""
    sockets = [socket.socket() for _ in range(5)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        web, admin, source, target, probe = (one.getsockname()[1] for one in sockets)
    finally:
        for one in sockets:
            one.close()
    return Ports(web, admin, {SOURCE: source, TARGET: target}, probe)
