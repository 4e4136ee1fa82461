"""A service of bench/restore_orchestration.py: restores its data from the site's vault, looks for what it needs, then answers.

``restored_service.py NAME PORT VAULT SNAPSHOT DIGEST LOG WARM_S [NEED=PORT ...]``; SNAPSHOT ``-`` is the newest one of NAME.

It writes into LOG, which all of them share, when it began, what it needs and does not answer at that moment (a violation of the order),
when its data were there, and when it works. Nothing of the controller takes part in that log. It answers ``/healthz`` only when it works.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ASK_S = 2.0


class Log:
    """One line for each thing, appended in one write, so that lines of several processes do not mix."""

    def __init__(self, path: str, name: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._name = name

    def __call__(self, what: str, about: str = "") -> None:
        line = json.dumps({"at_s": time.time(), "service": self._name, "what": what, "about": about}) + "\n"
        os.write(self._file, line.encode())


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=ASK_S) as answer:
            return bool(json.load(answer)["warm"])
    except OSError:
        return False


def restore(name: str, vault: str, snapshot: str, digest: str, to: Path) -> str:
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
    from bridgehead.vault import Vault

    opened = Vault.open(LocalBlobs(LocalBlobsOptions(vault)))
    newest = opened.newest(name)
    wanted = snapshot if snapshot != "-" or newest is None else newest.id
    opened.restore(wanted, to=to, sync=False)
    with open(to / "data.bin", "rb") as file:
        if hashlib.file_digest(file, "blake2b").hexdigest() != digest:
            raise SystemExit(f"{name}: these are not its data")
    return wanted


def main() -> None:
    name, port, vault, snapshot, digest, log_path, warm_s, *needs = sys.argv[1:]
    log = Log(log_path, name)
    log("began")
    ports = {need.partition("=")[0]: int(need.partition("=")[2]) for need in needs}
    for need, its_port in ports.items():
        if not answers(its_port):
            log("violation", need)
    held = restore(name, vault, snapshot, digest, Path("data"))
    log("data")
    while not all(answers(its_port) for its_port in ports.values()):
        time.sleep(0.05)
    time.sleep(float(warm_s))
    body = json.dumps({"warm": True, "model_hash": digest[:64], "snapshot": held}).encode()

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Health)
    log("works")
    server.serve_forever()


if __name__ == "__main__" and len(sys.argv) > 1:
    main()
