"""Requests to an API server, and what its answers mean in the words of the ports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from bridgehead.drivers.kubernetes.login import KubeAccess, KubeLogin, access
from bridgehead.host.web import WebAnswer, WebClient
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient, Unknown

Object = dict[str, Any]
T = TypeVar("T")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_PAGE: Final = 500
_MOST_WORDS: Final = 300
_MERGE: Final = "application/merge-patch+json"
_NOT_DONE: Final = frozenset({429, 503})
"""Refused before anything was done; any other 5xx may come after it."""


class Resource(NamedTuple):
    """A kind of objects."""

    group: str
    version: str
    plural: str
    namespaced: bool = True


JOBS: Final = Resource("batch", "v1", "jobs")
PODS: Final = Resource("", "v1", "pods")
NODES: Final = Resource("", "v1", "nodes", namespaced=False)
SECRETS: Final = Resource("", "v1", "secrets")
EVERYWHERE: Final = Resource("", "v1", "pods", namespaced=False)
"""Pods of all namespaces."""
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps")


def is_name(text: str) -> bool:
    """Whether an object can have this name."""
    return bool(_NAME.fullmatch(text))


class Stale(Conflict):
    """The object has changed since it was read: its resourceVersion, uid or name is taken. Nothing was done."""


class Forbidden(Permanent):
    """The login has no right to do this."""


class KubeApi:
    """One namespace of one API server.

    All methods raise NotFound (positive evidence), Stale, Permanent (Forbidden among them), Transient, and for changes Unknown. A body is
    never quoted in an error; what the server says of it is, except of secrets.
    """

    def __init__(self, options: KubeLogin, *, namespace: str) -> None:
        self._options, self._namespace = options, namespace
        self._cached: tuple[KubeAccess, WebClient] | None = None

    @property
    def namespace(self) -> str:
        """The one that was named, or that of the log-in. Raises Permanent when the log-in cannot be read."""
        return self._namespace or self._connection[0].namespace or "default"

    @property
    def server(self) -> str:
        """Its address. Raises Permanent when the log-in cannot be read."""
        return self._connection[0].server

    @property
    def _connection(self) -> tuple[KubeAccess, WebClient]:
        """Read at first use: what is wrong with it is an error of the calls to this cluster, not of everything else."""
        if self._cached is None:
            found = access(self._options)
            self._cached = (found, WebClient(found.server, access=found, timeout_s=self._options.timeout_s))
        return self._cached

    def get(self, resource: Resource, name: str, *, tried: str) -> Object:
        """One object."""
        return self._ask("GET", self._path(resource, name, tried), tried=tried)

    def find(self, resource: Resource, name: str, *, tried: str) -> Object | None:
        """One object; None on positive evidence that there is none."""
        try:
            return self.get(resource, name, tried=tried)
        except NotFound:
            return None

    def all(self, resource: Resource, *, labels: Mapping[str, str], tried: str) -> list[Object]:
        """Every object with these labels, from the quorum and not from a cache. A list that expired between two pages is read anew."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return self._whole(resource, {"labelSelector": selector} if selector else {}, tried)

    def on_node(self, node: str, *, tried: str) -> list[Object]:
        """Every pod of a node, of whichever namespace."""
        return self._whole(EVERYWHERE, {"fieldSelector": f"spec.nodeName={node}"}, tried)

    def evict(self, pod: Object, *, tried: str) -> None:
        """Ask for the end of exactly this pod, of whichever namespace. Raises Transient when a budget of disruption needs it for now."""
        meta = pod["metadata"]
        named = {"name": meta["name"], "namespace": meta["namespace"]}
        document = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": named,
            "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
        }
        path = f"/api/v1/namespaces/{quote(meta['namespace'], safe='')}/pods/{quote(meta['name'], safe='')}/eviction"
        try:
            self._ask("POST", path, tried=tried, document=document, changes=True)
        except (NotFound, Stale):
            return

    def _whole(self, resource: Resource, chosen: dict[str, str], tried: str) -> list[Object]:
        for _ in range(3):
            try:
                return self._pages(resource, chosen, tried)
            except _Expired:
                continue
        raise Transient("the list changes faster than it can be read", tried=tried, subject=self._where(resource, ""))

    def create(self, resource: Resource, document: Object, *, tried: str, rehearse: bool = False) -> Object:
        """A new object; with ``rehearse`` only what it would be, without the fields that this server drops. Raises Stale when the name is
        taken."""
        path = self._path(resource, "", tried) + ("?dryRun=All" if rehearse else "")
        return self._ask("POST", path, tried=tried, document=document, changes=not rehearse)

    def replace(self, resource: Resource, document: Object, *, tried: str) -> Object:
        """The whole object, if it is still the one whose resourceVersion ``document`` has."""
        path = self._path(resource, document["metadata"]["name"], tried)
        return self._ask("PUT", path, tried=tried, document=document, changes=True)

    def patch(self, resource: Resource, seen: Object, change: Object, *, tried: str) -> Object:
        """Merge ``change`` into the object, if it is still exactly the one that was ``seen``."""
        meta = seen["metadata"]
        change = {**change, "metadata": {**change.get("metadata", {}), "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        path = self._path(resource, meta["name"], tried)
        return self._ask("PATCH", path, tried=tried, document=change, changes=True, kind=_MERGE)

    def delete(self, resource: Resource, name: str, *, uid: str, grace_s: int | None = None, tried: str) -> None:
        """Ask for the end of exactly this object and what belongs to it. No effect when it is gone, or another one has its name."""
        document: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace_s is not None:
            document["gracePeriodSeconds"] = grace_s
        try:
            self._ask("DELETE", self._path(resource, name, tried), tried=tried, document=document, changes=True)
        except (NotFound, Stale):
            return

    def _pages(self, resource: Resource, chosen: dict[str, str], tried: str) -> list[Object]:
        found: list[Object] = []
        more = ""
        while True:
            query = {"limit": str(_PAGE)} | chosen | ({"continue": more} if more else {})
            page = self._ask("GET", f"{self._path(resource, '', tried)}?{urlencode(query)}", tried=tried)
            if not isinstance(page.get("items"), list):
                # An answer without a list is not an empty list.
                raise Transient("the answer holds no list", tried=tried, subject=self._where(resource, ""), remedy="Is it an API server?")
            found += page["items"]
            more = page.get("metadata", {}).get("continue") or ""
            if not more:
                return found

    def _path(self, resource: Resource, name: str, tried: str) -> str:
        if name and not is_name(name):
            happened = "no object can have this name"
            raise Permanent(happened, tried=tried, subject=f"{resource.plural} {name!r}", remedy="Use small letters, digits and dashes.")
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        space = f"/namespaces/{quote(self.namespace, safe='')}" if resource.namespaced else ""
        return f"{root}{space}/{resource.plural}" + (f"/{name}" if name else "")

    def _where(self, resource: Resource, name: str) -> str:
        return f"{resource.plural} {name} in {self.namespace} at {self.server}".replace("  ", " ")

    def _ask(
        self, method: str, path: str, *, tried: str, document: Object | None = None, changes: bool = False, kind: str = "application/json"
    ) -> Object:
        if document is not None and method != "DELETE":
            # A field that the server does not know would otherwise be dropped without a word.
            path += ("&" if "?" in path else "?") + "fieldValidation=Strict"
        headers = {"Accept": "application/json"} | ({"Content-Type": kind} if document is not None else {})
        body = msgspec.json.encode(document) if document is not None else b""
        answer = self._connection[1].request(method, path, tried=tried, body=body, headers=headers, changes=changes)
        subject = self.server + path.partition("?")[0]
        if answer.status == 401:
            self._cached = None  # the kubeconfig may have been renewed
        if answer.status >= 300:
            raise _refusal(answer, tried=tried, subject=subject, changes=changes, quotes="/secrets" not in path)
        try:
            found = msgspec.json.decode(answer.body)
        except msgspec.DecodeError as error:
            lost: type[PortError] = Unknown if changes else Transient
            raise lost("the answer is no document", tried=tried, subject=subject, remedy="Is it an API server?") from error
        if not isinstance(found, dict):
            raise Permanent("the answer is no object", tried=tried, subject=subject, remedy="Is it an API server?")
        return found


class _Details(msgspec.Struct, frozen=True):
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    kind: str = ""
    reason: str = ""
    message: str = ""
    details: _Details = _Details()


class _Expired(Transient):
    """410: what was asked to be continued is too old."""


def _refusal(answer: WebAnswer, *, tried: str, subject: str, changes: bool, quotes: bool) -> PortError:
    """What a status means. 409 is evidence, and 404 where the server names the object; 500 and 504 of a change are evidence of nothing."""
    try:
        told = msgspec.json.decode(answer.body, type=_Status)
    except msgspec.MsgspecError:
        told = _Status()
    words = [str(answer.status), told.reason] if told.reason else [str(answer.status)]
    said = f": {told.message[:_MOST_WORDS]}" if told.message and quotes else ""
    happened = f"the server answered {' '.join(words)}{said}"

    def error(kind: type[PortError], remedy: str) -> PortError:
        return kind(happened, tried=tried, subject=subject, remedy=remedy)

    match answer.status:
        case 404 if told.kind == "Status" and told.details.name:
            return error(NotFound, "Check the name and the namespace.")
        case 409:
            return error(Stale, "Look at it again, then decide.")
        case 410:
            return error(_Expired, "Read it again.")
        case 401 | 403:
            return error(Forbidden, "Check the login, and its role: docs/reference/kubernetes-driver.md lists what it needs.")
        case status if status in _NOT_DONE:
            after_s = _number(answer.headers.get("retry-after", ""), else_s=1.0)
            return Transient(happened, tried=tried, subject=subject, remedy="The server asks for time.", retry_after_s=after_s)
        case status if status >= 500:
            return error(Unknown if changes else Transient, "Look at the server's log; look whether it was done before trying again.")
        case _:
            return error(Permanent, "Correct what was asked for; check that the address is an API server's, with this kind of objects.")


def _number(text: str, *, else_s: float) -> float:
    return float(text) if text.isdigit() else else_s


def repeated(change: Callable[[], T], *, times: int = 5) -> T:
    """Read, decide and write anew when somebody else has changed the object in between. Raises Transient when that does not end."""
    for _ in range(times):
        try:
            return change()
        except Stale as error:
            last = error
    raise Transient(
        f"others keep changing it ({last.happened})", tried=last.tried, subject=last.subject, remedy="Look who else changes it."
    ) from last
