"""The Redfish driver meets controllers that others made: sushy-tools' emulator, with its fake machines (R15)."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import shutil
import signal
import ssl
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.netboot.redfish import SYSTEMS, Redfish
from bridgehead.host.web import WebAccess
from bridgehead.kernel.errors import NotFound, Permanent, Transient, Unknown
from bridgehead.testing.certificates import Certificates, make_certificates
from bridgehead.testing.servers import Server, free_port

pytestmark = pytest.mark.server("sushy-emulator")

USER, PASSWORD = "operator", "s3cret-of-a-test"
HTPASSWD = f"{USER}:$2b$04$gNwwx17LqA6tXDbE4p9QgOt1ALzvMp/9cucHZkHNllZA7XuDwmMom\n"
QUICK = """
import logging, random
random.randint = lambda low, high: 2  # a start takes up to 11 s, as on real machines: here 1 to 2, since it rounds the time down
logging.getLogger("sushy_tools.emulator.main").setLevel(logging.INFO)  # it says what it does
"""
# Set boot device to "Pxe" for system "..."; System "..." power state set to "On"
TOLD = re.compile(r'(?:Set boot (?:device|mode) to|System) "([^"]+)" (?:for system|power state set to) "([^"]+)"')


def machine(number: int, name: str, power: str = "On", **more: object) -> dict[str, object]:
    mac = f"02:00:00:00:00:{number:02x}"
    nics = [{"mac": mac, "ip": f"192.0.2.{number}"}]
    uuid = f"00000000-0000-4000-8000-{number:012d}"
    return {"uuid": uuid, "name": name, "power_state": power, "external_notifier": False, "nics": nics, **more}


class Emulator:
    """A running emulator; what it is asked here goes past the driver.

    Args:
        login: whether it asks for one.
        certificates: of its own, for https.
    """

    def __init__(self, folder: Path, *machines: dict[str, object], login: bool = False, certificates: Certificates | None = None) -> None:
        self.folder, self.port, self.certificates = folder, free_port(), certificates
        self.url = f"{'https' if certificates else 'http'}://127.0.0.1:{self.port}"
        config: dict[str, object] = {
            "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
            "SUSHY_EMULATOR_LISTEN_PORT": self.port,
            "SUSHY_EMULATOR_STATE_DIR": str(folder),
            "SUSHY_EMULATOR_FAKE_SYSTEMS": list(machines),
            "EXTERNAL_NOTIFICATION_URL": f"http://127.0.0.1:{free_port()}",  # nobody is there
        }
        if login:
            (folder / "htpasswd").write_text(HTPASSWD)
            config["SUSHY_EMULATOR_AUTH_FILE"] = str(folder / "htpasswd")
        if certificates:
            config |= {"SUSHY_EMULATOR_SSL_CERT": str(certificates.server), "SUSHY_EMULATOR_SSL_KEY": str(certificates.server)}
        file = folder / "emulator.conf"
        file.write_text(QUICK + "".join(f"{name} = {value!r}\n" for name, value in config.items()))
        (folder / "password").write_text(PASSWORD)
        program = shutil.which("sushy-emulator", path=sysconfig.get_path("scripts")) or "sushy-emulator"
        command = [program, "--fake", "--config", str(file)]
        # Not through a proxy of the environment: its notifier is to fail at once.
        self.server = Server(command, log=folder / "emulator.log", env={"TMPDIR": str(folder), "NO_PROXY": "127.0.0.1"})

    def ready(self) -> bool:
        try:
            return bool(self.ask("/redfish/v1/"))
        except OSError:
            return False

    def ask(self, path: str) -> dict:
        """A plain GET."""
        if self.certificates is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5.0)
        else:
            trust = ssl.create_default_context(cafile=str(self.certificates.ca))
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5.0, context=trust)
        with contextlib.closing(connection):
            login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            connection.request("GET", path, headers={"Authorization": f"Basic {login}"})
            answer = connection.getresponse()
            assert answer.status == 200
            return json.loads(answer.read())

    def power(self, uuid: object) -> str:
        return self.ask(f"{SYSTEMS}/{uuid}")["PowerState"]

    def boot(self, uuid: object) -> tuple[str, str]:
        boot = self.ask(f"{SYSTEMS}/{uuid}")["Boot"]
        return boot["BootSourceOverrideTarget"], boot["BootSourceOverrideMode"]

    def told(self, uuid: object) -> list[str]:
        """What the emulator itself says that it did with a machine, in order."""
        pairs = TOLD.findall(self.server.log.read_text())
        return [one if two == uuid else two for one, two in pairs if uuid in (one, two)]

    def driver(self, system: object = "", *, timeout_s: float = 5.0, **access: str) -> Redfish:
        access = {"user": USER, "password_file": str(self.folder / "password"), **access}
        return Redfish(self.url, system=str(system), access=WebAccess(**access), timeout_s=timeout_s)


@contextlib.contextmanager
def emulator(
    folder: Path, *machines: dict[str, object], login: bool = False, certificates: Certificates | None = None
) -> Iterator[Emulator]:
    running = Emulator(folder, *machines, login=login, certificates=certificates)
    try:
        running.server.wait_until(running.ready)
        yield running
    finally:
        running.server.stop()


def eventually(look, within_s: float = 10.0) -> None:
    until = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < until
        time.sleep(0.05)


OFF, ON, NAMED, LEGACY = (machine(1, "off", "Off"), machine(2, "on"), machine(3, "gpu-03"), machine(4, "legacy", boot_mode="Legacy"))
REFUSED, FAULTY = machine(5, "refused"), machine(6, "faulty", external_notifier=True)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One controller of several machines, as that of a chassis."""
    with emulator(tmp_path_factory.mktemp("hall"), OFF, ON, NAMED, LEGACY, REFUSED, FAULTY, login=True) as running:
        yield running


