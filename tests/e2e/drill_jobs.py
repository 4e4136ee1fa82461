"""Jobs for drills: ``drill_jobs.py train`` is a trainer of a few bytes, ``drill_jobs.py serve --port P --snapshot S`` a server of it."""

from __future__ import annotations

import argparse
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from bridgehead.kernel.ids import SnapshotId
from bridgehead.ports.serving import ServingHealth
from bridgehead.training import Session, open_vault


def train(log: Path) -> None:
    """Steps of 20 ms, each with a line in the log."""
    with Session.from_env() as session:
        state = session.restore() or {"weights": ""}
        for step in session.steps(1_000_000):
            time.sleep(0.02)
            with log.open("a") as lines:
                lines.write(f"{step}\n")
            if session.should_checkpoint(step):
                session.save(step, state)
            if session.should_stop():
                break


def serve(port: int, snapshot: SnapshotId) -> None:
    """Say that it is warm, whatever is asked."""
    loaded = open_vault(Path(os.environ["BRIDGEHEAD_VAULT"])).load(snapshot)
    report = msgspec.json.encode(ServingHealth(warm=bool(loaded), model_hash=snapshot.rpartition("-")[2], snapshot=snapshot))

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(report)))
            self.end_headers()
            self.wfile.write(report)

    ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "serve"])
    parser.add_argument("--log", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--snapshot", default="")
    words = parser.parse_args()
    if words.what == "train":
        train(words.log)
    else:
        serve(words.port, SnapshotId(words.snapshot))
