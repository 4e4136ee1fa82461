"""PageServer: an HTTP server in this process whose pages a test sets, and that can be unplugged."""

from __future__ import annotations

import http.server
import threading


class PageServer:
    """Answers ``GET`` and ``POST`` with what ``pages`` holds for the path: status and body; 404 for others. Usable as a context manager."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes]] = {}
        pages = self.pages

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self.do_GET()

            def do_GET(self) -> None:
                status, body = pages.get(self.path, (404, b""))
                self.send_response_only(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        """``http://host:port``."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def unplug(self) -> None:
        """Refuse connections from now on; no effect when done already."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.unplug()
