"""Nodes are rebuilt through their controllers, by what the server gives them, and count when they report the right thing (R15)."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from bridgehead.app import netboot, runs
from bridgehead.app.home import Home
from bridgehead.cli.main import main
from bridgehead.drivers.netboot import NetbootFolder, NetbootMachines, NetbootOptions, NetbootServer
from bridgehead.drivers.netboot.redfish import Redfish
from bridgehead.host.web import WebAccess
from bridgehead.kernel.errors import BridgeheadError, Conflict, NotFound, Permanent, Transient, Unknown
from bridgehead.runbook import state as st
from bridgehead.testing.redfish_fake import PASSWORD, USER, FakeController
from bridgehead.testing.scheduler_suite import stamp

KERNEL, INITRD, ROOT = b"a kernel", b"an initrd", b"a root file system" * 1000
FAKE_SMI = """#!/bin/sh
printf '%s\\n' '550.54.15, NVIDIA H100 80GB HBM3' '550.54.15, NVIDIA H100 80GB HBM3'
"""


def image(name: str, data: bytes) -> dict:
    return {"path": name, "sha256": hashlib.sha256(data).hexdigest()}


class Hall:
    """Nodes of a hall: controllers, and firmware that does what iPXE and an installer would."""

    def __init__(self, tmp: Path, nodes: int = 3) -> None:
        self.tmp, self.images, self.folder = tmp, tmp / "images", tmp / "netboot"
        self.images.mkdir()
        for name, data in (("vmlinuz", KERNEL), ("initrd", INITRD), ("root.squashfs", ROOT)):
            (self.images / name).write_bytes(data)
        self.controllers = [FakeController(lambda source, number=number: self.start(number, source)) for number in range(nodes)]
        self.log: list[tuple[int, str]] = []
        self.broken: set[int] = set()
        self.bin = tmp / "bin"
        self.bin.mkdir()
        (self.bin / "nvidia-smi").write_text(FAKE_SMI)
        (self.bin / "nvidia-smi").chmod(0o755)
        (tmp / "password").write_text(PASSWORD)
        self.port = 0

    def document(self, **given: object) -> dict:
        nodes = {
            f"n{number}": {"profile": "h100", "mac": f"02:00:00:00:00:{number:02x}", "address": f"10.0.0.{number + 10}/24", "bmc": one.url}
            for number, one in enumerate(self.controllers)
        }
        return {
            "rebuild": "hall",
            "site": "b",
            "server": f"http://127.0.0.1:{self.port}",
            "controllers": {"user": USER, "password_file": str(self.tmp / "password"), "timeout": "5 s"},
            "keys": ["ssh-ed25519 AAAA ada"],
            "images": {
                "ubuntu": {"kernel": image("vmlinuz", KERNEL), "initrd": image("initrd", INITRD), "root": image("root.squashfs", ROOT)}
            },
            "profiles": {
                "h100": {"image": "ubuntu", "disk": "/dev/nvme0n1", "gpu_model": "NVIDIA H100 80GB HBM3", "gpus": 2, "driver": "550.54.15"}
            },
            "nodes": nodes,
            "node": "20 s",
            "at_once": 2,
            "tries": 2,
            **given,
        }

    def make(self, **given: object) -> Path:
        file = self.tmp / "rebuild.yaml"
        file.write_text(yaml.safe_dump(self.document(**given)))
        netboot.make(file, self.folder)
        return file

    # what a node does

    def start(self, number: int, source: str) -> None:
        self.log.append((number, source))
        if number in self.broken:
            return
        if source != "Pxe":
            return
        script = self.get(f"/boot/02-00-00-00-00-{number:02x}")
        if "sanboot" in script:
            self.log.append((number, "disk"))
            return
        urls = re.findall(r"^(?:kernel|initrd) (\S+)", script, re.MULTILINE)
        assert [hashlib.sha256(urllib.request.urlopen(url).read()).hexdigest() for url in urls] == [
            hashlib.sha256(one).hexdigest() for one in (KERNEL, INITRD)
        ]
        seed = re.search(r"ds=nocloud;s=(\S+)", script)[1]
        answers = yaml.safe_load(urllib.request.urlopen(seed + "user-data").read())["autoinstall"]
        assert yaml.safe_load(urllib.request.urlopen(seed + "meta-data").read())["local-hostname"] == f"n{number}"
        for command in answers["late-commands"]:
            subprocess.run(["sh", "-c", command], check=True)
        assert "sanboot" in self.get(f"/boot/02-00-00-00-00-{number:02x}")  # never a circle of installations
        place = self.tmp / f"disk-{number}"
        place.mkdir(exist_ok=True)
        written = {one["path"]: one["content"] for one in answers["user-data"]["write_files"]}
        report = written["/usr/local/sbin/bridgehead-report"]
        for name in ("build", "token"):
            (place / name).write_text(written[f"/etc/bridgehead-{name}"])
            report = report.replace(f"/etc/bridgehead-{name}", str(place / name))
        (place / "report").write_text(report)
        (command,) = answers["user-data"]["runcmd"]
        command = [word.replace("/usr/local/sbin/bridgehead-report", f"sh {place}/report") for word in command]
        done = subprocess.run(command, env={"PATH": f"{self.bin}:/usr/bin:/bin"}, check=False)
        self.log.append((number, f"ended with {done.returncode}"))

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.read().decode()


@pytest.fixture
def hall(tmp_path):
    hall = Hall(tmp_path)
    for one in hall.controllers:
        one.__enter__()
    hall.make()
    said: list[str] = []
    with NetbootServer(NetbootFolder(hall.folder), hall.images, host="127.0.0.1", port=0, say=said.append) as server:
        hall.port, hall.said = server.port, said
        hall.make()
        yield hall
    for one in hall.controllers:
        one.__exit__(None, None, None)


def machines(hall: Hall) -> NetbootMachines:
    access = WebAccess(user=USER, password_file=str(hall.tmp / "password"))
    return NetbootMachines("b", NetbootOptions(str(hall.folder), access, timeout_s=5.0))


def build(hall: Hall, node: str) -> str:
    folder = NetbootFolder(hall.folder)
    return folder.build(folder.node(node))


def eventually(look, within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < until
        time.sleep(0.05)


def run(hall: Hall, *names: str) -> st.RunState:
    home = Home(hall.tmp / "home")
    runbook, connections = netboot.propose(hall.folder, names, [])
    return driven(home, netboot.open_run(home, runbook, connections, name=None, by="ada"))


def driven(home: Home, name: str) -> st.RunState:
    engines: list = []

    def watch(state, events):
        if isinstance(state.mode, st.OnHold) and state.mode.frozen:
            engines[0].stop()

    return runs.drive(home, name, watcher=watch, on_engine=engines.append)


def test_R15_nodes_come_back_as_what_their_specification_says(hall: Hall) -> None:
    hall.controllers[1].on = False
    state = run(hall)
    assert runs.mode_word(state) == "done", state.mode
    assert [one.state for one in netboot.lines(hall.folder)] == ["back"] * 3
    assert [one.resets for one in hall.controllers] == [["ForceRestart"], ["On"], ["ForceRestart"]]
    done = state.steps["rebuild"]
    assert done.verified["back"] == 3
    assert done.verified["lost"] == {}


def test_a_node_that_never_comes_back_is_begun_again_and_then_named(hall: Hall) -> None:
    hall.make(node="2 s", needed="60 %")
    hall.broken.add(2)
    state = run(hall)
    assert runs.mode_word(state) == "done", state.mode
    assert hall.controllers[2].resets == ["ForceRestart", "ForceRestart"]
    assert state.steps["rebuild"].verified["lost"] == {"n2": "its installation has not ended"}
    hall.make(node="2 s", needed="100 %")
    frozen = run(hall)
    assert isinstance(frozen.mode, st.OnHold)
    assert "1 of 3 nodes did not come back, 3 must: n2: its installation has not ended" in frozen.mode.reason


def test_a_node_with_too_few_gpus_is_not_back(hall: Hall) -> None:
    hall.make(node="2 s", tries=1)
    (hall.bin / "nvidia-smi").write_text(FAKE_SMI.replace("'550.54.15, NVIDIA H100 80GB HBM3' '550.54.15", "'550.54.15"))
    state = run(hall, "n0")
    assert isinstance(state.mode, st.OnHold)
    assert "it shows 1 GPUs, not 2" in state.mode.reason
    assert {one.node: one.state for one in netboot.lines(hall.folder)} == {"n0": "wrong", "n1": "not-ordered", "n2": "not-ordered"}


def test_an_order_is_given_once_whatever_becomes_of_the_answer(hall: Hall) -> None:
    there, controller = machines(hall), hall.controllers[0]
    controller.busy = 1
    with pytest.raises(Transient):
        there.rebuild("n0", build=build(hall, "n0"), attempt=1, stamp=stamp())
    assert not there.observe("n0").told
    controller.lose_answers = 1
    with pytest.raises(Unknown):
        there.rebuild("n0", build=build(hall, "n0"), attempt=1, stamp=stamp())
    eventually(lambda: there.observe("n0").report is not None)
    resets = list(controller.resets)
    again = machines(hall)
    again.rebuild("n0", build=build(hall, "n0"), attempt=1, stamp=stamp(epoch=2))
    again.rebuild("n0", build=build(hall, "n0"), attempt=1, stamp=stamp(epoch=2))
    assert len(controller.resets) == len(resets) + 1  # the lost one may have been lost: told once more, and never again
    assert again.observe("n0").report is not None
    with pytest.raises(Conflict, match="epoch 1 is older"):
        there.rebuild("n0", build=build(hall, "n0"), attempt=2, stamp=stamp(epoch=1))
    with pytest.raises(Conflict, match="another build"):
        there.rebuild("n0", build="0" * 64, attempt=2, stamp=stamp(epoch=2))
    with pytest.raises(NotFound):
        there.observe("n9")


@pytest.mark.parametrize("same", [True, False])
def test_a_controller_that_sends_on_is_followed_on_its_own_server_alone(hall: Hall, same: bool) -> None:
    """Else whoever stands in for one could get the login of all."""
    asked: list[tuple[str, bool]] = []
    controller = hall.controllers[0]

    class SendsOn(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, "Authorization" in self.headers))
            self.send_response(307)
            self.send_header("Location", "/redfish/v1/Systems/2" if same else f"{controller.url}/redfish/v1/Systems/1")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SendsOn)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    access = WebAccess(user=USER, password_file=str(hall.tmp / "password"))
    driver = Redfish(f"http://127.0.0.1:{server.server_port}", system="1", access=access, timeout_s=5.0)
    with pytest.raises(Permanent, match="answered 307" if same else f"it sends on to {controller.url}") as refused:
        driver.start_from_network()
    server.shutdown()
    server.server_close()
    assert asked == [(f"/redfish/v1/Systems/{number}", True) for number in ((1, 2) if same else (1,))], "once, and never in a circle"
    assert same or "bmc" in refused.value.remedy
    assert controller.resets == []


def test_nobody_reports_for_another_node_and_nothing_else_is_served(hall: Hall) -> None:
    there = machines(hall)
    there.rebuild("n1", build=build(hall, "n1"), attempt=1, stamp=stamp())
    eventually(lambda: there.observe("n1").report is not None)
    before = there.observe("n1")
    hall.broken.add(0)
    there.rebuild("n0", build=build(hall, "n0"), attempt=1, stamp=stamp())
    token = re.search(r"X-Bridgehead-Token: ([0-9a-f]{64})", hall.get("/nodes/n0/user-data"))[1]
    body = json.dumps({"build": "f" * 64, "gpus": 8, "driver": "", "gpu_model": ""}).encode()
    for headers in ({}, {"X-Bridgehead-Token": token}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{hall.port}/nodes/n1/report", data=body, headers=headers))
        assert refused.value.code == 403
    assert there.observe("n1") == before
    for path in (
        "/images/../netboot/secret",
        "/images/secret",
        "/nodes/n0/../../secret",
        "/nodes/..%2F..%2Fsecret/x",
        "/secret",
        "/nodes/n9/user-data",
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            hall.get(path)
        assert refused.value.code == 404
    assert "sanboot" in hall.get("/boot/02:ff:ff:ff:ff:ff")
    assert "sanboot" in hall.get("/boot/02-00-00-00-00-02")  # not ordered
    with pytest.raises(urllib.error.HTTPError):
        hall.get("/nodes/n2/user-data")  # no token without an order
    with pytest.raises(urllib.error.HTTPError):
        hall.get("/nodes/n1/user-data")  # nor when it is installed


def test_an_image_that_is_not_the_one_of_the_file_is_not_served(hall: Hall) -> None:
    (hall.images / "initrd").write_bytes(b"another")
    with pytest.raises(urllib.error.HTTPError) as replaced:
        hall.get("/images/initrd")  # while it serves
    assert replaced.value.code == 503
    assert any("it is not served" in text for text in hall.said)
    with pytest.raises(BridgeheadError, match="its hash is") as refused:
        NetbootServer(NetbootFolder(hall.folder), hall.images, host="127.0.0.1", port=0)
    assert "initrd" in refused.value.happened
    (hall.images / "vmlinuz").unlink()
    with pytest.raises(BridgeheadError, match="No such file"):
        NetbootServer(NetbootFolder(hall.folder), hall.images, host="127.0.0.1", port=0)


def test_what_ran_there_before_cannot_say_that_it_was_replaced(hall: Hall) -> None:
    """The node is ordered anew; its old system lives on, and has the token, the build and the reporter of the order before."""
    there = machines(hall)
    there.rebuild("n0", build=build(hall, "n0"), attempt=1, stamp=stamp("first"))
    eventually(lambda: there.observe("n0").report is not None)
    hall.broken.add(0)
    there.rebuild("n0", build=build(hall, "n0"), attempt=1, stamp=stamp("second"))
    old = (hall.tmp / "disk-0" / "token").read_text().strip().removeprefix("X-Bridgehead-Token: ")
    body = json.dumps({"build": build(hall, "n0"), "gpus": 2, "driver": "", "gpu_model": ""}).encode()
    for what in ("installed", "report"):
        late = urllib.request.Request(f"http://127.0.0.1:{hall.port}/nodes/n0/{what}", data=body, headers={"X-Bridgehead-Token": old})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(late)
        assert refused.value.code == 403
    assert there.observe("n0").report is None
    token = re.search(r"X-Bridgehead-Token: ([0-9a-f]{64})", hall.get("/nodes/n0/user-data"))[1]
    early = urllib.request.Request(f"http://127.0.0.1:{hall.port}/nodes/n0/report", data=body, headers={"X-Bridgehead-Token": token})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(early)
    assert refused.value.code == 409  # it is not installed
    assert there.observe("n0").report is None


def test_a_node_whose_commands_fail_is_not_back(hall: Hall) -> None:
    profile = hall.document()["profiles"]["h100"]
    hall.make(node="3 s", tries=1, profiles={"h100": {**profile, "commands": ["false", "true"]}})
    state = run(hall, "n0")
    assert "it is installed and has not reported" in state.mode.reason
    assert (0, "ended with 1") in hall.log


def test_a_run_that_is_resumed_begins_those_again_that_are_not_back(hall: Hall) -> None:
    hall.make(node="2 s", tries=1)
    hall.broken.add(2)
    frozen = run(hall)
    assert isinstance(frozen.mode, st.OnHold)
    hall.broken.clear()
    home = Home(hall.tmp / "home")
    runs.resume(home, frozen.run, by="ada")
    state = driven(home, frozen.run)
    assert runs.mode_word(state) == "done", state.mode
    assert [len(one.resets) for one in hall.controllers] == [1, 1, 2]


def test_the_command_line_asks_before_it_overwrites(hall: Hall, monkeypatch, capsys) -> None:
    def bridgehead(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["bridgehead", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    home = ("--home", str(hall.tmp / "home"))
    nowhere = str(hall.tmp / "nowhere")
    assert bridgehead("netboot", "status", "--dir", nowhere) == 2, "nothing was made there"
    assert bridgehead("netboot", "rebuild", "--dir", nowhere, "--plan-only", *home) == 2
    assert bridgehead("netboot", "make", str(hall.tmp / "rebuild.yaml"), "--to", str(hall.folder)) == 0
    assert bridgehead("netboot", "rebuild", "--dir", str(hall.folder), *home) == 2
    assert "EVERYTHING on the disks" in capsys.readouterr().err
    assert bridgehead("netboot", "rebuild", "--dir", str(hall.folder), "--plan-only", *home) == 0
    assert "nodes.rebuild" in capsys.readouterr().out
    assert bridgehead("netboot", "rebuild", "n7", "--dir", str(hall.folder), "--overwrite-disks", *home) == 2
    assert bridgehead("netboot", "status", "--dir", str(hall.folder)) == 1
    assert "0 of 3 nodes are back" in capsys.readouterr().out
    assert [one.resets for one in hall.controllers] == [[], [], []]
