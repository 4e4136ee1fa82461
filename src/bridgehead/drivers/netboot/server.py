"""The server from which nodes boot and to which they report. It gives an installer only to a node that is ordered and not yet installed.

GET  /boot/<mac>              iPXE's script: install, or start from the disk
GET  /nodes/<node>/<file>     the answers of its installer
GET  /images/<path>           files of images, only those of the rebuild file and only with the hash that stands there
POST /nodes/<node>/installed, /nodes/<node>/report     with the node's token
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import unquote

import msgspec

from bridgehead.drivers.netboot.folder import NetbootFolder
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.ports.machines import NodeReport
from bridgehead.recovery.netboot import LOCAL, TOKEN_HEADER, token_of

MAX_REPORT_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 1024 * 1024
Say = Callable[[str], None]


class NetbootServer:
    """Serves inside its ``with`` block.

    Args:
        folder: made by ``NetbootFolder.make``.
        images: where the files of images are.
        port: 0 takes a free one, see ``port``.
        say: told of each node that boots, is installed or reports, and of what is refused.

    Raises BAD_USAGE when the address cannot be used, BAD_INPUT when a file of an image is not there or has another hash.
    """

    def __init__(self, folder: NetbootFolder, images: Path, *, host: str, port: int, say: Say = lambda text: None) -> None:
        served = _checked(folder, images)
        try:
            self._server = ThreadingHTTPServer(
                (host, port), type("Handler", (_Handler,), {"folder": folder, "images": served, "say": staticmethod(say)})
            )
        except (OSError, OverflowError) as error:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="serve nodes",
                subject=f"{host}:{port}",
                happened=str(error),
                remedy="Choose another --listen (port 0 takes a free one).",
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="netboot", daemon=True, kwargs={"poll_interval": 0.1})

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> NetbootServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _checked(folder: NetbootFolder, images: Path) -> dict[str, Path]:
    """Path in the rebuild file to the file, each with the right hash. They are read once: what changes later is served as it is then."""
    found, faults = dict[str, Path](), list[str]()
    for image in folder.rebuild().images:
        for part in (image.kernel, image.initrd, image.root):
            if part is None or part.path in found:
                continue
            path = images / part.path
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                faults.append(f"{path}: {error.strerror}")
                continue
            if digest != part.sha256:
                faults.append(f"{path}: its hash is {digest}, not {part.sha256}")
            found[part.path] = path
    if faults:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="serve images",
            subject=str(images),
            happened="; ".join(faults),
            remedy="Put the right files there, or correct 'images' in the rebuild file and make the folder anew.",
        )
    return found


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    folder: NetbootFolder
    images: dict[str, Path]
    say: Say
    server_version, sys_version = "bridgehead", ""
    timeout = 60

    def do_GET(self) -> None:
        """Scripts, answers, images."""
        match [unquote(part) for part in self.path.partition("?")[0].strip("/").split("/")]:
            case ["boot", mac]:
                self._boot(mac)
            case ["nodes", node, name] if name and not name.startswith(".") and "/" not in name:
                self._file(self.folder.folder / "nodes" / node / name, known=lambda: self.folder.node(node))
            case ["images", *parts] if "/".join(parts) in self.images:
                self._file(self.images["/".join(parts)])
            case _:
                self._answer(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """What nodes say of themselves."""
        match [unquote(part) for part in self.path.strip("/").split("/")]:
            case ["nodes", node, ("installed" | "report") as what]:
                self._heard(node, what)
            case _:
                self._answer(HTTPStatus.NOT_FOUND)

    def _boot(self, mac: str) -> None:
        try:
            node = self.folder.by_mac(mac)
            install = self.folder.to_be_installed(node.id)
        except PortError:
            self.say(f"{mac}: no node of ours, starts from its disk")
            return self._answer(HTTPStatus.OK, LOCAL.encode())
        self.say(f"{node.id}: {'installs itself' if install else 'starts from its disk'}")
        if install:
            return self._file(self.folder.folder / "nodes" / node.id / "boot.ipxe")
        return self._answer(HTTPStatus.OK, LOCAL.encode())

    def _heard(self, name: str, what: str) -> None:
        try:
            node = self.folder.node(name)
            token = token_of(self.folder.secret(), node, self.folder.build(node))
        except PortError:
            return self._answer(HTTPStatus.NOT_FOUND)
        if not hmac.compare_digest(self.headers.get(TOKEN_HEADER, "").encode("latin-1", "replace"), token.encode()):
            self.say(f"{name}: somebody without its token was refused")
            return self._answer(HTTPStatus.FORBIDDEN)
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > MAX_REPORT_BYTES:
            return self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        body = self.rfile.read(int(length))
        try:
            if what == "installed":
                self.folder.note_installed(node.id)
                self.say(f"{name}: is installed")
            else:
                report = msgspec.json.decode(body, type=NodeReport)
                self.folder.note_report(node.id, report)
                self.say(f"{name}: is back with {report.gpus} GPUs")
        except msgspec.MsgspecError as error:
            return self._answer(HTTPStatus.BAD_REQUEST, f"{error}\n".encode())
        except OSError as error:
            self.say(f"{name}: what it said could not be written: {error}")
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
        return self._answer(HTTPStatus.NO_CONTENT)

    def _file(self, path: Path, *, known: Callable[[], object] = lambda: None) -> None:
        try:
            known()
            with path.open("rb") as file:
                size_bytes = file.seek(0, 2)
                file.seek(0)
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Length", str(size_bytes))
                self.end_headers()
                while self.command != "HEAD" and (piece := file.read(PIECE_BYTES)):
                    self.wfile.write(piece)
        except (PortError, FileNotFoundError, IsADirectoryError):
            self._answer(HTTPStatus.NOT_FOUND)
        except OSError as error:
            self.say(f"{path.name}: {error}")
            self.close_connection = True

    def _answer(self, status: HTTPStatus, body: bytes = b"") -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing but what ``say`` is told: lines of requests would hide it."""
