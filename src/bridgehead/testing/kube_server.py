"""A strict fake of a Kubernetes API server on loopback, with controllers and nodes in virtual time, and faults on order.

It is no real one: what it knows of Kubernetes is what its authors know. No watch, no admission, one user.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from bridgehead.testing.kube_controllers import GarbageCollector, JobController
from bridgehead.testing.kube_nodes import Nodes
from bridgehead.testing.kube_schema import Object
from bridgehead.testing.kube_services import DeploymentController, evict
from bridgehead.testing.kube_store import KINDS, KubeStore, Refused

TOKEN: Final = "token-of-a-test"
_STEP_S: Final = 0.05
_LOST: Final = 0
"""Status of a fault by which the connection is cut."""


class Strike(msgspec.Struct):
    """What goes wrong with requests.

    Attributes:
        method: of the requests; "" for any.
        part: of their path.
        status: the answer; 0 cuts the connection.
        times: how often, and after how many that go well (``spare``).
        done: what was asked is done all the same.
        hook: called before the request is handled, instead of an answer: somebody else acts in between.
    """

    method: str = ""
    part: str = ""
    status: int = _LOST
    times: int = 1
    spare: int = 0
    done: bool = False
    retry_after_s: int = 0
    hook: Callable[[], None] | None = None


class FakeCluster:
    """One cluster with its API server. Usable as a context manager.

    Attributes:
        now_s: the cluster's clock; it begins at the real time and goes on by ``advance``, or inside of ``living``.
        strikes: the faults to come, in order.
        requests: method, path and query of all requests.
        forbidden: plurals that the user may not read.
    """

    def __init__(self, *, certificates: tuple[Path, Path] | None = None) -> None:
        self.now_s = time.time()
        self.store = KubeStore(lambda: self.now_s)
        self.nodes = Nodes(self.store)
        self.jobs = JobController(self.store)
        self.deployments = DeploymentController(self.store)
        self.collector = GarbageCollector(self.store)
        self.strikes: list[Strike] = []
        self.requests: list[str] = []
        self.forbidden: set[str] = set()
        self.page = 500
        self.extra: list[Callable[[float], None]] = []
        self.lock = threading.RLock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if certificates is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates[0]))
            context.load_cert_chain(str(certificates[1]))
            context.verify_mode = ssl.CERT_OPTIONAL
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._scheme = "http" if certificates is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        """``http://host:port``."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def advance(self, seconds_s: float) -> None:
        """Let virtual time pass; controllers and nodes do what is due."""
        with self.lock:
            end_s = self.now_s + seconds_s
            step_s = max(_STEP_S, seconds_s / 200)
            while self.now_s < end_s:
                self.now_s = min(end_s, self.now_s + step_s)
                self.jobs.step(self.now_s)
                self.deployments.step(self.now_s)
                self.nodes.step(self.now_s)
                for step in self.extra:
                    step(self.now_s)
                self.collector.step()

    @contextlib.contextmanager
    def living(self) -> Iterator[None]:
        """Inside of it time passes as outside; for programs that have only the real clock."""
        over = threading.Event()

        def live() -> None:
            while not over.wait(0.05):
                self.advance(max(0.0, time.time() - self.now_s))

        thread = threading.Thread(target=live)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def kubeconfig(self, path: Path, **user: Any) -> str:
        """Write one that leads here; the path."""
        document = {
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "tester", "namespace": "train"}}],
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "tester", "user": user}],
        }
        path.write_text(json.dumps(document))
        return str(path)

    def close(self) -> None:
        """End it; no effect when done already."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, method: str, target: str, body: bytes, kind: str) -> Object:
        """The object that a request gives. Raises Refused."""
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        place = _place(parts.path)
        if place is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        name, space, item, part = place
        if KINDS[name].plural in self.forbidden:
            raise Refused(403, "Forbidden", f'{KINDS[name].plural} is forbidden: User "tester" cannot use it', kind=KINDS[name].plural)
        document = _decoded(body) if body else {}
        if method in ("POST", "PUT", "PATCH") and query.get("fieldValidation") != "Strict":
            raise Refused(400, "BadRequest", "this server is strict: ask for fieldValidation=Strict")
        if "dryRun" in query and (method, query["dryRun"]) != ("POST", "All"):
            raise Refused(422, "Invalid", f"dryRun: Unsupported value {query['dryRun']!r} of {method}")
        match method:
            case "GET" if item and not part:
                return self.store.get(name, space, item)
            case "GET" if not item:
                return self._list(name, space, query)
            case "POST" if not item:
                return self.store.create(name, space, document, dry_run=query.get("dryRun") == "All")
            case "PUT" if item and not part:
                return self.store.replace(name, space, item, document)
            case "PATCH" if item and not part and kind == "application/merge-patch+json":
                return self.store.patch(name, space, item, document)
            case "DELETE" if item and not part:
                return self.store.delete(name, space, item, document)
            case _ if item and part:
                return self.part(method, name, space, item, part, document)
        raise Refused(405, "MethodNotAllowed", f"{method} is not supported here")

    def part(self, method: str, kind: str, space: str, name: str, part: str, document: Object) -> Object:
        """A request to a part of an object."""
        if (method, kind, part) == ("POST", "Pod", "eviction"):
            return evict(self.store, space, name, document)
        raise Refused(404, "NotFound", "the server could not find the requested resource")

    def _list(self, kind: str, space: str, query: dict[str, str]) -> Object:
        labels = dict(one.split("=", 1) for one in query.get("labelSelector", "").split(",") if one)
        found = self.store.all(kind, space or None, labels)
        if "fieldSelector" in query:
            field, _, value = query["fieldSelector"].partition("=")
            if (kind, field) != ("Pod", "spec.nodeName"):
                raise Refused(400, "BadRequest", f"field label not supported: {field}")
            found = [one for one in found if one["spec"].get("nodeName") == value]
        begin = 0
        if "continue" in query:
            version, _, place = query["continue"].partition(":")
            if version != str(self.store.version):
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            begin = int(place)
        size = min(int(query.get("limit", self.page)), self.page)
        meta = {"resourceVersion": str(self.store.version)}
        if begin + size < len(found):
            meta["continue"] = f"{self.store.version}:{begin + size}"
        # What is in a list does not say what it is.
        items = [{key: one[key] for key in one if key not in ("kind", "apiVersion")} for one in found[begin : begin + size]]
        return {"kind": f"{kind}List", "apiVersion": KINDS[kind].version, "metadata": meta, "items": items}

    def strike(self, method: str, target: str) -> Strike | None:
        """The fault that hits this request."""
        for one in self.strikes:
            if one.method in ("", method) and one.part in target:
                if one.spare > 0:
                    one.spare -= 1
                    return None
                one.times -= 1
                if one.times <= 0:
                    self.strikes.remove(one)
                return one
        return None


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away, or does not trust us, is no news."""


