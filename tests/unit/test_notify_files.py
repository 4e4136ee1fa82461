"""Notify files: what they may say, where they are wrong, and their schema (issue 6, `notify`)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import yaml

from bridgehead.app.wiring import channel_options
from bridgehead.kernel.located import BadFile
from bridgehead.model.notice import NoticeKind
from bridgehead.model.notifyfile import Notifying, read_notifying

GOOD = """
notify: ops
on_call: [duty]
channels:
  chat: {driver: webhook, url: "https://chat.example/hook", secrets: ["secret://kv/bridgehead/chat#hmac"], timeout: 5 s, tells: [ask]}
  post: {driver: email, server: "mail.example:465", security: tls, sender: b@example.org, addresses: {ann: ann@example.org}}
  alerts: {driver: alertmanager, urls: ["https://alerts.example"], refresh: 2 min, tells: [alarm, trouble]}
escalation: [{after: 5 min, people: [ann]}]
answers:
  url: https://bridgehead.example
  secret: file:/etc/bridgehead/answers
  responders: {bot: {secrets: ["file:/etc/bridgehead/bot"], people: [ann, bob]}}
links: {page: "https://pages.example/{run}"}
give_up: 2 d
"""


def read(text: str) -> Notifying:
    return read_notifying(text, file="notify.yaml", drivers=channel_options())


def test_a_file_says_how_people_are_told() -> None:
    file = read(GOOD)
    assert list(file.channels) == ["chat", "post", "alerts"]
    assert file.channels["chat"].options["timeout_s"] == 5.0
    assert [file.channels["chat"].takes(kind) for kind in NoticeKind] == [True, True, False, False, False]
    assert all(file.channels["post"].takes(kind) for kind in NoticeKind)
    assert file.escalation[0].after_s == 300.0
    assert file.answers is not None
    assert file.answers.responders[0].people == ("ann", "bob")
    assert file.give_up_s == 2 * 86_400


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("secret: file:/etc/bridgehead/answers", "secret: hunter2hunter2", r"notify.yaml:11:\d+: answers.secret: it is no reference"),
        ('["file:/etc/bridgehead/bot"]', "[hunter2hunter2hunter2]", "answers.responders.bot.secrets: it is no reference"),
        ("sender: b@example.org", "sender: b@example.org, user: me, password: hunter2", "channels.post.password: it is no reference"),
        ("url: https://bridgehead.example", "url: http://bridgehead.example", "answers.url: it is no https"),
        ("refresh: 2 min", "refresh: 2 d", "at least twice 'refresh'"),
        ("  chat: {", "  ../chat: {", "cannot be an id"),
        ("driver: email, ", "", "there is no 'driver'"),
        ("people: [ann, bob]", "people: []", "people"),
        ('server: "mail.example:465"', "server: mail.example", "expected host:port"),
    ],
)
def test_a_fault_is_named_with_its_place_and_no_secret_is_repeated(old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(BadFile, match=words) as refused:
        read(GOOD.replace(old, new))
    assert "hunter2" not in str(refused.value)


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    words = [sys.executable, "-m", "bridgehead.cli.main", "schema", "notify"]
    schema = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    check = jsonschema.Draft202012Validator(schema)
    good: dict[str, Any] = yaml.safe_load(GOOD)
    assert list(check.iter_errors(good)) == []
    wrong = ({"driver": "pigeon"}, {"driver": "webhook"}, {"driver": "email", "server": 5}, {"driver": "webhook", "tells": ["gossip"]})
    for broken in wrong:
        assert list(check.iter_errors({**good, "channels": {"chat": broken}})), broken
