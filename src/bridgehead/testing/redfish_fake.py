"""A strict fake of nodes' controllers: what DSP0266 says of changes is refused when it is done wrongly. ETags and the boot that happens
once are shown by it alone; the emulator in the contract tests has neither."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final

USER, PASSWORD = "operator", "s3cret-of-a-test"
RESETS: Final = ("On", "ForceOff", "ForceRestart", "PowerCycle")
_BOOT_FIELDS: Final = {"BootSourceOverrideEnabled", "BootSourceOverrideTarget", "BootSourceOverrideMode"}


class FakeController:
    """One controller with one system, inside its ``with`` block.

    Args:
        starts: called, in a thread, with the boot source of each start: ``Pxe`` once after it was set, else ``Hdd``.
        on: whether it is switched on at first.
    """

    def __init__(self, starts: Callable[[str], None], *, on: bool = True) -> None:
        self.on, self.override, self.etag = on, "None", 1
        self.resets: list[str] = []
        self.lose_answers = 0
        """So many resets are done, and their answer is never sent."""
        self.busy = 0
        """So many requests are answered with 503."""
        self._starts = starts
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"controller": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeController:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def system(self) -> dict[str, Any]:
        """The resource."""
        return {
            "@odata.id": "/redfish/v1/Systems/1",
            "Id": "1",
            "PowerState": "On" if self.on else "Off",
            "Boot": {
                "BootSourceOverrideEnabled": "Once" if self.override != "None" else "Disabled",
                "BootSourceOverrideTarget": self.override,
                "BootSourceOverrideMode": "UEFI",
                "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd"],
            },
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": list(RESETS),
                }
            },
        }

    def reset(self, kind: str) -> HTTPStatus:
        """What the reset does."""
        if kind not in RESETS or (kind == "On") == self.on:
            return HTTPStatus.CONFLICT
        self.resets.append(kind)
        self.on = kind != "ForceOff"
        if self.on:
            source, self.override = ("Pxe" if self.override == "Pxe" else "Hdd"), "None"
            threading.Thread(target=self._starts, args=(source,), daemon=True).start()
        return HTTPStatus.NO_CONTENT


class _Handler(BaseHTTPRequestHandler):
    controller: FakeController
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self._let_in():
            return
        match self.path:
            case "/redfish/v1/Systems":
                self._answer(HTTPStatus.OK, {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}], "Members@odata.count": 1})
            case "/redfish/v1/Systems/1":
                self._answer(HTTPStatus.OK, self.controller.system(), etag=f'W/"{self.controller.etag}"')
            case _:
                self._answer(HTTPStatus.NOT_FOUND)

    def do_PATCH(self) -> None:
        body = self._body()
        if not self._let_in():
            return
        boot = body.get("Boot")
        if self.path != "/redfish/v1/Systems/1" or set(body) != {"Boot"} or not isinstance(boot, dict) or set(boot) - _BOOT_FIELDS:
            self._answer(HTTPStatus.BAD_REQUEST)
        elif self.headers.get("If-Match") != f'W/"{self.controller.etag}"':
            self._answer(HTTPStatus.PRECONDITION_FAILED if "If-Match" in self.headers else HTTPStatus.PRECONDITION_REQUIRED)
        elif boot.get("BootSourceOverrideTarget") not in ("None", "Pxe", "Hdd") or boot.get("BootSourceOverrideEnabled") != "Once":
            self._answer(HTTPStatus.BAD_REQUEST)
        else:
            self.controller.override = boot["BootSourceOverrideTarget"]
            self.controller.etag += 1
            self._answer(HTTPStatus.OK, self.controller.system())

    def do_POST(self) -> None:
        body = self._body()
        if not self._let_in():
            return
        if self.path != "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset" or set(body) != {"ResetType"}:
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        status = self.controller.reset(str(body["ResetType"]))
        if self.controller.lose_answers:
            self.controller.lose_answers -= 1
            self.close_connection = True
            return
        self._answer(status)

    def _let_in(self) -> bool:
        if self.controller.busy:
            self.controller.busy -= 1
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
            return False
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {login}":
            self._answer(HTTPStatus.UNAUTHORIZED)
            return False
        return True

    def _body(self) -> dict[str, Any]:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            found = json.loads(raw)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _answer(self, status: HTTPStatus, body: object = None, *, etag: str = "") -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
