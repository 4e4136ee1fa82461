"""Answers by web hook: only a signed, timely, single one, by somebody who may, to the question that is asked (issue 6, `people`; G06)."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app.home import Home
from bridgehead.app.people_hook import Desk, answer_way, nonce
from bridgehead.app.runs import approve
from bridgehead.drivers.people_hook import AnswerServer
from bridgehead.host.webhook_signature import secret_bytes, signed
from bridgehead.kernel.errors import BridgeheadError, Transient
from bridgehead.kernel.ids import Person, RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.notifyfile import Answers, Responder
from bridgehead.model.runbook import ApprovalStep, Runbook, TaskStep
from bridgehead.runbook.apply import fold
from bridgehead.runbook.engine import open_run
from bridgehead.testing.certificates import make_certificates
from bridgehead.testing.notify_suite import notice

OWN, BOT, ANN = "the secret of the desk, long enough", "the secret of the bot, long enough", "the secret of ann alone, long enough"
SECRETS = {"file:/own": OWN, "file:/bot": BOT, "file:/ann": ANN}
ANSWERS = Answers(
    "https://b.example/",
    "file:/own",
    (Responder("bot", ("file:/bot",), ("ann", "bob", "eve")), Responder("ann", ("file:/ann",), ("ann",))),
)
AGREE = ApprovalStep(StepId("agree"), (Person("ann"), Person("bob")), 600.0, quorum=2, text="Is it good?")
CABLE = TaskStep(StepId("cable"), Person("eve"), ("unplug it", "label it"), 600.0)


class Bench:
    """A home with runs that ask, and a server that takes answers."""

    def __init__(self, home: Home, port: int, said: list[str]) -> None:
        self.home, self.port, self.said = home, port, said

    def begin(self, run: str = "move", *, since_s: float | None = None) -> None:
        """Both steps of the run wait for people."""
        at_s = time.time() if since_s is None else since_s
        journal = self.home.journal()
        open_run(journal, RunId(run), Runbook("book", (AGREE, CABLE)), estate={"sites": {}, "services": {}}, by="ops", at_s=at_s)
        events = [ev.DriverTook(at_s, 1, "x/1"), ev.StepStarted(at_s, AGREE.id), ev.StepStarted(at_s, CABLE.id)]
        journal.append(RunId(run), events, after_seq=1, holder=None)
        journal.close()

    def append(self, *events: ev.Event, run: str = "move") -> None:
        journal = self.home.journal()
        journal.append(RunId(run), list(events), after_seq=journal.head_seq(RunId(run)), holder=None)
        journal.close()

    def words(self, run: str = "move") -> list[ev.Event]:
        journal = self.home.journal()
        found = [entry.event for entry in journal.read(RunId(run)) if isinstance(entry.event, ev.Approved | ev.Rejected | ev.TaskSignedOff)]
        journal.close()
        return found

    def body(self, person: str = "ann", answer: str = "approve", *, run: str = "move", step: str = "agree", **more: Any) -> dict[str, Any]:
        """A right answer."""
        journal = self.home.journal()
        state = fold(entry.event for entry in journal.read(RunId(run)))
        journal.close()
        round_s = getattr(state.steps[StepId(step)], "started_s", 0.0)
        word = nonce(secret_bytes(OWN), RunId(run), StepId(step), round_s, Person(person))
        return {"run": run, "step": step, "person": person, "answer": answer, "nonce": word, **more}

    def post(
        self, body: dict[str, Any] | bytes, *, responder: str = "bot", secret: str = BOT, at_s: float | None = None, **headers: str
    ) -> tuple[int, str]:
        """Status, and why it was refused ("" when it was not)."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = signed([secret_bytes(secret)], message="a1", at_s=time.time() if at_s is None else at_s, body=data)
        status, _, found = self.ask("POST", f"/answers/{responder}", data, {"Content-Type": "application/json", **own, **headers})
        return status, found.get("refused", "")

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), json.loads(text) if text else {}


def fetch(reference: str) -> str:
    if reference not in SECRETS:
        raise Transient("the server is sealed", tried="fetch", subject=reference)
    return SECRETS[reference]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    home, said = Home(tmp_path / "home"), list[str]()
    with AnswerServer(host="127.0.0.1", port=0, take=Desk(home, ANSWERS, fetch=fetch).take, say=said.append) as server:
        bench = Bench(home, server.port, said)
        bench.begin()
        yield bench


def test_an_answer_is_recorded_as_the_command_line_records_it(bench: Bench) -> None:
    assert bench.post(bench.body("ann", comment="looks right")) == (200, "")
    approve(bench.home, RunId("move"), StepId("agree"), by=Person("bob"), comment="me too", yes=True)
    first, second = bench.words()
    assert isinstance(first, ev.Approved)
    assert (first.step, first.by, first.comment) == ("agree", "ann", "looks right (brought by bot)")
    assert type(first) is type(second)
    assert bench.said == ["ann: approve agree of move"]


