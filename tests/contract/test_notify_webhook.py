"""The web hook keeps the notify port's contract over TLS with a receiver that checks signatures (issue 6, `notify`)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest

from bridgehead.drivers.notify import WebHook, WebHookOptions
from bridgehead.host.web import WebAccess
from bridgehead.host.webhook_signature import ID, SIGNATURE, TIMESTAMP, Forged, check, secret_bytes, signed
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.model.notice import NoticeState
from bridgehead.ports.notify import AnswerWay
from bridgehead.testing.certificates import Certificates, make_certificates
from bridgehead.testing.hook_receiver import HookReceiver
from bridgehead.testing.notify_suite import SECRET, Heard, NotifyRig, NotifySuite, notice

OLD = "the secret that was in use before"


class Hook(NotifyRig):
    def __init__(self, receiver: HookReceiver, certificates: Certificates) -> None:
        self.receiver, self.certificates = receiver, certificates

    def driver(self, *, secrets: dict[str, str] | None = None) -> WebHook:
        known = {"file:/new": SECRET} if secrets is None else secrets
        access = WebAccess(ca_file=str(self.certificates.ca))
        return WebHook(WebHookOptions(self.receiver.url, tuple(known), timeout_s=5.0, access=access), secret=known.__getitem__)

    def heard(self) -> list[Heard]:
        found = [one["data"] for one in self.receiver.taken.values()]
        return [Heard(one["id"], one["title"], one["text"], one["state"] == NoticeState.RESOLVED) for one in found]

    def later(self) -> None:
        self.receiver.answers.append((503, {}))

    def refuse(self) -> None:
        self.receiver.answers.append((400, {}))

    def hang_up(self) -> None:
        self.receiver.hang_up = True

    def unplug(self) -> None:
        self.receiver.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def rig(certificates: Certificates) -> Iterator[Hook]:
    with HookReceiver(secret=SECRET, tls=certificates.server) as receiver:
        yield Hook(receiver, certificates)


class TestWebHook(NotifySuite):
    @pytest.fixture
    def rig(self, certificates: Certificates) -> Iterator[Hook]:
        with HookReceiver(secret=SECRET, tls=certificates.server) as receiver:
            yield Hook(receiver, certificates)


def test_the_signature_is_that_of_the_standard() -> None:
    """The example that the standard's documentation gives."""
    secret = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    headers = signed([secret], message="msg_p5jXN8AQM9LWM0D4loKWxJek", at_s=1614265330.9, body=body)
    assert headers == {
        ID: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        TIMESTAMP: "1614265330",
        SIGNATURE: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({ID: "msg_other"}, "wrong"),
        ({TIMESTAMP: "1614265331"}, "wrong"),
        ({SIGNATURE: "v1,AAAA"}, "wrong"),
        ({SIGNATURE: "v1,é"}, "wrong"),
        ({SIGNATURE: "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}, "wrong"),
        ({SIGNATURE: ""}, "not signed"),
        ({ID: ""}, "not signed"),
        ({TIMESTAMP: "soon"}, "no time"),
        ({TIMESTAMP: "9" * 400}, "no time"),
        ({TIMESTAMP: "-5"}, "no time"),
    ],
)
def test_what_was_changed_on_the_way_is_forged(change: dict[str, str], why: str) -> None:
    secret, body = secret_bytes(SECRET), b"{}"
    headers = signed([secret], message="msg_1", at_s=1614265330.0, body=body)
    assert check([secret], headers, body=body, now_s=1614265330.0) == "msg_1"
    with pytest.raises(Forged, match=why):
        check([secret], headers | change, body=body, now_s=1614265330.0)
    with pytest.raises(Forged, match="wrong"):
        check([secret], headers, body=b"{ }", now_s=1614265330.0)


@pytest.mark.parametrize(("apart_s", "stands"), [(299.0, True), (301.0, False), (-299.0, True), (-301.0, False)])
def test_what_was_recorded_cannot_be_played_again(apart_s: float, stands: bool) -> None:
    secret = secret_bytes(SECRET)
    headers = signed([secret], message="msg_1", at_s=1614265330.0, body=b"{}")
    if stands:
        check([secret], headers, body=b"{}", now_s=1614265330.0 + apart_s)
    else:
        with pytest.raises(Forged, match="replay"):
            check([secret], headers, body=b"{}", now_s=1614265330.0 + apart_s)


def test_secrets_change_without_a_gap(rig: Hook) -> None:
    rig.driver(secrets={"file:/old": OLD, "file:/new": SECRET}).send(notice(), rig.receiver.url)
    assert len(rig.heard()) == 1
    with pytest.raises(Permanent, match="401"):
        rig.driver(secrets={"file:/old": OLD}).send(notice(2), rig.receiver.url)
    assert "wrong" in rig.receiver.forged[0]


def test_each_attempt_has_the_same_id_and_a_time_of_its_own(rig: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    access = WebAccess(ca_file=str(rig.certificates.ca))
    times = iter([time.time() - 20, time.time()])
    options = WebHookOptions(rig.receiver.url, ("file:/new",), access=access)
    driver = WebHook(options, secret=lambda _: SECRET, now_s=lambda: next(times))
    for _ in range(2):
        driver.send(notice(), rig.receiver.url)
    first, second = (headers for headers, _ in rig.receiver.requests)
    assert first[ID] == second[ID] == notice().id
    assert int(second[TIMESTAMP]) - int(first[TIMESTAMP]) in (19, 20, 21)


def test_the_body_says_what_is_asked_and_how_to_answer(rig: Hook) -> None:
    options = WebHookOptions(rig.receiver.url, ("file:/new",), access=WebAccess(ca_file=str(rig.certificates.ca)))
    way = AnswerWay("https://b.example/answers/{responder}", {"ann": "n1", "bob": "n2"})
    WebHook(options, secret=lambda _: SECRET, answers=lambda _: way).send(notice(), rig.receiver.url)
    body = msgspec.json.decode(rig.receiver.requests[0][1])
    assert (body["type"], body["timestamp"]) == ("bridgehead.ask.open", "2023-11-14T22:13:20Z")
    assert body["data"]["ask"]["may_answer"] == ["ann", "bob"]
    assert body["data"]["answer"] == {"url": "https://b.example/answers/{responder}", "nonces": {"ann": "n1", "bob": "n2"}}


def test_a_receiver_says_when_to_come_again(rig: Hook) -> None:
    rig.receiver.answers += [
        (429, {"Retry-After": "42"}),
        (503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        (429, {"Retry-After": "9" * 99}),
    ]
    pauses = []
    for _ in range(3):
        with pytest.raises(Transient) as later:
            rig.driver().send(notice(), rig.receiver.url)
        pauses.append(later.value.retry_after_s)
    assert pauses == [42.0, 1.0, 3600.0]


def test_a_redirection_is_not_followed(rig: Hook) -> None:
    rig.receiver.answers.append((307, {"Location": rig.receiver.url}))
    with pytest.raises(Permanent, match="points elsewhere"):
        rig.driver().send(notice(), rig.receiver.url)
    assert len(rig.receiver.requests) == 1


def test_a_server_that_nobody_vouches_for_is_told_nothing(rig: Hook) -> None:
    options = WebHookOptions(rig.receiver.url, ("file:/new",))
    with pytest.raises(Permanent, match="not trusted"):
        WebHook(options, secret=lambda _: SECRET).send(notice(), rig.receiver.url)
    assert rig.receiver.requests == []


def test_what_may_be_secret_in_an_address_is_neither_stored_nor_shown(rig: Hook) -> None:
    """Some services take a token in the query."""
    place, _, query = rig.receiver.url.partition("?")
    url = place.replace("https://", "https://me:PASSWORD@") + f"?token=TOKEN&{query}#end"
    options = WebHookOptions(url, ("file:/new",), timeout_s=5.0, access=WebAccess(ca_file=str(rig.certificates.ca)))
    driver = WebHook(options, secret=lambda _: SECRET)
    assert driver.receivers(notice()) == (place,)
    driver.send(notice(), place)
    assert rig.receiver.paths == [f"/hook?token=TOKEN&{query}"]
    rig.refuse()
    rig.later()
    for error in (Permanent, Transient, Transient):
        with pytest.raises(error) as refused:
            driver.send(notice(2), place)
        assert not any(secret in repr(vars(refused.value)) + str(refused.value) for secret in ("TOKEN", "PASSWORD"))
        if error is Transient:
            rig.receiver.close()


@pytest.mark.parametrize("url", ["http://example.org/hook", "http://10.0.0.1/hook", "ftp://x/y", "hook", "http://127.0.0.1.example.org/"])
def test_nothing_is_told_in_the_clear(url: str) -> None:
    with pytest.raises(ValueError, match="https:// is needed"):
        WebHookOptions(url, ("file:/x",))


@pytest.mark.parametrize("secret", ["short", "whsec_***", "whsec_c2hvcnQ="])
def test_a_weak_secret_signs_nothing_and_is_not_shown(rig: Hook, secret: str) -> None:
    with pytest.raises(Permanent) as refused:
        rig.driver(secrets={"file:/new": secret}).send(notice(), rig.receiver.url)
    assert secret not in str(refused.value)
    assert rig.receiver.requests == []