def test_what_is_off_is_switched_on_from_the_network(hall: Emulator) -> None:
    uuid = OFF["uuid"]
    assert (hall.power(uuid), hall.boot(uuid)) == ("Off", ("Hdd", "UEFI"))
    hall.driver(uuid).start_from_network()
    assert hall.boot(uuid) == ("Pxe", "UEFI")
    assert hall.told(uuid) == ["Pxe", "UEFI", "On"]
    eventually(lambda: hall.power(uuid) == "On")
    assert hall.power(ON["uuid"]) == "On"
    assert hall.told(ON["uuid"]) == [], "its neighbours are left alone"


def test_what_is_on_is_restarted_from_the_network(hall: Emulator) -> None:
    uuid = ON["uuid"]
    hall.driver(uuid).start_from_network()
    assert hall.power(uuid) == "Off", "it goes down first"
    assert hall.boot(uuid) == ("Pxe", "UEFI")
    assert hall.told(uuid) == ["Pxe", "UEFI", "ForceRestart"]
    eventually(lambda: hall.power(uuid) == "On")


def test_a_system_may_be_named_by_what_its_controller_sends_on_from(hall: Emulator) -> None:
    """The emulator knows machines by a name too, and answers 307 there."""
    hall.driver("gpu-03").start_from_network()
    assert hall.boot(NAMED["uuid"]) == ("Pxe", "UEFI")
    assert hall.told(NAMED["uuid"]) == ["Pxe", "UEFI", "ForceRestart"]


def test_a_machine_that_starts_as_a_legacy_one_is_started_by_uefi(hall: Emulator) -> None:
    assert hall.boot(LEGACY["uuid"]) == ("Hdd", "Legacy")
    hall.driver(LEGACY["uuid"]).start_from_network()
    assert hall.boot(LEGACY["uuid"]) == ("Pxe", "UEFI")


def test_several_systems_without_a_name_are_refused(hall: Emulator) -> None:
    with pytest.raises(Permanent, match=r"it has 6 systems\. Name the right one by 'system'"):
        hall.driver().start_from_network()


def test_a_system_that_is_not_there_is_named(hall: Emulator) -> None:
    with pytest.raises(NotFound, match=r"Systems/gpu-99: the server answered 404 \(Fake system gpu-99 was not found\)"):
        hall.driver("gpu-99").start_from_network()


@pytest.mark.parametrize("access", [{"password": "wrong"}, {"user": "nobody"}, {"user": ""}])
def test_a_wrong_login_is_refused_and_not_shown(hall: Emulator, tmp_path: Path, access: dict[str, str]) -> None:
    (tmp_path / "password").write_text(access.get("password", PASSWORD))
    user = access.get("user", USER)
    for system in (REFUSED["uuid"], ""):
        with pytest.raises(Permanent, match="answered 401") as refused:
            hall.driver(system, user=user, password_file=str(tmp_path / "password")).start_from_network()
        assert "rights" in refused.value.remedy
        assert PASSWORD not in str(refused.value)
    assert hall.told(REFUSED["uuid"]) == []
    assert hall.boot(REFUSED["uuid"]) == ("Hdd", "UEFI")


def test_an_error_in_the_middle_of_a_change_leaves_open_whether_it_was_made(hall: Emulator) -> None:
    """The emulator keeps the change and then fails to tell somebody: 500, though it was made."""
    with pytest.raises(Unknown, match="500"):
        hall.driver(FAULTY["uuid"]).start_from_network()
    assert hall.boot(FAULTY["uuid"])[0] == "Pxe"
    assert hall.power(FAULTY["uuid"]) == "On"
    assert not {"ForceRestart", "On"} & set(hall.told(FAULTY["uuid"]))


def test_the_only_system_needs_no_name_and_certificates_are_looked_at(tmp_path: Path) -> None:
    only, certificates = machine(1, "only", "Off"), make_certificates(tmp_path)
    with emulator(tmp_path, only, login=True, certificates=certificates) as running:
        with pytest.raises(Permanent, match="its certificate is not trusted"):
            running.driver().start_from_network()
        assert running.boot(only["uuid"]) == ("Hdd", "UEFI")
        running.driver(ca_file=str(certificates.ca)).start_from_network()
        assert running.boot(only["uuid"]) == ("Pxe", "UEFI")
        assert running.told(only["uuid"]) == ["Pxe", "UEFI", "On"]


def test_a_controller_that_hangs_or_is_gone_was_not_reached(tmp_path: Path) -> None:
    only = machine(1, "only")
    with emulator(tmp_path, only) as running:
        running.server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(Transient, match="no answer in time"):
            running.driver(timeout_s=0.2).start_from_network()
        running.server.process.send_signal(signal.SIGCONT)
        assert running.boot(only["uuid"]) == ("Hdd", "UEFI")
        running.server.stop(number=signal.SIGKILL)
        with pytest.raises(Transient, match="refused"):
            running.driver().start_from_network()
    assert running.told(only["uuid"]) == []
