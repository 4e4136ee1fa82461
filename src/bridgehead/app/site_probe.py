"""What runs at a site to look at it: the source of this module is handed to the site's own Python, which needs nothing installed.

A request is one JSON document on standard input, the answer one on standard output. Reads only; what is costly to
import is imported where it is used. Every look is by itself: one that fails
says so in its own answer. Manifests with BLAKE3 need the ``blake3`` package there. Python 3.8 or later.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import socket
import sys
from typing import Any

CONNECT_S = 5.0
FEW = 10
CHUNK = 1 << 22
THREADS = 8
MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in ("oci.image.manifest.v1", "oci.image.index.v1", "docker.distribution.manifest.v2", "docker.distribution.manifest.list.v2")
)


def path(asked: dict[str, Any]) -> dict[str, Any]:
    """Whether a path is there and may be read; of one that is written or made, whether the folder around it is and may be written to."""
    text = os.path.expandvars(os.path.expanduser(asked["path"]))
    if asked["use"] == "read":
        there = [one for one in (glob.glob(text) if any(char in text for char in "*?[") else [text]) if os.path.exists(one)]
        return {"is": bool(there), "readable": any(os.access(one, os.R_OK) for one in there), "looked": text}
    folder = os.path.dirname(text)
    while asked["use"] == "made" and folder not in ("", "/") and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    known = os.path.isdir(folder) and folder not in ("", "/")
    return {"is": known, "writable": known and os.access(folder, os.W_OK | os.X_OK), "looked": folder}


def endpoint(asked: dict[str, Any]) -> dict[str, Any]:
    """Whether something listens."""
    try:
        with socket.create_connection((asked["host"], asked["port"]), timeout=CONNECT_S):
            return {"is": True}
    except ConnectionRefusedError:
        return {"is": False, "why": "nothing listens there"}
    except socket.gaierror as error:
        return {"is": False, "why": f"its name is not known there ({error.strerror or error})"}
    except OSError as error:
        return {"error": f"it cannot be reached ({error})"}


def data(asked: dict[str, Any]) -> dict[str, Any]:
    """Hash every file of a manifest, and name what is missing, different, or there beside it."""
    from concurrent.futures import ThreadPoolExecutor

    root = asked["root"]
    if not os.path.isdir(root):
        return {"is": False, "why": "it is no folder"}
    names = sorted(asked["files"])
    with ThreadPoolExecutor(THREADS) as threads:  # hashes and reads let go of the interpreter
        hashes = list(threads.map(lambda name: _hash(os.path.join(root, name), asked["hash"]), names))
    missing = [name for name, found in zip(names, hashes) if found is None]  # noqa: B905  # Python 3.8 does not know strict
    wrong = [name for name, found in zip(names, hashes) if found is not None and found[0] != asked["files"][name]]  # noqa: B905  # as above
    size = sum(found[1] for found in hashes if found is not None)
    found = {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}
    extra = sorted(found - set(asked["files"]))
    lists = {"missing": missing, "wrong": wrong, "extra": extra}
    short: dict[str, Any] = {key: names[:FEW] for key, names in lists.items()}
    return {"is": not missing and not wrong, "bytes": size, "counts": {key: len(names) for key, names in lists.items()}, **short}


def _hash(place: str, algorithm: str) -> tuple[str, int] | None:
    """(hash, size) of a file; None when there is none."""
    if not os.path.isfile(place):
        return None
    hasher, size = _hasher(algorithm), 0
    with open(place, "rb") as stream:
        while block := stream.read(CHUNK):
            hasher.update(block)
            size += len(block)
    return hasher.hexdigest(), size


def _hasher(name: str) -> Any:
    if name == "blake3":
        from blake3 import blake3

        return blake3()
    return hashlib.new(name)


def file_image(asked: dict[str, Any]) -> dict[str, Any]:
    """An image that is one file."""
    if not os.path.isfile(asked["path"]):
        return {"is": False, "why": "there is no such file"}
    hasher = hashlib.sha256()
    with open(asked["path"], "rb") as stream:
        while block := stream.read(CHUNK):
            hasher.update(block)
    return {"is": "sha256:" + hasher.hexdigest() == asked["digest"], "why": f"its content is sha256:{hasher.hexdigest()}"}


def layout_image(asked: dict[str, Any]) -> dict[str, Any]:
    """An image in a folder of the OCI image layout: the digest is in its index, manifests have their hash, every blob its size."""
    root = asked["path"]
    if not os.path.isfile(os.path.join(root, "index.json")):
        return {"is": False, "why": "there is no OCI image layout"}

    def blob(digest: str) -> bytes | None:
        place = os.path.join(root, "blobs", *digest.split(":", 1))
        if not os.path.isfile(place):
            return None
        with open(place, "rb") as stream:
            return stream.read()

    with open(os.path.join(root, "index.json"), "rb") as stream:
        waiting = json.load(stream).get("manifests", [])
    listed: set[str] = set()
    while waiting:
        one = waiting.pop()
        listed.add(one["digest"])
        if "index" in one.get("mediaType", "") or "manifest.list" in one.get("mediaType", ""):
            waiting += json.loads(blob(one["digest"]) or b"{}").get("manifests", [])
    if asked["digest"] not in listed:
        return {"is": False, "why": "its index has " + (", ".join(sorted(listed)[:3]) or "nothing")}
    return _image(asked["digest"], blob, blob, lambda digest, size: _sized(os.path.join(root, "blobs", *digest.split(":", 1)), size))


def _sized(place: str, size: int) -> bool:
    return os.path.isfile(place) and os.path.getsize(place) == size


def _image(digest: str, manifest_of: Any, blob: Any, has: Any) -> dict[str, Any]:
    """Follow a manifest to its configuration; what the image says of CUDA and NCCL stands in the environment that it sets."""
    content = manifest_of(digest)
    if content is None:
        return {"is": False, "why": "the manifest is missing"}
    if "sha256:" + hashlib.sha256(content).hexdigest() != digest:
        return {"is": False, "why": "the manifest has another hash than its name"}
    manifest = json.loads(content)
    if "manifests" in manifest:
        inner = [one for one in manifest["manifests"] if one.get("platform", {}).get("os") != "unknown"]
        answers = [_image(one["digest"], manifest_of, blob, has) for one in inner]
        bad = [one for one in answers if not one["is"]]
        return bad[0] if bad or not answers else answers[0]
    lacking = [one["digest"] for one in [manifest["config"], *manifest["layers"]] if not has(one["digest"], one["size"])]
    if lacking:
        return {"is": False, "why": f"{len(lacking)} of its blobs are missing or cut short, such as {lacking[0]}"}
    config = json.loads(blob(manifest["config"]["digest"]) or b"{}")
    env = dict(line.split("=", 1) for line in config.get("config", {}).get("Env") or [] if "=" in line)
    return {"is": True, "cuda": env.get("CUDA_VERSION", ""), "nccl": (env.get("NCCL_VERSION") or env.get("NV_LIBNCCL_PACKAGE_VERSION", ""))}


class Registry:
    """One repository of a registry; a token is asked for without a login, as for public images."""

    def __init__(self, host: str, repository: str, plain: bool) -> None:
        host = "registry-1.docker.io" if host == "docker.io" else host
        self.base = f"{'http' if plain else 'https'}://{host}/v2/{repository}"
        self.token = ""
        self.opener = _opener()

    def ask(self, place: str, method: str = "GET", again: bool = True) -> Any:
        """An open answer. Raises HTTPError, PermissionError for want of a token, and OSError."""
        import urllib.error
        import urllib.request

        headers = {"Accept": MANIFESTS, **({"Authorization": "Bearer " + self.token} if self.token else {})}
        request = urllib.request.Request(f"{self.base}/{place}", method=method, headers=headers)
        try:
            return self.opener.open(request, timeout=CONNECT_S * 4)
        except urllib.error.HTTPError as error:
            asks = error.headers.get("WWW-Authenticate", "")
            if error.code != 401 or not again or not asks.lower().startswith("bearer "):
                raise
            self.token = self._token(asks[7:])
            return self.ask(place, method, again=False)

    def manifest(self, digest: str) -> bytes | None:
        """A manifest; None when the registry says that it has none."""
        return self._content(f"manifests/{digest}")

    def blob(self, digest: str) -> bytes | None:
        """A configuration; None when the registry says that it has none."""
        # Never asked for as a manifest: distribution answers 500 to that.
        return self._content(f"blobs/{digest}")

    def _content(self, place: str) -> bytes | None:
        import urllib.error

        try:
            with self.ask(place) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
        return None

    def has(self, digest: str, size: int) -> bool:
        """Whether the registry holds a blob."""
        import urllib.error

        try:
            with self.ask(f"blobs/{digest}", "HEAD") as answer:
                return answer.headers.get("Content-Length") in (None, str(size))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise

    def _token(self, words: str) -> str:
        import urllib.error
        import urllib.parse
        import urllib.request

        parts = dict(part.strip().split("=", 1) for part in words.split(",") if "=" in part)
        given = {key: value.strip('"') for key, value in parts.items()}
        query = urllib.parse.urlencode([(key, given[key]) for key in ("service", "scope") if key in given])
        try:
            with urllib.request.urlopen(f"{given['realm']}?{query}", timeout=CONNECT_S * 4) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            # Not as it came: a 404 of the token server would read as one of the registry, "absent".
            raise PermissionError(_refusal("the registry's token server", error.code)) from error
        return str(found.get("token") or found.get("access_token"))


def _opener() -> Any:
    """Opens addresses, also where a registry sends on to its storage."""
    import ssl
    import urllib.parse
    import urllib.request

    class Onward(urllib.request.HTTPRedirectHandler):
        """Signed addresses of a storage hold for one method, and not with a token beside it, which is none of its business anyway."""

        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
            kept = req.headers if (old.scheme, old.netloc) == (new.scheme, new.netloc) else {"Accept": MANIFESTS}
            return urllib.request.Request(newurl, method=req.get_method(), headers=kept)

        http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302  # before Python 3.11 it knows no 308

    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=ssl.create_default_context()), Onward)


def registry_image(asked: dict[str, Any]) -> dict[str, Any]:
    """An image in a registry, by its digest."""
    import urllib.error

    registry = Registry(asked["host"], asked["repository"], asked["plain"])
    try:
        with registry.ask(f"manifests/{asked['digest']}", "HEAD") as answer:
            said = answer.headers.get("Docker-Content-Digest", asked["digest"])
        if said != asked["digest"]:
            return {"is": False, "why": f"the registry answers with {said}"}
        return _image(asked["digest"], registry.manifest, registry.blob, registry.has)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return {"is": False, "why": "the registry does not have this digest"}
        return {"error": _refusal("the registry", error.code)}
    except PermissionError as error:
        return {"error": str(error)}
    except urllib.error.URLError as error:
        return {"error": f"the registry cannot be reached ({error.reason})"}


def _refusal(who: str, code: int) -> str:
    return f"{who} answers {code}" + (", it asks for a login" if code in (401, 403) else "")


def variable(asked: dict[str, Any]) -> dict[str, Any]:
    """What a variable has in this environment."""
    return {"is": asked["name"] in os.environ, "value": os.environ.get(asked["name"], "")}


LOOKS = {
    "path": path,
    "endpoint": endpoint,
    "data": data,
    "file": file_image,
    "layout": layout_image,
    "registry": registry_image,
    "variable": variable,
}


def look(request: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One answer for each look."""
    answers: list[dict[str, Any]] = []
    for asked in request:
        try:
            answers.append(LOOKS[asked["look"]](asked))
        except Exception as error:  # whatever it is: it belongs into the answer, and the other looks go on
            answers.append({"error": f"{type(error).__name__}: {error}"})
    return answers


if __name__ == "__main__":
    json.dump(look(json.load(sys.stdin)), sys.stdout)
