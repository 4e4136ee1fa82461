"""Load: clients of the demo's service, ``python -m bridgehead.app.demo.load``.

Requests come at a steady rate, whatever the server does (open loop), in sessions that keep the proxy's cookie; a fifth of them are streams
of some seconds, a fifth come on fresh connections. Every answer is compared with what the model of the snapshot says. The counts by site on
``/metrics`` are what gates read. SIGTERM: no new request, the open ones end, records and totals are written.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import aiohttp
import msgspec
from aiohttp import web

from bridgehead.app.demo.counters import Counters
from bridgehead.app.demo.places import SERVICE
from bridgehead.app.demo.records import FILE_NAME, SUMMARY_NAME, UNKNOWN_SITE, Kind, LoadSummary, Outcome, Record
from bridgehead.kernel.ids import SnapshotId
from bridgehead.kernel.streams import stream

PROMPTS = 200
STREAM_TOKENS = 24
ANSWER_TOKENS = (6, 8, 12, 16)
STREAM_SHARE = FRESH_SHARE = 0.2
SESSION_REQUESTS = (5, 10)
STREAM_S = (2.0, 4.0)
TIMEOUT_S = 20.0
BEHIND_S = 0.5
"""A generator that is further behind its schedule gives the missed requests up, for a burst would measure itself."""


class Expected(msgspec.Struct, frozen=True):
    """What a correct server answers: the first tokens after each prompt, from the weights of the snapshot."""

    model_hash: str
    tokens: dict[str, list[str]]


class LoadOptions(msgspec.Struct, frozen=True):
    """How much, and where to. ``max_open`` bounds requests that are open at once."""

    url: str
    rate_per_s: float = 220.0
    seed: int = 1
    max_open: int = 800
    stream_s: tuple[float, float] = STREAM_S


class _Session(msgspec.Struct):
    id: int
    left: int
    sent: int = 0
    cookie: str = ""


class LoadGenerator:
    """Sends requests until it is told to stop; writes each as a record and counts it by site."""

    def __init__(self, options: LoadOptions, expected: Expected, records: BinaryIO, *, service: str = SERVICE) -> None:
        self.counters = Counters(service)
        self.outcomes: Counter[Outcome] = Counter()
        self._options = options
        self._expected = expected
        self._prompts = list(expected.tokens)
        self._records = records
        self._encoder = msgspec.json.Encoder()
        self._random = stream(options.seed, "load")
        self._resting: deque[_Session] = deque()
        self._sessions = self._streams = self._skipped = 0

    async def run(self, stop: asyncio.Event) -> LoadSummary:
        """Send until ``stop`` is set, then wait for what is open."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(connector=_connector(False), timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as kept,
            aiohttp.ClientSession(connector=_connector(True), timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as fresh,
            asyncio.TaskGroup() as open_requests,
        ):
            for client in (kept, fresh):
                # Otherwise a GET that lost its connection would be sent again unseen, and a lost request would not count as lost.
                client._retry_connection = False
            await self._send_at_rate(stop, kept, fresh, open_requests)
        return LoadSummary(
            sent=self.outcomes.total(),
            failed=self.outcomes[Outcome.FAILED],
            wrong=self.outcomes[Outcome.WRONG],
            cut=self.outcomes[Outcome.CUT],
            streams=self._streams,
            sessions=self._sessions,
            skipped=self._skipped,
        )

    async def _send_at_rate(
        self, stop: asyncio.Event, kept: aiohttp.ClientSession, fresh: aiohttp.ClientSession, tasks: asyncio.TaskGroup
    ) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        running: set[asyncio.Task[None]] = set()
        while not stop.is_set():
            wait_s = due_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            elif wait_s < -BEHIND_S:
                self._skipped += int(-wait_s * self._options.rate_per_s)
                due_s = loop.time()
            due_s += 1 / self._options.rate_per_s
            if len(running) >= self._options.max_open:
                self._skipped += 1
                continue
            client = fresh if self._random.random() < FRESH_SHARE else kept
            task = tasks.create_task(self._request(client, self._next_session()))
            running.add(task)
            task.add_done_callback(running.discard)

    def _next_session(self) -> _Session:
        if self._resting:
            return self._resting.popleft()
        self._sessions += 1
        return _Session(self._sessions, self._random.randint(*SESSION_REQUESTS))

    async def _request(self, client: aiohttp.ClientSession, session: _Session) -> None:
        kind = Kind.STREAM if self._random.random() < STREAM_SHARE else Kind.ANSWER
        prompt = self._random.choice(self._prompts)
        number, session.sent, session.left = session.sent, session.sent + 1, session.left - 1
        sent_s, begin_s = time.time(), time.perf_counter()
        site, outcome, why = await self._ask(client, session, kind, prompt)
        latency_s = time.perf_counter() - begin_s
        self._count(Record(sent_s, latency_s, session.id, number, site, kind, outcome, why))
        if session.left > 0:
            self._resting.append(session)

    async def _ask(self, client: aiohttp.ClientSession, session: _Session, kind: Kind, prompt: str) -> tuple[str, Outcome, str]:
        """One request: who answered, how it went, and why not."""
        right = self._expected.tokens[prompt]
        if kind is Kind.ANSWER:
            right = right[: self._random.choice(ANSWER_TOKENS)]
        headers = {"Cookie": session.cookie} if session.cookie else {}
        if kind is Kind.ANSWER:
            body = msgspec.json.encode({"prompt": prompt, "n": len(right)})
            asked = client.post(f"{self._options.url}/v1/answer", data=body, headers=headers)
        else:
            # As browsers do it. A stream that answers a POST within a millisecond is cut by Go's reverse proxy now and then, see
            # docs/reference/traffic-drivers.md; that is no matter of moving, and would hide what is.
            query = {"prompt": prompt, "n": str(len(right)), "over_s": f"{self._random.uniform(*self._options.stream_s):.3f}"}
            asked = client.get(f"{self._options.url}/v1/stream", params=query, headers=headers)
        site = UNKNOWN_SITE
        begun = False
        try:
            async with asked as response:
                site = response.headers.get("X-Site", UNKNOWN_SITE)
                if "Set-Cookie" in response.headers:
                    session.cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in response.cookies.items())
                if response.status != 200:
                    return site, Outcome.FAILED, f"status {response.status}"
                if kind is Kind.ANSWER:
                    return site, *_judge_answer(await response.read(), right, self._expected.model_hash)
                begun = True
                return site, *await _judge_stream(response.content, right)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return site, Outcome.CUT if begun else Outcome.FAILED, f"{type(error).__name__}: {error}"

    def _count(self, record: Record) -> None:
        self.outcomes[record.outcome] += 1
        self._streams += record.kind is Kind.STREAM
        site = self.counters.sites[record.site]
        site.requests += 1
        site.wrong += record.outcome is Outcome.WRONG
        site.errors += record.outcome in (Outcome.FAILED, Outcome.CUT)
        if record.kind is Kind.ANSWER:
            site.answered(record.latency_s)
        self._records.write(self._encoder.encode(record) + b"\n")


