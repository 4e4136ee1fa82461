"""People are told what a run waits for, and answer it by web hook, with real processes (issue 6, `people` and `notify`; G06, G08)."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bridgehead.app.controller import Controller
from bridgehead.app.home import Home
from bridgehead.host.webhook_signature import secret_bytes, signed
from bridgehead.kernel.ids import RunId
from bridgehead.model import event as ev
from bridgehead.model.runbook import Runbook
from bridgehead.runbook.engine import open_run
from bridgehead.testing.command_line import CommandLine, Driving
from bridgehead.testing.hook_receiver import HookReceiver

SECRET, BOT, OWN = "a secret of the receiver, long", "a secret of the chat bot, long", "a secret of the desk, long enough"


class Post:
    """A home whose people are told by web hook, and a bot that brings answers."""

    def __init__(self, line: CommandLine, hook: HookReceiver) -> None:
        self.line, self.hook = line, hook
        line.home.mkdir(mode=0o700)
        for name, secret in (("hook", SECRET), ("bot", BOT), ("own", OWN)):
            (line.home / name).write_text(secret)

    def configure(self, **more: object) -> None:
        channel = {"driver": "webhook", "url": self.hook.url, "secrets": [f"file:{self.line.home}/hook"]}
        bot = {"secrets": [f"file:{self.line.home}/bot"], "people": ["ann", "bob", "eve"]}
        answers = {"url": "https://bridgehead.example", "secret": f"file:{self.line.home}/own", "responders": {"bot": bot}}
        (self.line.home / "notify.yaml").write_text(
            json.dumps({"notify": "ops", "channels": {"chat": channel}, "answers": answers, **more})
        )

    def serve(self) -> tuple[Driving, int]:
        serving = self.line.drive("people", "serve", "--port", "0")
        found = self.hook.until(lambda: re.search(r"takes answers at http://127.0.0.1:(\d+)", serving._err.read_text()))
        return serving, int(found[1])

    def ask(self, step: str) -> dict[str, Any]:
        return self.hook.until(lambda: [one for one in self.hook.data("bridgehead.ask.open") if one["ask"]["step"] == step])[-1]

    def answer(self, port: int, ask: dict[str, Any], person: str, kind: str, **more: object) -> tuple[int, dict[str, Any]]:
        word = {"run": ask["ask"]["run"], "step": ask["ask"]["step"], "nonce": ask["answer"]["nonces"].get(person, "none")}
        body = json.dumps(word | {"person": person, "answer": kind} | more).encode()
        headers = signed([secret_bytes(BOT)], message="a1", at_s=time.time(), body=body) | {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("POST", "/answers/bot", body, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found


@pytest.fixture
def post(line: CommandLine) -> Iterator[Post]:
    with HookReceiver(secret=SECRET) as hook:
        yield Post(line, hook)


def test_a_run_is_answered_by_web_hook_from_its_first_question_to_its_last(post: Post, line: CommandLine, steps: Any) -> None:
    post.configure(links={"page": "https://pages.example/{run}/{step}"})
    serving, port = post.serve()
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",), quorum=2), steps.task(needs=("agree",))])
    ask = post.ask("agree")
    assert ask["ask"]["question"] == "Is the new one good?"
    assert ask["ask"]["may_answer"] == ask["people"] == ["ann", "bob"]
    assert ask["ask"]["quorum"] == 2
    assert ask["ask"]["expires_s"] - ask["ask"]["round_s"] == pytest.approx(600)
    assert ask["ask"]["links"] == {"page": "https://pages.example/move/agree"}
    assert ask["ask"]["commands"][0].startswith("bridgehead run approve move agree --as ann")
    assert ask["answer"]["url"] == "https://bridgehead.example/answers/{responder}"

    assert post.answer(port, ask, "ann", "approve", comment="looks right")[0] == 200
    status, twice = post.answer(port, ask, "ann", "approve")
    assert (status, twice["refused"]) == (409, "answered-before")
    assert post.answer(port, ask, "bob", "approve")[0] == 200
    over = post.hook.until(lambda: post.hook.data("bridgehead.ask.resolved"))
    assert "agree of move: done" in over[0]["text"]

    task = post.ask("cable")
    assert task["ask"]["items"] == ["unplug it", "label it"]
    status, missing = post.answer(port, task, "eve", "done", evidence=["photo"])
    assert (status, missing["refused"]) == (409, "not-now")
    assert "2 items, 1 given" in missing["happened"]
    assert post.answer(port, task, "eve", "done", evidence=["photo 1", "photo 2"])[0] == 200
    assert driver.end().returncode == 0
    approvals = [(event.by, event.comment) for event in line.events("move") if isinstance(event, ev.Approved)]
    assert approvals == [("ann", "looks right (brought by bot)"), ("bob", "(brought by bot)")]
    late = post.answer(port, ask, "bob", "reject")
    assert (late[0], late[1]["refused"]) == (409, "not-now")
    post.hook.until(lambda: len(post.hook.data("bridgehead.ask.resolved")) == 2)
    assert len(post.hook.data("bridgehead.ask.open")) == 2, "each is told once, though driver and server both look"
    serving.process.terminate()
    assert serving.end().returncode == 0
    assert not post.hook.forged


def test_G06_nobody_answers_and_the_next_ones_are_called_also_when_nobody_drives_the_run(post: Post, line: CommandLine, steps: Any) -> None:
    levels = [{"after": "200 ms", "people": ["ada"]}, {"after": "2500 ms", "people": ["ben"]}]
    post.configure(escalation=levels)
    driver = line.start([steps.approval()])
    post.ask("agree")
    (first,) = post.hook.until(lambda: post.hook.data("bridgehead.call.open"))
    assert first["people"] == ["ada"]
    post.hook.until(lambda: any(isinstance(event, ev.Noticed) for event in line.events("move")))
    driver.process.kill()
    driver.end()
    _, port = post.serve()
    calls = post.hook.until(lambda: (found := post.hook.data("bridgehead.call.open"))[1:] and found)
    assert [call["people"] for call in calls] == [["ada"], ["ben"]], "nobody is called twice for a level"
    status, done = post.answer(port, post.ask("agree"), "bob", "approve")
    assert (status, done["recorded"]["driven"]) == (200, False)
    assert line.run("run", "resume", "move").returncode == 0
    post.hook.until(lambda: len(post.hook.data("bridgehead.call.resolved")) == 2)
    notes = [event.text for event in line.events("move") if isinstance(event, ev.Noticed)]
    assert notes[0] == "calling ada: move waits for an approval: agree"
    assert len(notes) == len(set(notes))


def test_a_receiver_that_is_down_is_noted_in_the_ledger_and_the_run_goes_on(post: Post, line: CommandLine, steps: Any) -> None:
    post.configure()
    post.hook.close()
    driver = line.start([steps.approval()])
    line.until("move", lambda state: any(isinstance(event, ev.Noticed) for event in line.events("move")))
    (note,) = [event.text for event in line.events("move") if isinstance(event, ev.Noticed)]
    assert note.startswith("chat: cannot tell http://127.0.0.1:")
    pending = json.loads(line.run("people", "told", "--pending", "--json").stdout)["deliveries"]
    assert [one["notice"]["kind"] for one in pending] == ["ask"]
    assert line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
    assert driver.end().returncode == 0


def test_a_notify_file_with_a_fault_stops_no_run_and_is_noted(post: Post, line: CommandLine, steps: Any) -> None:
    (line.home / "notify.yaml").write_text("notify: ops\nchannels: {chat: {driver: pigeon}}\n")
    assert line.start([steps.hold("1100 ms")]).end().returncode == 0
    notes = [event.text for event in line.events("move") if isinstance(event, ev.Noticed)]
    assert len(notes) == 1
    assert "there is no notify driver 'pigeon'" in notes[0]
    refused = line.run("people", "serve")
    assert (refused.returncode, "channels.chat.driver" in refused.stderr) == (2, True)


def test_a_trial_says_what_arrives(post: Post, line: CommandLine) -> None:
    post.configure(on_call=["ann"])
    done = line.run("people", "try", "--json")
    assert done.returncode == 0, done.stderr
    assert [one["outcome"] for one in json.loads(done.stdout)["deliveries"]] == ["told"]
    assert [one["people"] for one in post.hook.data("bridgehead.trial.open")] == [["ann"]]
    post.hook.close()
    failed = line.run("people", "try", "--timeout", "100 ms")
    assert (failed.returncode, "a trial [open]: not yet" in failed.stdout) == (1, True)


def test_answers_are_not_taken_in_the_clear_from_others(post: Post, line: CommandLine) -> None:
    post.configure()
    refused = line.run("people", "serve", "--host", "0.0.0.0")
    assert (refused.returncode, "Give --cert" in refused.stderr) == (2, True)


def test_a_controller_tells_of_runs_that_it_drives_and_of_those_that_are_stuck(post: Post, line: CommandLine, steps: Any) -> None:
    post.configure(on_call=["dora"])
    book = line.write("stuck.yaml", {"runbook": "stuck", "steps": [steps.approval()]})
    assert line.run("run", "start", book, "--estate", line.estate, "--name", "move", "--detach").returncode == 0
    home, said = Home(line.home), list[str]()
    journal = home.journal()
    open_run(journal, RunId("odd"), Runbook("b", ()), estate={"sites": {}, "services": {}}, by="ops", at_s=time.time())
    journal.append(RunId("odd"), [ev.WorldDiffers(time.time(), ["job new runs twice"])], after_seq=1, holder=None)
    journal.close()
    controller = Controller(home, say=said.append)
    thread = threading.Thread(target=controller.run)
    thread.start()
    try:
        assert post.ask("agree")["people"] == ["ann", "bob"]
        (trouble,) = post.hook.until(lambda: post.hook.data("bridgehead.trouble.open"))
        assert trouble["people"] == ["dora"]
        assert "job new runs twice" in trouble["text"]
    finally:
        controller.stop()
        thread.join()
    assert not any("cannot" in text for text in said), said
