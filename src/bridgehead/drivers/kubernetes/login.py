"""How an API server is reached: a kubeconfig file, or the service account of the pod in which the controller runs.

Secrets stay in memory and in the files where they already are; no text of an error holds one.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import yaml

from bridgehead.host.web import secret
from bridgehead.kernel.errors import Permanent

_TRIED: Final = "log in to Kubernetes"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_REFUSED_USER: Final = {
    "exec": "a program would have to be run for a token; name a token file or a client certificate instead",
    "auth-provider": "such plug-ins were taken out of Kubernetes; name a token file or a client certificate instead",
    "username": "passwords were taken out of Kubernetes; name a token file or a client certificate instead",
    "as": "to act as somebody else is not supported; use that account's own login",
}
_REFUSED_CLUSTER: Final = {
    "insecure-skip-tls-verify": "a server whose certificate nobody checks may be anyone; name its certificate-authority",
    "proxy-url": "proxies are not supported; name an address that can be reached",
    "tls-server-name": "another name in the certificate is not supported; name an address that is in the certificate",
}


class KubeLogin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the API server is reached.

    Attributes:
        kubeconfig: the file; "" takes the service account of the pod in which the controller runs.
        context: of the kubeconfig; "" is its current one.
        service_account: the folder with ``token``, ``ca.crt`` and ``namespace``, when there is no kubeconfig.
        timeout_s: for connecting, and for each wait on the answer.
    """

    kubeconfig: str = ""
    context: str = ""
    service_account: str = SERVICE_ACCOUNT
    timeout_s: float = 10.0


class KubeAccess:
    """Where the server is, and with what to log in (``host.web.Access``).

    Attributes:
        server: ``https://host:port``.
        namespace: of the context or the service account; "" when neither says one.
    """

    def __init__(self, server: str, *, namespace: str, ca: bytes, certificate: bytes, token: str, token_file: str) -> None:
        self.server, self.namespace = server, namespace
        self._ca, self._certificate, self._token, self._token_file = ca, certificate, token, token_file

    def __repr__(self) -> str:
        return f"KubeAccess({self.server})"

    def trust(self) -> ssl.SSLContext:
        """The certificate is in memory, and stays there."""
        context = ssl.create_default_context(cadata=self._ca.decode("ascii", "replace") if self._ca else None)
        if self._certificate:
            handle = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
            try:
                os.write(handle, self._certificate)
                context.load_cert_chain(f"/proc/self/fd/{handle}")
            finally:
                os.close(handle)
        return context

    def login(self, tried: str) -> dict[str, str]:
        """A file of a token is read for each request: Kubernetes renews it there."""
        token = secret(self._token_file, tried=tried) if self._token_file else self._token
        if not token:
            return {}
        if not token.isascii() or not token.isprintable() or " " in token:
            raise Permanent("the token holds blanks or signs that no token has", tried=tried, subject=self._token_file or self.server)
        return {"Authorization": f"Bearer {token}"}


def access(options: KubeLogin) -> KubeAccess:
    """Read what the options name. Raises Permanent, naming the file and the key, when it cannot be used."""
    return _from_kubeconfig(options) if options.kubeconfig else _from_service_account(options)


def _from_service_account(options: KubeLogin) -> KubeAccess:
    folder = Path(options.service_account)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        remedy = "Name a kubeconfig in the estate file, or run the controller in a pod."
        raise _refused(str(folder), "no kubeconfig is named, and this is no pod (KUBERNETES_SERVICE_HOST is not set)", remedy)
    address = f"[{host}]" if ":" in host else host
    space = (folder / "namespace").read_text(encoding="utf-8").strip() if (folder / "namespace").exists() else ""
    ca = _file(folder / "ca.crt")
    return KubeAccess(f"https://{address}:{port}", namespace=space, ca=ca, certificate=b"", token="", token_file=str(folder / "token"))


def _from_kubeconfig(options: KubeLogin) -> KubeAccess:
    path = Path(options.kubeconfig)
    try:
        document = yaml.safe_load(_file(path))
    except yaml.YAMLError:
        # PyYAML's own words show the place with what stands there, which may be a token.
        raise _refused(str(path), "it is no YAML", "Check the file.") from None
    if not isinstance(document, dict):
        raise _refused(str(path), "it is no kubeconfig", "Check the file.")
    name = options.context or document.get("current-context") or ""
    context = _named(document, "contexts", "context", name, path)
    cluster = _named(document, "clusters", "cluster", context.get("cluster", ""), path)
    user = _named(document, "users", "user", context["user"], path) if context.get("user") else {}
    for given, refused in ((user, _REFUSED_USER), (cluster, _REFUSED_CLUSTER)):
        for word, why in refused.items():
            if given.get(word):
                raise _refused(str(path), f"context {name!r} uses {word}: {why}", "Change the kubeconfig, or name another context.")
    server = str(cluster.get("server", ""))
    if not server.startswith(("https://", "http://")):
        raise _refused(str(path), f"context {name!r} names no server", "Check the file.")
    token = str(user.get("token") or "")
    on_this_machine = urlsplit(server).hostname in ("127.0.0.1", "::1", "localhost")
    if server.startswith("http://") and (token or user.get("tokenFile")) and not on_this_machine:
        raise _refused(str(path), "a token would go over the network in the clear", "Name a server by https://.")
    certificate: bytes = _data(user, "client-certificate", path)
    key: bytes = _data(user, "client-key", path)
    if bool(certificate) != bool(key):
        raise _refused(str(path), "a client certificate needs its key, and a key its certificate", "Check the user's entry.")
    return KubeAccess(
        server,
        namespace=str(context.get("namespace") or ""),
        ca=_data(cluster, "certificate-authority", path),
        certificate=b"\n".join((key, certificate)) if key else b"",
        token=token,
        token_file=str(path.parent / user["tokenFile"]) if user.get("tokenFile") else "",
    )


def _named(document: dict[str, Any], group: str, kind: str, name: object, path: Path) -> dict[str, Any]:
    for entry in document.get(group) or []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    raise _refused(str(path), f"it has no {kind} {name!r}", "Check the context's name.")


def _data(entry: dict[str, Any], key: str, path: Path) -> bytes:
    """What stands in the file itself counts before a file that it names, as for kubectl."""
    if inline := entry.get(f"{key}-data"):
        try:
            return bytes(base64.b64decode(str(inline), validate=True))
        except binascii.Error as error:
            raise _refused(str(path), f"{key}-data is not base64", "Check the file.") from error
    return _file(path.parent / str(entry[key])) if entry.get(key) else b""


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(str(path), error.strerror or "it cannot be read", "Check the path and its rights.") from error


def _refused(subject: str, happened: str, remedy: str) -> Permanent:
    return Permanent(happened, tried=_TRIED, subject=subject, remedy=remedy)