def expected_from(vault: Path, snapshot: SnapshotId) -> Expected:
    """Compute what a correct server answers. Raises as ``Vault.load``."""
    from bridgehead.app.demo.model import Answerer, prompts
    from bridgehead.app.demo.vocabulary import Vocabulary
    from bridgehead.training import open_vault
    from bridgehead.training.state import decode

    state = decode(open_vault(vault).load(snapshot))
    model = Answerer(state["weights"], Vocabulary(state["vocabulary"]))
    return Expected(model.model_hash, {prompt: model.tokens(prompt, STREAM_TOKENS) for prompt in prompts(PROMPTS)})


def _connector(fresh: bool) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(limit=0, force_close=fresh)


def _judge_answer(body: bytes, right: Sequence[str], model_hash: str) -> tuple[Outcome, str]:
    try:
        reply = msgspec.json.decode(body, type=dict[str, str])
    except msgspec.MsgspecError as error:
        return Outcome.WRONG, f"not an answer: {error}"
    if reply.get("answer") != "".join(right):
        return Outcome.WRONG, f"answered {reply.get('answer')!r} where {''.join(right)!r} is right"
    if reply.get("model_hash") != model_hash:
        return Outcome.WRONG, f"from the model {reply.get('model_hash')}"
    return Outcome.OK, ""


async def _judge_stream(content: aiohttp.StreamReader, right: Sequence[str]) -> tuple[Outcome, str]:
    tokens: list[str] = []
    done = False
    async for line in content:
        if line.startswith(b"event: done"):
            done = True
        elif line.startswith(b"data: "):
            try:
                event: Mapping[str, object] = msgspec.json.decode(line[6:], type=dict[str, object])
            except msgspec.MsgspecError as error:
                return Outcome.WRONG, f"not an event: {error}"
            if not done:
                tokens.append(str(event.get("token")))
            elif event.get("count") != len(right):
                return Outcome.WRONG, f"{event.get('count')} tokens announced, not {len(right)}"
    if not done:
        return Outcome.CUT, f"ended after {len(tokens)} of {len(right)} tokens"
    if tokens != list(right):
        return Outcome.WRONG, f"streamed {''.join(tokens)!r} where {''.join(right)!r} is right"
    return Outcome.OK, ""


async def _main(asked: argparse.Namespace) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    options = LoadOptions(url=asked.url, rate_per_s=asked.rate, seed=asked.seed)
    asked.out.mkdir(parents=True, exist_ok=True)
    with (asked.out / FILE_NAME).open("wb") as records:
        generator = LoadGenerator(options, expected_from(asked.vault, SnapshotId(asked.snapshot)), records)

        async def metrics(request: web.Request) -> web.Response:
            return web.Response(text=generator.counters.page())

        app = web.Application()
        app.router.add_get("/metrics", metrics)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", asked.metrics_port).start()
        try:
            summary = await generator.run(stop)
        finally:
            await runner.cleanup()
    (asked.out / SUMMARY_NAME).write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Send requests until SIGTERM."""
    parser = argparse.ArgumentParser(prog="bridgehead.app.demo.load", description=main.__doc__)
    parser.add_argument("--url", required=True, help="where the service is, without path")
    parser.add_argument("--vault", type=Path, required=True, help="directory of a vault that holds the served snapshot")
    parser.add_argument("--snapshot", required=True, help="the snapshot that is served")
    parser.add_argument("--metrics-port", type=int, required=True, help="on loopback")
    parser.add_argument("--rate", type=float, default=220.0, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help=f"folder for {FILE_NAME} and {SUMMARY_NAME}")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    asyncio.run(_main(asked))


if __name__ == "__main__":
    main()
