"""The demo's programs as processes: trainer, inference server, load."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import aiohttp
import msgspec
import pytest

from bridgehead.app.demo import corpus
from bridgehead.app.demo.load import Expected, LoadGenerator, LoadOptions, expected_from
from bridgehead.app.demo.records import FILE_NAME, SUMMARY_NAME, LoadSummary, Outcome, read_records
from bridgehead.app.demo.trainer import LossLine
from bridgehead.drivers.httpserving import HttpServing, HttpServingOptions
from bridgehead.drivers.prometheus import TextMetrics, TextMetricsOptions
from bridgehead.kernel.ids import ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.testing.servers import free_port
from bridgehead.training import create_vault

W, HERE, CHAT = WorkloadId("lm"), SiteId("here"), ServiceId("chat")
ENV = {"OPENBLAS_NUM_THREADS": "1"}


def run(module: str, *arguments: object, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"bridgehead.app.demo.{module}", *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, **ENV, **(env or {})})


def train(tmp_path: Path, until: int, *flags: str, pace: float = 0.0, save_every: int = 20, epoch: int = 0) -> subprocess.Popen[bytes]:
    if not (tmp_path / "corpus").exists():
        corpus.write(tmp_path / "corpus", size_bytes=300_000)
    env = {
        "BRIDGEHEAD_VAULT": str(tmp_path / "vault"),
        "BRIDGEHEAD_WORKLOAD": W,
        "BRIDGEHEAD_SITE": HERE,
        "BRIDGEHEAD_CONTROL": str(tmp_path / "control"),
        "BRIDGEHEAD_SAVE_EVERY_STEPS": str(save_every),
        "BRIDGEHEAD_EPOCH": str(epoch),
    }
    arguments = ["--until", until, "--pace", pace, "--losses", tmp_path / "losses.jsonl", "--corpus", tmp_path / "corpus", *flags]
    return run("trainer", *arguments, env=env)


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]):
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def until(look, within_s: float = 30.0):
    deadline_s = time.monotonic() + within_s
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, FileNotFoundError):
            value = look()
            if value:
                return value
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SnapshotId]:
    folder = tmp_path_factory.mktemp("trained")
    vault = create_vault(folder / "vault")
    with ended(train(folder, 60)) as trainer:
        assert trainer.wait(60) == 0
    return folder, vault.newest(W).id


@contextlib.contextmanager
def serving(trained, folder: Path, *flags: str):
    source, snapshot = trained
    where = ["--port-file", folder / "port", "--vault", source / "vault"]
    server = run("server", "--site", HERE, "--service", CHAT, *where, "--snapshot", snapshot, *flags)
    with ended(server):
        port = int(until(lambda: (folder / "port").read_text()))
        url = f"http://127.0.0.1:{port}"
        until(lambda: json.load(urllib.request.urlopen(f"{url}/healthz", timeout=5))["warm"])
        yield server, url


def load_for(url: str, expected: Expected, seconds_s: float, folder: Path, rate_per_s: float = 100.0) -> tuple[LoadGenerator, LoadSummary]:
    async def play() -> tuple[LoadGenerator, LoadSummary]:
        with (folder / FILE_NAME).open("wb") as records:
            options = LoadOptions(url=url, rate_per_s=rate_per_s, stream_s=(0.2, 0.4))
            generator = LoadGenerator(options, expected, records)
            stop = asyncio.Event()
            asyncio.get_running_loop().call_later(seconds_s, stop.set)
            return generator, await generator.run(stop)

    return asyncio.run(play())


def test_trainer_logs_its_losses_saves_and_goes_on(trained, tmp_path: Path) -> None:
    source, snapshot = trained
    lines = [msgspec.json.decode(line, type=LossLine) for line in (source / "losses.jsonl").read_bytes().splitlines()]
    assert [line.step for line in lines] == list(range(1, 61))
    assert lines[-1].loss < 0.9 * lines[0].loss
    assert snapshot.startswith("lm@60.0-")
    create_vault(tmp_path / "vault")
    for end in (25, 60):  # stopped and started again at 25
        with ended(train(tmp_path, end)) as trainer:
            assert trainer.wait(60) == 0
    assert expected_from(tmp_path / "vault", newest(tmp_path)).model_hash == expected_from(source / "vault", snapshot).model_hash


def test_trainer_at_a_pace_stops_on_sigterm_with_its_last_state_saved(tmp_path: Path) -> None:
    create_vault(tmp_path / "vault")
    with ended(train(tmp_path, 100_000, pace=50.0, save_every=0)) as trainer:
        until(lambda: (tmp_path / "losses.jsonl").read_bytes().count(b"\n") > 20)
        begin_s = time.monotonic()
        trainer.terminate()
        assert trainer.wait(30) == 0
        assert time.monotonic() - begin_s < 5
    lines = [msgspec.json.decode(line, type=LossLine) for line in (tmp_path / "losses.jsonl").read_bytes().splitlines()]
    assert (lines[-1].at_s - lines[0].at_s) / (len(lines) - 1) > 0.9 / 50
    assert newest(tmp_path).startswith(f"lm@{lines[-1].step}.0-")


def test_J05_deaf_trainer_ignores_orders_and_fences_and_is_harmless(tmp_path: Path) -> None:
    vault = create_vault(tmp_path / "vault")
    with ended(train(tmp_path, 20)) as trainer:
        assert trainer.wait(60) == 0
    counted = vault.newest(W).id
    vault.fence(Fence(workload=W, epoch=1, holder=SiteId("there"), counts=(counted,), opened_by="r/1", opened_s=1.0))
    (tmp_path / "control" / "order.json").write_text('{"id":"o1","order":{"type":"save-and-hold"}}')
    with ended(train(tmp_path, 60, "--ignore-orders")) as zombie:
        assert zombie.wait(60) == 0
    assert vault.newest(W).id == counted
    assert b'"obeyed":""' in (tmp_path / "control" / "progress.json").read_bytes()
    (tmp_path / "control" / "order.json").unlink()
    (tmp_path / "losses.jsonl").unlink()
    with ended(train(tmp_path, 60)) as obedient:
        assert obedient.wait(60) == 0
    assert (tmp_path / "losses.jsonl").read_bytes().count(b"\n") == 1, "one that listens stops for the fence"


def test_server_says_what_it_serves_and_answers_rightly(trained, tmp_path: Path) -> None:
    source, snapshot = trained
    expected = expected_from(source / "vault", snapshot)
    with serving(trained, tmp_path) as (_, url):
        health = HttpServing(HttpServingOptions(backends={CHAT: {HERE: url}})).health(CHAT, HERE)
        assert (health.warm, health.model_hash, health.snapshot) == (True, expected.model_hash, snapshot)
        generator, summary = load_for(url, expected, 2.0, tmp_path)
        assert summary.sent > 150
        assert (summary.failed, summary.wrong, summary.cut) == (0, 0, 0)
        assert 0.05 * summary.sent < summary.streams < 0.4 * summary.sent
        assert len(read_records(tmp_path)) == summary.sent == generator.counters.sites[HERE].requests
        source_of = TextMetricsOptions(sources={CHAT: {HERE: {"url": f"{url}/metrics", "labels": {"service": CHAT, "site": HERE}}}})
        counters = TextMetrics(msgspec.convert(msgspec.to_builtins(source_of), TextMetricsOptions)).read(CHAT, HERE).counters
        assert (counters["requests_total"], counters["errors_total"]) == (summary.sent, 0)
        for body, status in [(b"{}", 400), (b"no", 400), (b'{"prompt":"a","n":0}', 400), (b'{"prompt":"a","n":2}', 200)]:
            assert post(f"{url}/v1/answer", body) == status
        with urllib.request.urlopen(f"{url}/v1/stream?prompt=def+&n=3&over_s=0.1", timeout=10) as response:
            events = response.read().decode()
        assert response.headers["X-Site"] == HERE
        assert events.count("data: ") == 4
        assert events.endswith('event: done\ndata: {"count":3}\n\n')


def test_server_that_answers_wrongly_looks_healthy_and_is_found_out(trained, tmp_path: Path) -> None:
    source, snapshot = trained
    expected = expected_from(source / "vault", snapshot)
    with serving(trained, tmp_path, "--wrong") as (_, url):
        generator, summary = load_for(url, expected, 1.0, tmp_path)
    assert summary.wrong == summary.sent > 0
    assert generator.counters.sites[HERE].wrong == summary.sent
    assert all(record.outcome is Outcome.WRONG and "is right" in record.why for record in read_records(tmp_path))


def test_server_with_another_model_is_found_out(trained, tmp_path: Path) -> None:
    source, snapshot = trained
    expected = msgspec.structs.replace(expected_from(source / "vault", snapshot), model_hash="0" * 64)
    with serving(trained, tmp_path) as (_, url):
        _, summary = load_for(url, expected, 0.5, tmp_path)
    assert summary.wrong == summary.sent - summary.streams


def test_server_finishes_open_streams_before_it_ends(trained, tmp_path: Path) -> None:
    async def stream_over_a_stop(server: subprocess.Popen[bytes], url: str) -> bytes:
        question = {"prompt": "a", "n": 20, "over_s": 1.5}
        async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/stream", json=question) as response:
            await response.content.readline()
            server.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            with pytest.raises(aiohttp.ClientConnectorError):
                await client.get(f"{url}/healthz", headers={"Connection": "close"})
            assert server.poll() is None
            return await response.content.read()

    with serving(trained, tmp_path) as (server, url):
        rest = asyncio.run(stream_over_a_stop(server, url))
        assert rest.endswith(b'event: done\ndata: {"count":20}\n\n')
        assert server.wait(10) == 0


def test_cold_server_refuses(trained, tmp_path: Path) -> None:
    source, _ = trained
    arguments = ["--site", HERE, "--service", CHAT, "--port-file", tmp_path / "port", "--vault", source / "vault"]
    with ended(run("server", *arguments, "--snapshot", "lm@9.0-0123456789abcdef")) as server:
        assert server.wait(20) == 1, "a snapshot that is not there ends it"
    (tmp_path / "port").unlink()
    with ended(run("server", *arguments, "--snapshot", trained[1], "--warm-up", "100000")):
        url = f"http://127.0.0.1:{int(until(lambda: (tmp_path / 'port').read_text()))}"
        until(lambda: json.load(urllib.request.urlopen(f"{url}/healthz", timeout=5))["model_hash"])
        assert not json.load(urllib.request.urlopen(f"{url}/healthz", timeout=5))["warm"]
        assert post(f"{url}/v1/answer", b'{"prompt":"a"}') == 503
        assert post(f"{url}/v1/stream", b'{"prompt":"a"}') == 503


def test_load_finds_cut_streams_and_refused_connections(trained, tmp_path: Path) -> None:
    source, snapshot = trained
    expected = expected_from(source / "vault", snapshot)
    with serving(trained, tmp_path) as (server, url):
        timer = subprocess.Popen([sys.executable, "-c", f"import os,time; time.sleep(1); os.kill({server.pid}, 9)"])
        _, summary = load_for(url, expected, 2.0, tmp_path)
        timer.wait()
    assert summary.failed > 0
    assert summary.cut > 0
    assert summary.wrong == 0
    assert summary.sent == summary.failed + summary.cut + sum(r.outcome is Outcome.OK for r in read_records(tmp_path))


def test_load_program_writes_records_and_totals_and_ends_on_sigterm(trained, tmp_path: Path) -> None:
    source, snapshot = trained
    with serving(trained, tmp_path) as (_, url):
        port = free_port()
        what = ["--url", url, "--vault", source / "vault", "--snapshot", snapshot]
        arguments = [*what, "--metrics-port", port, "--rate", 50, "--out", tmp_path / "out"]
        with ended(run("load", *arguments)) as load:
            until(lambda: b"requests_total{" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read())
            time.sleep(0.5)
            load.send_signal(signal.SIGTERM)
            assert load.wait(20) == 0
    summary = msgspec.json.decode((tmp_path / "out" / SUMMARY_NAME).read_bytes(), type=LoadSummary)
    assert summary.sent == len(read_records(tmp_path / "out")) > 0
    assert (summary.failed, summary.wrong, summary.cut, summary.skipped) == (0, 0, 0, 0)


def newest(folder: Path) -> SnapshotId:
    from bridgehead.training import open_vault

    return open_vault(folder / "vault").newest(W).id


def post(url: str, body: bytes) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
