"""The watch of a service that was moved, and of a vault with many snapshots: what serves is where its traffic goes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.app.home import Home
from bridgehead.app.watch import Watch, order_for
from bridgehead.app.watch_scope import ScopeFiles
from bridgehead.drivers.httpblobs.server import BlobServer
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.finding import FindingStatus
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.readiness import WatchReport
from bridgehead.vault import Vault
from bridgehead.vault.replicate import Pace, replicate

A, B, CHAT = SiteId("site-a"), SiteId("site-b"), WorkloadId("chat-model")
ESTATE = """estate: two
sites:
  site-a: {{connections: {{vault: {{driver: localfs, directory: {folder}/site-a}}}}}}
  site-b: {{connections: {{vault: {{driver: localfs, directory: {folder}/site-b}}}}}}
links:
  north: {{between: [site-a, site-b], rate: 1 Gbps}}
workloads:
  chat-model: {{kind: inference, site: site-a}}
services:
  chat:
    sites: [site-a, site-b]
    workload: chat-model
    traffic:
      driver: haproxy
      socket: {folder}/proxy
      state_file: {folder}/weights.json
      services:
        chat:
          listen: "127.0.0.1:1"
          sites: {{site-a: "127.0.0.1:2", site-b: "127.0.0.1:3"}}
          initial: {{site-a: 100, site-b: 0}}
    serving: {{driver: http, backends: {{chat: {{site-a: "http://127.0.0.1:2", site-b: "http://127.0.0.1:3"}}}}}}
"""


class Proxy:
    """Answers at haproxy's socket with the weights in force."""

    def __init__(self, path: Path) -> None:
        self.weights = {A: 100, B: 0}
        self._path, self._server = path, socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._path.unlink()
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                rows = "".join(f"{site} 0 {weight}\n" for site, weight in self.weights.items())
                connection.sendall(f"1\n# srv_name srv_admin_state srv_uweight\n{rows}".encode())


class Bed:
    """Two sites that hold the model, and a proxy that says where the traffic goes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now_s = folder, time.time()
        vaults = []
        for site in (A, B):
            (folder / site).mkdir()
            vaults.append(Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / site)))))
        here, there = vaults
        model = here.save({"w": os.urandom(5000)}, workload=CHAT, step=60, epoch=Epoch(0), site=A).snapshot
        assert replicate(model, source=here.place, target=there.place, pace=Pace(30.0, time.monotonic, lambda _: None)) == 0
        here.receipt(model.id, site=A)
        there.receipt(model.id, site=B)
        (folder / "estate.yaml").write_text(ESTATE.format(folder=folder))
        self.proxy = Proxy(folder / "proxy")

    def watch(self, *, budget_s: float = 10.0) -> Watch:
        order = order_for(observer="o", every_s=10.0, grace_s=120.0, observers=2, lead_s=900.0, alone=True, budget_s=budget_s)
        return Watch(ScopeFiles(self.folder / "estate.yaml"), Home(self.folder / "home"), order, now_s=lambda: self.now_s)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    yield made
    if (tmp_path / "proxy").exists():
        made.proxy.close()


def findings(made: WatchReport) -> dict[str, WatchFinding]:
    return {one.key: one for one in made.findings}


def test_a_moved_service_is_judged_where_its_traffic_goes(bed: Bed) -> None:
    with bed.watch() as watch:
        before = watch.look()
        assert (before.workloads[0].site, before.workloads[0].recovery_site) == (A, B)
        assert findings(before)["WCH-BACKEND chat@site-b"].status is FindingStatus.PASS, "nothing goes there"
        bed.proxy.weights = {A: 0, B: 100}
        bed.now_s += 10
        after = watch.look()
        assert (after.workloads[0].site, after.workloads[0].recovery_site) == (B, A)
        told = findings(after)
        assert "WCH-RPO chat-model@site-a" not in told
        assert told["WCH-RPO chat-model@site-b"].text == "site-a has all of it (step 60)"
        assert told["WCH-SNAPSHOT chat-model@site-b"].text.startswith("the newest usable snapshot is of step 60")
        assert told["WCH-BACKEND chat@site-a"].text.startswith("0 % of the traffic")
        assert told["WCH-BACKEND chat@site-a"].status is FindingStatus.PASS
        assert told["WCH-BACKEND chat@site-b"].status is FindingStatus.UNKNOWN, "it does not answer, and all goes there"


def test_while_the_proxy_cannot_be_read_nobody_says_where_the_service_is(bed: Bed) -> None:
    with bed.watch() as watch:
        bed.proxy.weights = {A: 0, B: 100}
        watch.look()
        bed.proxy.close()
        bed.now_s += 10
        assert findings(watch.look())["WCH-RPO chat-model@site-b"].status is FindingStatus.PASS, "it was read a moment ago"
        bed.now_s += 200
        made = watch.look()
    told = findings(made)
    for code in ("RPO", "SNAPSHOT"):
        finding = told[f"WCH-{code} chat-model@site-b"]
        assert (finding.status, finding.value) == (FindingStatus.UNKNOWN, None)
        assert finding.text.startswith("where chat-model is cannot be told: the proxy of chat is not known")
        assert finding.measurement
    [line] = made.workloads
    assert (line.site, line.newest, line.copy, line.lost_s, line.drill) == (B, None, None, None, None)


def test_a_vault_that_answers_too_slowly_says_so_and_what_helps(bed: Bed) -> None:
    """A store that is far: each record takes a while, and the look has no time."""

    class Far(LocalBlobs):
        def get(self, key: str) -> bytes:
            if key.startswith("snapshots/"):
                time.sleep(0.2)
            return super().get(key)

    vault = Vault.open(LocalBlobs(LocalBlobsOptions(str(bed.folder / B))))
    for step in range(100, 125):
        vault.save({"w": b"x"}, workload=CHAT, step=step, epoch=Epoch(0), site=B)
    with BlobServer(Far(LocalBlobsOptions(str(bed.folder / B)))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = (bed.folder / "estate.yaml").read_text()
        local = f"driver: localfs, directory: {bed.folder}/site-b"
        assert local in text
        (bed.folder / "estate.yaml").write_text(text.replace(local, f'driver: http, url: "http://127.0.0.1:{server.server_port}"'))
        with bed.watch(budget_s=0.4) as watch:
            told = findings(watch.look())["WCH-COVER chat-model"]
        server.shutdown()
    assert told.status is FindingStatus.UNKNOWN
    assert "no answer within 0.4 s; it is slow: 26 snapshots: give it longer (`watch --timeout`)" in told.text
    assert "vault retain" in told.text
