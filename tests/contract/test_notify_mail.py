"""E-mail keeps the notify port's contract with a real SMTP server, over STARTTLS, TLS and in the clear on loopback (issue 6, `notify`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridgehead.drivers.notify import Mail, MailOptions, Security
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.kernel.ids import Person
from bridgehead.testing.certificates import Certificates, make_certificates
from bridgehead.testing.mail_server import PASSWORD, USER, MailServer
from bridgehead.testing.notify_suite import SECRET, Heard, NotifyRig, NotifySuite, notice, over, tell

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH")  # the server does not know that it is inside TLS
PREFIX = "[Bridgehead] "
ADDRESSES = {"ann": "ann@example.org", "bob": "bob@example.org", "eve": "eve@example.org"}
SENDER = "bridgehead@example.net"


class Post(NotifyRig):
    def __init__(self, server: MailServer, **options: Any) -> None:
        self.server = server
        self.options = {"security": Security.NONE, **options}

    def driver(self, **more: Any) -> Mail:
        options = {"addresses": {"ann": ADDRESSES["ann"]}, "timeout_s": 5.0, **self.options, **more}
        return Mail(MailOptions(self.server.address, SENDER, **options), secret={"file:/pw": PASSWORD, "file:/no": SECRET}.__getitem__)

    def heard(self) -> list[Heard]:
        found = {}
        for to, mail in self.server.taken:
            title = str(mail["Subject"]).removeprefix(PREFIX)
            text = mail.get_content()
            one = Heard(str(mail["Message-ID"]), title.removeprefix("[over] "), text, title.startswith("[over] "))
            found[to, one.id] = one
        return list(found.values())

    def later(self) -> None:
        self.server.replies.append("451 greylisted, come again")

    def refuse(self) -> None:
        self.server.replies.append("554 no thanks")

    def hang_up(self) -> None:
        self.server.hang_up = True

    def unplug(self) -> None:
        self.server.stop()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


class TestMailInTheClear(NotifySuite):
    @pytest.fixture
    def rig(self) -> Iterator[Post]:
        with MailServer() as server:
            yield Post(server)


class TestMailByStarttls(NotifySuite):
    @pytest.fixture
    def rig(self, certificates: Certificates) -> Iterator[Post]:
        with MailServer(certificate=certificates.server, login=True) as server:
            yield Post(server, security=Security.STARTTLS, ca_file=str(certificates.ca), user=USER, password="file:/pw")


class TestMailByTls(NotifySuite):
    @pytest.fixture
    def rig(self, certificates: Certificates) -> Iterator[Post]:
        with MailServer(certificate=certificates.server, implicit=True, login=True) as server:
            yield Post(server, security=Security.TLS, ca_file=str(certificates.ca), user=USER, password="file:/pw")


def test_each_person_gets_a_mail_of_his_own_and_those_who_always_get_one_too() -> None:
    with MailServer() as server:
        driver = Post(server).driver(addresses=ADDRESSES, always=("log@example.org", "ann@example.org"))
        assert driver.receivers(notice()) == ("ann@example.org", "bob@example.org", "log@example.org")
        tell(driver, notice())
        assert [(to, str(mail["To"])) for to, mail in server.taken] == [(to, to) for to in driver.receivers(notice())]


def test_who_has_no_address_is_no_receiver() -> None:
    with MailServer() as server:
        assert Post(server).driver(addresses={Person("zoe"): "zoe@example.org"}).receivers(notice()) == ()


def test_mails_of_a_thread_stand_together_and_ask_for_no_answer() -> None:
    with MailServer() as server:
        driver = Post(server).driver()
        tell(driver, notice())
        tell(driver, over(notice()))
        (_, first), (_, last) = server.taken
    assert first["References"] == last["References"]
    assert first["Message-ID"] != last["Message-ID"]
    assert (first["Auto-Submitted"], first["From"]) == ("auto-generated", SENDER)
    assert str(last["Subject"]).startswith("[Bridgehead] [over] move waits")
    assert "Who may answer: ann, bob." in first.get_content()
    assert "counts as refused" in first.get_content()


def test_one_recipient_that_is_refused_is_named_and_others_are_told() -> None:
    with MailServer() as server:
        server.recipients = {"ann@example.org": "550 no such user", "bob@example.org": "450 mailbox busy"}
        driver = Post(server).driver(addresses=ADDRESSES)
        with pytest.raises(Permanent, match="550: no such user"):
            driver.send(notice(), "ann@example.org")
        with pytest.raises(Transient, match="450: mailbox busy"):
            driver.send(notice(), "bob@example.org")
        driver.send(notice(), "eve@example.org")
        assert [to for to, _ in server.taken] == ["eve@example.org"]


def test_a_server_without_starttls_is_told_nothing() -> None:
    with MailServer() as server:
        with pytest.raises(Permanent, match="does not offer"):
            Post(server, security=Security.STARTTLS).driver().send(notice(), "ann@example.org")
        assert server.taken == []


def test_a_server_that_nobody_vouches_for_is_told_nothing(certificates: Certificates) -> None:
    for implicit in (False, True):
        with MailServer(certificate=certificates.server, implicit=implicit) as server:
            security = Security.TLS if implicit else Security.STARTTLS
            with pytest.raises(Permanent, match="not trusted"):
                Post(server, security=security).driver().send(notice(), "ann@example.org")
            assert server.taken == []


def test_a_wrong_password_is_permanent_and_not_shown(certificates: Certificates) -> None:
    with MailServer(certificate=certificates.server, login=True) as server:
        rig = Post(server, security=Security.STARTTLS, ca_file=str(certificates.ca), user=USER, password="file:/no")
        with pytest.raises(Permanent, match="535") as refused:
            rig.driver().send(notice(), "ann@example.org")
        assert SECRET not in str(refused.value)
        assert server.taken == []


class Curt(MailServer):
    """Says something else than good-bye at the end."""

    farewell = ""

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:
        return self.farewell


@pytest.mark.parametrize("farewell", ["421 closing", "502 no such command", "no answer at all"])
def test_what_was_taken_is_not_mailed_again_however_the_server_says_good_bye(farewell: str) -> None:
    with Curt() as server:
        server.farewell = farewell
        Post(server).driver().send(notice(), "ann@example.org")
        assert len(server.taken) == 1


@pytest.mark.parametrize(("farewell", "reply"), [("421 closing", "554 no thanks"), ("502 no", "451 come again")])
def test_a_refusal_stays_what_it_is_however_the_server_says_good_bye(farewell: str, reply: str) -> None:
    with Curt() as server:
        server.farewell = farewell
        server.replies.append(reply)
        with pytest.raises(Permanent if reply.startswith("5") else Transient, match=reply[:3]):
            Post(server).driver().send(notice(), "ann@example.org")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"server": "mail.example.org:25", "security": Security.NONE}, "nowhere else"),
        ({"server": "127.0.0.1:25", "security": Security.NONE, "user": "me"}, "without a user"),
        ({"server": "mail.example.org"}, "host:port"),
        ({"server": "h:25", "addresses": {"ann": "ann@example.org>\nRCPT TO:<eve@example.org"}}, "no e-mail address"),
        ({"server": "h:25", "always": ("a@b@c",)}, "no e-mail address"),
    ],
)
def test_options_that_would_tell_the_wrong_one_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MailOptions(**{"sender": SENDER, **options})
