"""Server: an inference backend of the demo, ``python -m bridgehead.app.demo.server``.

``POST /v1/answer`` {prompt, n} answers at once; ``/v1/stream`` sends the same tokens one by one as server-sent events over some seconds,
and then ``event: done`` with their count. ``/healthz`` is ``ports.serving.ServingHealth``, ``/metrics`` Prometheus text. Until the model
is loaded and has answered its warm-up prompts, /v1 answers 503. SIGTERM: nothing new is accepted, what is open is finished, then it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from bridgehead.app.demo.counters import Counters
from bridgehead.kernel.ids import ServiceId, SiteId, SnapshotId
from bridgehead.ports.serving import ServingHealth

if TYPE_CHECKING:  # numpy is imported after the number of its threads is set, see main
    from bridgehead.app.demo.model import Answerer

MAX_TOKENS = 256
MAX_STREAM_S = 30.0
WARM_UP_TOKENS = 16
WRONG_TOKEN = "\N{REPLACEMENT CHARACTER}"


class Question(msgspec.Struct, frozen=True):
    """What is asked: the next ``n`` tokens after ``prompt``; ``over_s`` is the time over which a stream spreads them."""

    prompt: str
    n: int = WARM_UP_TOKENS
    over_s: float = 3.0


class Reply(msgspec.Struct, frozen=True):
    """The answer to a plain request."""

    answer: str
    site: SiteId
    model_hash: str


class Server:
    """One backend of one site.

    Args:
        wrong: answers wrongly once it is warm, while its health report stays fine (a breakage that only an answer check can find).
    """

    def __init__(self, service: ServiceId, site: SiteId, *, wrong: bool = False) -> None:
        self._site = site
        self._wrong = wrong
        self._model: Answerer | None = None
        self._health = ServingHealth(warm=False, model_hash="", snapshot="")
        self._counters = Counters(service)
        self._mine = self._counters.sites[site]
        self._open = self._mine.in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/v1/answer", self._counted(self._answer))
        app.router.add_get("/v1/stream", self._counted(self._stream))
        app.router.add_post("/v1/stream", self._counted(self._stream))
        return app

    def load(self, vault: Path, snapshot: SnapshotId, *, warm_up: int) -> None:
        """Load the model, verified on the way and hashed where it lies (V30), and answer ``warm_up`` prompts. Raises as ``Vault.load``."""
        from bridgehead.app.demo.model import Answerer, prompts
        from bridgehead.app.demo.vocabulary import Vocabulary
        from bridgehead.training import open_vault
        from bridgehead.training.state import decode

        state = decode(open_vault(vault).load(snapshot))
        model = Answerer(state["weights"], Vocabulary(state["vocabulary"]))
        self._health = ServingHealth(warm=False, model_hash=model.model_hash, snapshot=snapshot)
        for prompt in prompts(warm_up):
            model.answer(prompt, WARM_UP_TOKENS)
        self._model = model
        self._health = ServingHealth(warm=True, model_hash=model.model_hash, snapshot=snapshot)

    async def idle(self) -> None:
        """Return when no request and no stream is open."""
        await self._idle.wait()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._health), content_type="application/json")

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self._counters.page())

    def _counted(
        self, handle: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def counted(request: web.Request) -> web.StreamResponse:
            mine = self._mine
            self._open = mine.in_flight = self._open + 1
            self._idle.clear()
            failed = True
            try:
                response = await handle(request)
                failed = response.status >= 500
                return response
            finally:
                mine.requests += 1
                mine.errors += failed
                self._open = mine.in_flight = self._open - 1
                if self._open == 0:
                    self._idle.set()

        return counted

    async def _answer(self, request: web.Request) -> web.Response:
        begin_s = time.perf_counter()
        try:
            question = await _question(request)
        except msgspec.MsgspecError as error:
            return self._refusal(400, str(error))
        if self._model is None:
            return self._refusal(503, "the model is not warm yet")
        reply = Reply("".join(self._tokens(self._model, question)), self._site, self._health.model_hash)
        self._mine.answered(time.perf_counter() - begin_s)
        return web.Response(body=msgspec.json.encode(reply), content_type="application/json", headers={"X-Site": self._site})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        try:
            question = await _question(request)
        except msgspec.MsgspecError as error:
            return self._refusal(400, str(error))
        if self._model is None:
            return self._refusal(503, "the model is not warm yet")
        headers = {"X-Site": self._site, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        tokens = self._tokens(self._model, question)
        for token in tokens:
            await response.write(b"data: " + msgspec.json.encode({"token": token}) + b"\n\n")
            await asyncio.sleep(question.over_s / len(tokens))
        await response.write(b"event: done\ndata: " + msgspec.json.encode({"count": len(tokens)}) + b"\n\n")
        await response.write_eof()
        return response

    def _tokens(self, model: Answerer, question: Question) -> list[str]:
        tokens = model.tokens(question.prompt, question.n)
        return [*tokens[:-1], WRONG_TOKEN] if self._wrong else tokens

    def _refusal(self, status: int, reason: str) -> web.Response:
        return web.Response(status=status, text=reason + "\n", headers={"X-Site": self._site})


async def _question(request: web.Request) -> Question:
    """From the body, or from the query of a GET. Raises msgspec.MsgspecError."""
    if request.method == "GET":
        question = msgspec.convert(dict(request.query), Question, strict=False)
    else:
        question = msgspec.json.decode(await request.read(), type=Question)
    if not (1 <= question.n <= MAX_TOKENS and 0 <= question.over_s <= MAX_STREAM_S):
        raise msgspec.ValidationError(f"n must be from 1 to {MAX_TOKENS} and over_s from 0 to {MAX_STREAM_S:g}")
    return question


async def serve(server: Server, *, host: str, port: int, port_file: Path | None, load: Callable[[], None], drain_s: float) -> None:
    """Listen, load, serve until SIGTERM, finish what is open (for at most ``drain_s``)."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    runner = web.AppRunner(server.app(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    if port_file is not None:
        temporary = port_file.with_name(port_file.name + ".tmp")
        temporary.write_text(f"{runner.addresses[0][1]}\n")
        temporary.replace(port_file)
    loading = asyncio.create_task(asyncio.to_thread(load))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    try:
        await loading  # a model that cannot be loaded ends the server, with the reason
        await stopping
    finally:
        await site.stop()
        try:
            await asyncio.wait_for(server.idle(), drain_s)
        finally:
            await runner.cleanup()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="bridgehead.app.demo.server", description=main.__doc__)
    parser.add_argument("--site", required=True)
    parser.add_argument("--service", required=True)
    parser.add_argument("--host", default="127.0.0.1", help="where it listens; there is no login")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one, see --port-file")
    parser.add_argument("--port-file", type=Path, help="gets the port once it answers")
    parser.add_argument("--vault", type=Path, required=True, help="directory of the site's vault")
    parser.add_argument("--snapshot", required=True, help="the snapshot to serve")
    parser.add_argument("--warm-up", type=int, default=100, help="prompts that it answers before it calls itself warm")
    parser.add_argument("--drain-s", type=float, default=30.0, help="how long open requests may take after SIGTERM")
    parser.add_argument("--wrong", action="store_true", help="answer wrongly, for the breakage of the gate")
    asked = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    async def run() -> None:
        server = Server(ServiceId(asked.service), SiteId(asked.site), wrong=asked.wrong)

        def load() -> None:
            server.load(asked.vault, SnapshotId(asked.snapshot), warm_up=asked.warm_up)

        await serve(server, host=asked.host, port=asked.port, port_file=asked.port_file, load=load, drain_s=asked.drain_s)

    asyncio.run(run())


if __name__ == "__main__":
    main()
