"""The probe looks at paths, data, images and endpoints, and says what is wrong with each (issue 6; M9.1, P13, J14)."""

from __future__ import annotations

import hashlib
import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from bridgehead.app import site_probe
from bridgehead.app.site_probe import look


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def image() -> tuple[str, dict[str, bytes]]:
    """(digest of the manifest, all blobs by digest) of a small image that says what it has of CUDA and NCCL."""
    config = json.dumps({"config": {"Env": ["PATH=/bin", "CUDA_VERSION=12.4.1", "NCCL_VERSION=2.21.5-1"]}}).encode()
    layer = b"layer" * 100
    described = [{"digest": digest_of(one), "size": len(one)} for one in (config, layer)]
    manifest = json.dumps({"schemaVersion": 2, "config": described[0], "layers": described[1:]}).encode()
    return digest_of(manifest), {digest_of(one): one for one in (config, layer, manifest)}


@pytest.fixture
def layout(tmp_path: Path) -> tuple[Path, str]:
    """An OCI image layout whose index leads to the manifest by way of another index."""
    digest, blobs = image()
    inner = json.dumps({"manifests": [{"digest": digest, "platform": {"os": "linux"}}]}).encode()
    blobs[digest_of(inner)] = inner
    for name, content in blobs.items():
        place = tmp_path / "oci" / "blobs" / name.replace(":", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    entry = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest_of(inner), "size": len(inner)}
    (tmp_path / "oci" / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return tmp_path / "oci", digest


def ask(**asked: object) -> dict[str, object]:
    (answer,) = look([asked])
    return answer


def test_an_image_in_a_layout_is_found_by_digest_and_says_its_cuda(layout: tuple[Path, str]) -> None:
    folder, digest = layout
    answer = ask(look="layout", path=str(folder), digest=digest)
    assert answer == {"is": True, "cuda": "12.4.1", "nccl": "2.21.5-1"}
    other = ask(look="layout", path=str(folder), digest="sha256:" + "0" * 64)
    assert other["is"] is False
    assert ask(look="layout", path=str(folder.parent), digest=digest)["is"] is False


@pytest.mark.parametrize("damage", ["manifest changed", "layer cut", "layer gone"])
def test_a_damaged_layout_is_not_there(layout: tuple[Path, str], damage: str) -> None:
    folder, digest = layout
    manifest = folder / "blobs" / digest.replace(":", "/")
    layer = folder / "blobs" / json.loads(manifest.read_bytes())["layers"][0]["digest"].replace(":", "/")
    match damage:
        case "manifest changed":
            manifest.write_bytes(manifest.read_bytes() + b" ")
        case "layer cut":
            layer.write_bytes(b"la")
        case _:
            layer.unlink()
    assert ask(look="layout", path=str(folder), digest=digest)["is"] is False


class _Registry(http.server.BaseHTTPRequestHandler):
    """The part of the distribution protocol that a look needs, behind a token that anybody gets."""

    digest, blobs = image()
    asks_login = False

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        if self.path.startswith("/token?"):
            return self._send(200, json.dumps({"token": "t0"}).encode(), body=True)
        if self.headers.get("Authorization") != "Bearer t0" or self.asks_login:
            return self._send(401, b"", body=body)
        kind, name = self.path.removeprefix("/v2/ml/train/").split("/")
        if kind == "manifests" and name in self.blobs and name != self.digest:
            return self._send(500, b"", body=body)  # what distribution answers when a blob is asked for as a manifest
        content = self.blobs.get(name) if (kind == "manifests") == (name == self.digest) else None
        return self._send(404 if content is None else 200, content or b"", body=body)

    def _send(self, code: int, content: bytes, *, body: bool) -> None:
        self.send_response(code)
        if code == 401:
            realm = f"http://{self.headers['Host']}/token"
            self.send_header("WWW-Authenticate", f'Bearer realm="{realm}",service="registry",scope="repository:ml/train:pull"')
        if self.path.endswith(self.digest):
            self.send_header("Docker-Content-Digest", self.digest)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def registry() -> Iterator[type[_Registry]]:
    handler = type("Handler", (_Registry,), {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    handler.host = f"127.0.0.1:{server.server_address[1]}"
    yield handler
    server.shutdown()
    server.server_close()


def pull(handler: type[_Registry], digest: str) -> dict[str, object]:
    return ask(look="registry", host=handler.host, repository="ml/train", digest=digest, plain=True)


def test_an_image_in_a_registry_is_found_by_digest(registry: type[_Registry]) -> None:
    assert pull(registry, registry.digest) == {"is": True, "cuda": "12.4.1", "nccl": "2.21.5-1"}
    assert pull(registry, "sha256:" + "0" * 64) == {"is": False, "why": "the registry does not have this digest"}


def test_a_registry_that_wants_a_login_or_does_not_answer_is_not_known(registry: type[_Registry]) -> None:
    registry.asks_login = True
    assert "login" in str(pull(registry, registry.digest)["error"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = type("Gone", (), {"host": f"127.0.0.1:{free.getsockname()[1]}"})
    assert "error" in pull(gone, registry.digest)


def test_a_registry_that_lost_a_layer_does_not_have_the_image(registry: type[_Registry]) -> None:
    layer = json.loads(registry.blobs[registry.digest])["layers"][0]["digest"]
    registry.blobs = {name: content for name, content in registry.blobs.items() if name != layer}
    assert pull(registry, registry.digest)["is"] is False


@pytest.mark.parametrize(("algorithm", "hasher"), [("sha256", hashlib.sha256), ("blake3", blake3)])
def test_every_file_of_a_data_set_is_hashed(tmp_path: Path, algorithm: str, hasher: object) -> None:
    (tmp_path / "sub").mkdir()
    contents = {"a": b"1" * 9_000_000, "sub/b": b"2", "sub/c": b""}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = {name: hasher(content).hexdigest() for name, content in contents.items()}
    asked = {"look": "data", "root": str(tmp_path), "files": files, "hash": algorithm}
    assert ask(**asked)["is"] is True
    (tmp_path / "a").write_bytes(b"1" * 8_999_999 + b"0")
    (tmp_path / "sub" / "c").unlink()
    (tmp_path / "sub" / "d").write_bytes(b"")
    answer = ask(**asked)
    assert (answer["is"], answer["missing"], answer["wrong"], answer["extra"]) == (False, ["sub/c"], ["a"], ["sub/d"])


def test_paths_as_they_are_used(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"")

    def there(path: str, use: str) -> object:
        return ask(look="path", path=f"{tmp_path}/{path}", use=use)["is"]

    assert [there("x.bin", "read"), there("*.bin", "read"), there("*.pt", "read"), there("y", "read")] == [True, True, False, False]
    assert [there("new", "written"), there("a/new", "written"), there("a/b/new", "made")] == [True, False, True]
    assert ask(look="path", path="/bridgehead-no-such-folder/x", use="made")["is"] is False


def test_an_endpoint_answers_or_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ask(look="endpoint", host="127.0.0.1", port=port) == {"is": True}
    assert ask(look="endpoint", host="127.0.0.1", port=port) == {"is": False, "why": "nothing listens there"}


def test_the_source_runs_by_itself_in_another_python(tmp_path: Path) -> None:
    request = [{"look": "path", "path": str(tmp_path), "use": "read"}, {"look": "nothing"}, {"look": "variable", "name": "PROBED"}]
    source = Path(site_probe.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-c", source], input=json.dumps(request), capture_output=True, text=True, check=True, env={"PROBED": "7"}
    )
    answers = json.loads(done.stdout)
    assert answers[0]["is"] is True
    assert "KeyError" in answers[1]["error"]
    assert answers[2] == {"is": True, "value": "7"}
