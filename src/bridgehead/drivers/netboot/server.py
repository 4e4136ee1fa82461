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
import os
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final
from urllib.parse import unquote

import msgspec

from bridgehead.drivers.netboot.folder import NetbootFolder
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, NotFound, PortError
from bridgehead.ports.machines import NodeReport
from bridgehead.recovery.netboot import LOCAL, TOKEN_HEADER

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
        shelf = ImageShelf(folder, images)
        try:
            self._server = ThreadingHTTPServer(
                (host, port), type("Handler", (_Handler,), {"folder": folder, "images": shelf, "say": staticmethod(say)})
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


class ImageShelf:
    """Files of images: each is given out only while it is, bit for bit, what the rebuild file says.

    Raises BAD_INPUT when one is not there or has another hash.
    """

    def __init__(self, folder: NetbootFolder, images: Path) -> None:
        self._seen: dict[Path, tuple[int, ...]] = {}
        self._files: dict[str, tuple[Path, str]] = {}
        faults = []
        for image in folder.rebuild().images:
            for part in (image.kernel, image.initrd, image.root):
                if part is not None and part.path not in self._files:
                    self._files[part.path] = (images / part.path, part.sha256)
                    try:
                        self.opened(part.path).close()
                    except (OSError, ValueError) as error:
                        faults.append(f"{images / part.path}: {getattr(error, 'strerror', None) or error}")
        if faults:
            raise BridgeheadError(
                ErrorCode.BAD_INPUT,
                tried="serve images",
                subject=str(images),
                happened="; ".join(faults),
                remedy="Put the right files there, or correct 'images' in the rebuild file and make the folder anew.",
            )

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def opened(self, path: str) -> BinaryIO:
        """The file, to be read. Raises OSError, ValueError for one that is another now; it is read anew when it seems to have changed."""
        place, sha256 = self._files[path]
        file = place.open("rb")
        try:
            status = os.fstat(file.fileno())
            now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if self._seen.get(place) != now:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                if digest != sha256:
                    raise ValueError(f"its hash is {digest}, not {sha256}")
                self._seen[place] = now
                file.seek(0)
        except BaseException:
            file.close()
            raise
        return file


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    folder: NetbootFolder
    images: ImageShelf
    say: Say
    server_version, sys_version = "bridgehead", ""
    timeout = 60

    def do_GET(self) -> None:
        """Scripts, answers, images."""
        match [unquote(part) for part in self.path.partition("?")[0].strip("/").split("/")]:
            case ["boot", mac]:
                self._boot(mac)
            case ["nodes", node, name]:
                self._answers(node, name)
            case ["images", *parts] if "/".join(parts) in self.images:
                self._image("/".join(parts))
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
            script = self.folder.served(node.id).get("boot.ipxe")
        except NotFound:
            self.say(f"{mac!r}: no node of ours, starts from its disk")
            return self._answer(HTTPStatus.OK, LOCAL.encode())
        except PortError as error:
            self.say(f"{mac!r}: {error.happened}")
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
        self.say(f"{node.id}: {'starts from its disk' if script is None else 'installs itself'}")
        return self._answer(HTTPStatus.OK, (LOCAL if script is None else script).encode())

    def _answers(self, node: str, name: str) -> None:
        try:
            text = self.folder.served(node).get(name)
        except PortError:
            text = None
        if text is None:
            return self._answer(HTTPStatus.NOT_FOUND)
        return self._answer(HTTPStatus.OK, text.encode())

    def _heard(self, name: str, what: str) -> None:
        try:
            node = self.folder.node(name)
            order = self.folder.order(node.id)
            token = None if order is None else self.folder.token(node, order)
        except PortError:
            return self._answer(HTTPStatus.NOT_FOUND)
        if token is None or not hmac.compare_digest(self.headers.get(TOKEN_HEADER, "").encode("latin-1", "replace"), token.encode()):
            self.say(f"{node.id}: somebody without the token of its order was refused")
            return self._answer(HTTPStatus.FORBIDDEN)
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_REPORT_BYTES:
            return self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        body = self.rfile.read(int(length))
        try:
            if what == "installed":
                self.folder.note_installed(node.id)
                self.say(f"{node.id}: is installed")
            elif self.folder.to_be_installed(node.id):
                return self._answer(HTTPStatus.CONFLICT, b"it is not installed yet\n")
            else:
                report = msgspec.json.decode(body, type=NodeReport)
                self.folder.note_report(node.id, report)
                self.say(f"{node.id}: is back with {report.gpus} GPUs")
        except msgspec.MsgspecError as error:
            return self._answer(HTTPStatus.BAD_REQUEST, f"{error}\n".encode())
        except OSError as error:
            self.say(f"{node.id}: what it said could not be written: {error}")
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
        return self._answer(HTTPStatus.NO_CONTENT)

    def _image(self, path: str) -> None:
        try:
            with self.images.opened(path) as file:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
                self.end_headers()
                while self.command != "HEAD" and (piece := file.read(PIECE_BYTES)):
                    self.wfile.write(piece)
        except ValueError as error:
            self.say(f"{path}: {error}; it is not served")
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
        except FileNotFoundError:
            self._answer(HTTPStatus.NOT_FOUND)
        except OSError as error:
            self.say(f"{path}: {error}")
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