def _place(path: str) -> tuple[str, str, str, str] | None:
    """Kind, namespace, name and part of a path."""
    for kind in KINDS.values():
        if not path.startswith(f"{kind.root}/"):
            continue
        rest = path.removeprefix(f"{kind.root}/").split("/")
        space = ""
        if kind.namespaced and rest != [kind.plural]:
            if len(rest) < 3 or rest[0] != "namespaces":
                continue
            space, rest = rest[1], rest[2:]
        if rest[0] == kind.plural and len(rest) <= 3:
            return kind.name, space, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""
    return None


def _decoded(body: bytes) -> Object:
    try:
        found: Object = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Refused(400, "BadRequest", f"the body cannot be read: {error}") from error
    return found


def _handler(cluster: FakeCluster) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            with cluster.lock:
                cluster.requests.append(f"{self.command} {self.path}")
                strike = cluster.strike(self.command, self.path)
            if strike is not None and strike.hook is not None:
                strike.hook()  # which may itself speak to the server
                strike = None
            with cluster.lock:
                if strike is not None and not strike.done:
                    self._struck(strike)
                    return
                status, document = self._answer(body)
            if strike is not None:
                self._struck(strike)
            else:
                self._send(status, document)

        def _answer(self, body: bytes) -> tuple[int, Object]:
            try:
                if not self._known():
                    raise Refused(401, "Unauthorized", "Unauthorized")
                document = cluster.answer(self.command, self.path, body, self.headers.get("Content-Type", ""))
            except Refused as refused:
                return refused.status, _status(refused)
            return 201 if self.command == "POST" else 200, document

        def _known(self) -> bool:
            peer = getattr(self.connection, "getpeercert", lambda: None)()
            return bool(peer) or self.headers.get("Authorization") == f"Bearer {TOKEN}"

        def _struck(self, strike: Strike) -> None:
            if strike.status == _LOST:
                self.close_connection = True
                self.connection.close()
                return
            reason = {429: "TooManyRequests", 410: "Expired", 409: "Conflict"}.get(strike.status, "InternalError")
            self._send(strike.status, _status(Refused(strike.status, reason, "struck by a test")), retry_after_s=strike.retry_after_s)

        def _send(self, status: int, document: Object, *, retry_after_s: int = 0) -> None:
            content = msgspec.json.encode(document)
            self.send_response_only(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if retry_after_s:
                self.send_header("Retry-After", str(retry_after_s))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    return Handler


def _status(refused: Refused) -> Object:
    details = {"name": refused.name, "kind": refused.kind} if refused.name else {}
    told = {"message": refused.message, "reason": refused.reason, "code": refused.status, "details": details}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **told}
