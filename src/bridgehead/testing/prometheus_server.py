"""A real Prometheus for tests: scrapes pages of this machine into a folder of its own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from bridgehead.drivers.prometheus import PrometheusApi
from bridgehead.host.web import WebAccess
from bridgehead.kernel.errors import PortError
from bridgehead.testing import servers

SCRAPE_S = 0.5
"""Between two scrapes, and the longest that one may take: on a busy machine a shorter one would find its targets down at times."""


@contextlib.contextmanager
def prometheus(targets: Mapping[str, str], *, folder: Path, web: Mapping[str, object] | None = None) -> Iterator[str]:
    """Yields the URL of a server that scrapes ``targets``, by job: ``host:port/path``. Its first scrape takes a moment.

    Args:
        web: its file of TLS and logins (``--web.config.file``); the server is then taken as ready when it listens.
    """
    jobs = []
    for job, target in targets.items():
        address, _, path = target.partition("/")
        jobs.append({"job_name": job, "metrics_path": f"/{path}", "static_configs": [{"targets": [address]}]})
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": f"{round(SCRAPE_S * 1000)}ms", "scrape_timeout": f"{round(SCRAPE_S * 1000)}ms"},
                "scrape_configs": jobs,
            }
        )
    )
    address = f"127.0.0.1:{servers.free_port()}"
    command = [
        shutil.which("prometheus") or "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    if web is not None:
        (folder / "web.yml").write_text(yaml.safe_dump(dict(web)))
        command.append(f"--web.config.file={folder / 'web.yml'}")
    api = PrometheusApi(f"http://{address}", access=WebAccess(), timeout_s=2.0)

    def ready() -> bool:
        if web is not None:
            return servers.listens(address)
        try:
            return api.value("vector(1)") == 1.0
        except PortError:
            return False

    with servers.running(command, log=folder / "prometheus.log", ready=ready):
        yield f"http://{address}"