def test_a_task_is_signed_off_with_its_evidence(bench: Bench) -> None:
    assert bench.post(bench.body("eve", "done", step="cable", evidence=["photo"])) == (409, "not-now")
    assert bench.post(bench.body("eve", "done", step="cable", evidence=["photo 1", "photo 2"])) == (200, "")
    assert [(event.by, event.evidence) for event in bench.words() if isinstance(event, ev.TaskSignedOff)] == [
        ("eve", ["photo 1", "photo 2"])
    ]


def test_a_second_answer_is_refused_whatever_it_says(bench: Bench) -> None:
    body = bench.body()
    assert bench.post(body) == (200, "")
    assert bench.post(body) == (409, "answered-before")
    assert bench.post(body | {"answer": "reject"}) == (409, "answered-before")
    assert len(bench.words()) == 1
    assert bench.post(bench.body("bob", "reject")) == (200, "")
    assert bench.post(bench.body("bob", "reject")) == (409, "answered-before")
    assert [type(event) for event in bench.words()] == [ev.Approved, ev.Rejected]


def test_of_many_at_once_one_counts(bench: Bench) -> None:
    """Also when two processes take answers of one home."""
    body = bench.body()
    with (
        AnswerServer(host="127.0.0.1", port=0, take=Desk(bench.home, ANSWERS, fetch=fetch).take) as other,
        ThreadPoolExecutor(max_workers=8) as pool,
    ):
        twin = Bench(bench.home, other.port, [])
        found = [done.result()[0] for done in [pool.submit((bench, twin)[number % 2].post, body) for number in range(8)]]
    assert sorted(found) == [200, *[409] * 7]
    assert len(bench.words()) == 1


def test_a_late_answer_is_refused(bench: Bench) -> None:
    bench.begin("old", since_s=time.time() - 601)
    assert bench.post(bench.body(run="old")) == (409, "not-now")
    late = bench.body()
    bench.append(ev.StepFailed(time.time(), AGREE.id, "the deadline passed", ""))
    assert bench.post(late) == (409, "not-now")
    bench.append(ev.RunEnded(time.time(), ev.Verdict.ABANDONED, "by hand"), run="old")
    assert bench.post(bench.body(run="old"))[0] == 409
    assert bench.words() == bench.words("old") == []


@pytest.mark.parametrize(
    "forge",
    [
        lambda bench: bench.post(bench.body(), secret="the secret of somebody else, long"),
        lambda bench: bench.post(bench.body(), secret=ANN),
        lambda bench: bench.post(bench.body(), at_s=time.time() - 301),
        lambda bench: bench.post(bench.body(), at_s=time.time() + 301),
        lambda bench: bench.post(bench.body(), **{"webhook-id": "another"}),
        lambda bench: bench.post(bench.body(), **{"webhook-signature": ""}),
        lambda bench: bench.post(bench.body(), responder="nobody"),
        lambda bench: bench.post(bench.body(), responder="%2e%2e"),
    ],
)
def test_a_forged_answer_is_refused(bench: Bench, forge: Callable[[Bench], tuple[int, str]]) -> None:
    status, why = forge(bench)
    assert (status, why) in ((401, "forged"), (401, "unknown-sender"))
    assert bench.words() == []
    assert len(bench.said) == 1, "who serves sees that somebody tries"


def test_an_answer_is_of_one_run_one_step_one_round_and_one_person(bench: Bench) -> None:
    bench.begin("other", since_s=time.time() - 5)
    body = bench.body()
    assert bench.post(body | {"run": "other"}) == (403, "not-this-question")
    assert bench.post(body | {"person": "bob"}) == (403, "not-this-question")
    assert bench.post(body | {"step": "cable", "person": "eve", "answer": "done", "evidence": ["a", "b"]}) == (403, "not-this-question")
    assert bench.post(body | {"nonce": nonce(secret_bytes(OWN), RunId("move"), StepId("agree"), 1.0, Person("ann"))}) == (
        403,
        "not-this-question",
    )
    assert bench.post(body | {"nonce": ""}) == (403, "not-this-question")
    assert bench.post(body | {"nonce": "é"}) == (403, "not-this-question")
    assert bench.post(body | {"run": "none"}) == (404, "no-such-run")
    assert bench.post(body | {"step": "none"}) == (409, "not-now")
    assert bench.words() == bench.words("other") == []


def test_who_brings_an_answer_may_do_so_for_his_people_alone(bench: Bench) -> None:
    assert bench.post(bench.body("bob"), responder="ann", secret=ANN) == (403, "not-allowed")
    assert bench.post(bench.body("ann"), responder="ann", secret=ANN) == (200, "")
    assert bench.post(bench.body("eve")) == (409, "not-now"), "the run does not name eve"
    assert bench.post(bench.body("zoe")) == (403, "not-allowed")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_but_a_post_is_an_answer(bench: Bench, method: str) -> None:
    """Programs that look at links before people do send GET and HEAD."""
    data = json.dumps(bench.body()).encode()
    headers = signed([secret_bytes(BOT)], message="a1", at_s=time.time(), body=data) | {"Content-Type": "application/json"}
    status, found, _ = bench.ask(method, "/answers/bot", data, headers)
    assert (status, found["Allow"]) == (405, "POST")
    assert bench.words() == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"run": "move"}',
        b'{"run":"move","step":"agree","person":"ann","answer":"maybe","nonce":"x"}',
        b"[" * 9000,
    ],
)
def test_what_is_no_answer_is_refused(bench: Bench, body: bytes) -> None:
    assert bench.post(body) == (400, "malformed")


def test_an_answer_with_unknown_fields_is_refused(bench: Bench) -> None:
    """Somebody meant something by it."""
    assert bench.post(bench.body(unless="it rains")) == (400, "malformed")
    assert bench.words() == []


@pytest.mark.parametrize(
    "headers",
    [{"Content-Length": "70000"}, {"Content-Length": "-1"}, {"Content-Length": "9" * 50}, {"Content-Type": "text/plain"}],
)
def test_what_a_web_page_could_post_and_what_is_too_long_is_not_read(bench: Bench, headers: dict[str, str]) -> None:
    assert bench.post(bench.body(), **headers) == (400, "malformed")


def test_other_addresses_are_nobodys(bench: Bench) -> None:
    for path in ("/", "/answers", "/answers/bot/more", "/answers/bot?x=1", "/healthz"):
        assert bench.ask("POST", path, b"{}")[0] == 404
    assert bench.ask("GET", "/healthz")[::2] == (200, {"serving": True})


def test_when_the_secret_cannot_be_fetched_the_answer_is_wanted_later(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SECRETS, "file:/own")
    assert bench.post({**bench.body(), "nonce": "x"}) == (503, "later")
    monkeypatch.setitem(SECRETS, "file:/own", OWN)
    assert bench.post(bench.body()) == (200, "")


def test_silent_clients_keep_nobody_from_answering(tmp_path: Path, bench: Bench) -> None:
    silent = [socket.create_connection(("127.0.0.1", bench.port)) for _ in range(8)]
    try:
        silent[0].sendall(b"POST /answers/bot HTTP/1.1\r\nContent-Length: 10\r\n")
        assert bench.post(bench.body()) == (200, "")
    finally:
        for one in silent:
            one.close()


SHORT = """
import contextlib, http.client, os, resource, socket, sys, threading, time
from bridgehead.drivers.people_hook import AnswerServer
from bridgehead.drivers.people_hook.server import AT_ONCE

def no_descriptors(client):
    '''One is left for the connection, and none for its twin.'''
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    os.close(taken.pop())
    try:
        connect(client)
    finally:
        for one in taken:
            os.close(one)

def no_threads(client):
    threading.stack_size(1 << 46)
    try:
        connect(client)
    finally:
        threading.stack_size(0)

def connect(client):
    with contextlib.suppress(ConnectionError):
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"GET /healthz HTTP/1.0\\r\\n\\r\\n")
        print(client.recv(100))

threading.excepthook = lambda args: None
with AnswerServer(host="127.0.0.1", port=0, take=lambda brought: None) as server:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    for _ in range(AT_ONCE + 3):
        while threading.active_count() > 2:  # the one before has its descriptors still
            time.sleep(0.01)
        with socket.socket() as client:
            client.settimeout(10)
            {"descriptors": no_descriptors, "threads": no_threads}[sys.argv[1]](client)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/healthz")
    print(connection.getresponse().status, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("what", ["descriptors", "threads"])
def test_a_shortage_costs_connections_and_not_the_server(what: str) -> None:
    done = subprocess.run([sys.executable, "-c", SHORT, what], capture_output=True, text=True, timeout=60)
    *short, last = done.stdout.split("\n")[:-1] or [""]
    assert last == "200", done.stderr
    assert set(short) <= {"b''"}, "there was no shortage"


def test_answers_come_over_tls(tmp_path: Path, bench: Bench) -> None:
    made = make_certificates(tmp_path)
    desk = Desk(bench.home, ANSWERS, fetch=fetch)
    with AnswerServer(host="127.0.0.1", port=0, take=desk.take, tls=(str(made.server), None)) as server:
        silent = socket.create_connection(("127.0.0.1", server.port))  # never says hello
        context = ssl.create_default_context(cafile=str(made.ca))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
        silent.close()


def test_a_certificate_that_is_none_and_a_port_that_is_taken_are_named(tmp_path: Path, bench: Bench) -> None:
    take = Desk(bench.home, ANSWERS, fetch=fetch).take
    for change in ({"tls": (str(tmp_path / "none.pem"), None)}, {"port": bench.port}):
        with pytest.raises(BridgeheadError, match="could not serve answers"):
            AnswerServer(**{"host": "127.0.0.1", "port": 0, "take": take, **change})


def test_an_ask_carries_the_words_that_answer_it() -> None:
    way = answer_way(ANSWERS, fetch=fetch)(notice())
    assert way is not None
    assert way.url == "https://b.example/answers/{responder}"
    assert set(way.nonces) == {"ann", "bob"}
    assert len(set(way.nonces.values())) == 2
    assert answer_way(None)(notice()) is None
