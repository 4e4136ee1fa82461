"""The probe's look at images meets a real registry, Debian's build of distribution: what is there, what is gone, what nobody may see."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from bridgehead.app.site_preflight.judge_contents import judge_images
from bridgehead.app.site_preflight.place import Place
from bridgehead.app.site_probe import look
from bridgehead.drivers.shell import LocalShell
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.finding import FindingStatus
from bridgehead.model.site_map import SiteLook
from bridgehead.model.site_needs import ImageNeed, SiteNeeds
from bridgehead.testing.certificates import Certificates, make_certificates
from bridgehead.testing.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed
from bridgehead.testing.servers import Server, free_port, running

pytestmark = pytest.mark.server("docker-registry")

MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
CONFIG, LAYER = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar"
WORKS = {"is": True, "cuda": "12.4.1", "nccl": "2.21.5-1"}
NOWHERE = "sha256:" + "0" * 64
HTPASSWD = "somebody:$2b$04$nCAR6fA2RspbY/5MTtpAeevD.8Quk0YPlV.YNbKVRsjTt99PL9.gm\n"


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Distribution:
    """A running registry, spoken to by plain HTTP where images are pushed."""

    def __init__(self, server: Server, port: int, folder: Path) -> None:
        self.server, self.host, self.folder = server, f"127.0.0.1:{port}", folder
        self.repository = "ml/train"

    def send(self, method: str, place: str, body: bytes = b"", kind: str = "application/octet-stream") -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, timeout=10.0)
        with contextlib.closing(connection):
            connection.request(method, place, body, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
        assert answer.status in (200, 201, 202), f"{method} {place}: {answer.status} {text.decode()}"
        return answer

    def push_blob(self, content: bytes) -> str:
        begun = urlsplit(self.send("POST", f"/v2/{self.repository}/blobs/uploads/").headers["Location"])
        self.send("PUT", f"{begun.path}?{begun.query}&digest={digest_of(content)}", content)
        return digest_of(content)

    def push_manifest(self, document: dict) -> str:
        content = json.dumps(document).encode()
        self.send("PUT", f"/v2/{self.repository}/manifests/{digest_of(content)}", content, document["mediaType"])
        return digest_of(content)

    def delete(self, place: str) -> None:
        self.send("DELETE", f"/v2/{self.repository}/{place}")

    def file_of(self, digest: str) -> Path:
        """Where distribution keeps a blob, of whatever repository."""
        name = digest.removeprefix("sha256:")
        return self.folder / f"docker/registry/v2/blobs/sha256/{name[:2]}/{name}/data"

    def pull(self, digest: str, repository: str = "") -> dict[str, object]:
        """What the probe says."""
        (answer,) = look([self.asked(digest, repository)])
        return answer

    def asked(self, digest: str, repository: str = "") -> dict[str, object]:
        return {"look": "registry", "host": self.host, "repository": repository or self.repository, "digest": digest, "plain": True}


class Image:
    """A small image in a registry; those of different architectures share nothing."""

    def __init__(self, registry: Distribution, architecture: str = "amd64") -> None:
        env = ["PATH=/bin", "CUDA_VERSION=12.4.1", "NCCL_VERSION=2.21.5-1"]
        config = {"architecture": architecture, "os": "linux", "config": {"Env": env}, "rootfs": {"type": "layers", "diff_ids": []}}
        contents = [(CONFIG, json.dumps(config).encode())]
        contents += [(LAYER, f"layer {number} for {architecture} ".encode() * 1000) for number in range(2)]
        described = [{"mediaType": kind, "digest": registry.push_blob(one), "size": len(one)} for kind, one in contents]
        self.config, self.layers = described[0]["digest"], [one["digest"] for one in described[1:]]
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
        self.platform = {"os": "linux", "architecture": architecture}
        self.digest, self.size = registry.push_manifest(document), len(json.dumps(document))


def push_index(registry: Distribution, *images: Image) -> str:
    listed = [{"mediaType": MANIFEST, "digest": one.digest, "size": one.size, "platform": one.platform} for one in images]
    return registry.push_manifest({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed})


def files(folder: Path) -> dict:
    """Storage of images in a folder."""
    return {"filesystem": {"rootdirectory": str(folder)}}


def password(folder: Path) -> dict:
    """Only somebody with a password is let in."""
    (folder / "htpasswd").write_text(HTPASSWD)
    return {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}


@contextlib.contextmanager
def served(handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port of a small server of the test's own."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def distribution(folder: Path, *, storage: dict | None = None, **config: object) -> Iterator[Distribution]:
    """A registry with its files, and unless ``storage`` says another place its images, in ``folder``; several may serve the same ones."""
    port = free_port()
    config |= {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {**(storage or files(folder)), "delete": {"enabled": True}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "of-a-test"},
    }
    file = folder / f"registry-{port}.yml"
    file.write_text(json.dumps(config))  # JSON is YAML
    # Its S3 driver does not start with certificates that the environment names for other programs.
    command = ["env", "-u", "AWS_CA_BUNDLE", shutil.which("docker-registry") or "docker-registry", "serve", str(file)]

    def ready() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/v2/")
                return connection.getresponse().status in (200, 401)
            except OSError:
                return False

    with running(command, log=folder / f"registry-{port}.log", ready=ready) as server:
        yield Distribution(server, port, folder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distribution]:
    with distribution(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture
def registry(shared: Distribution, request: pytest.FixtureRequest) -> Distribution:
    """The shared one, with a repository of the test's own, empty at first."""
    shared.repository = "ml/" + request.node.name.partition("[")[0].replace("_", "-")
    return shared


def test_a_plain_image_is_found_whole(registry: Distribution) -> None:
    assert registry.pull(Image(registry).digest) == WORKS


def test_an_index_is_found_with_all_its_platforms(registry: Distribution) -> None:
    images = [Image(registry, one) for one in ("amd64", "arm64")]
    index = push_index(registry, *images)
    assert registry.pull(index) == WORKS
    registry.delete(f"blobs/{images[1].layers[0]}")
    assert images[1].layers[0] in str(registry.pull(index)["why"]), "an image for all platforms is whole with all of them"
    assert registry.pull(images[0].digest) == WORKS
    registry.delete(f"manifests/{images[1].digest}")
    assert registry.pull(index) == {"is": False, "why": "the manifest is missing"}


def test_what_was_never_there_or_was_deleted_is_absent(registry: Distribution) -> None:
    absent = {"is": False, "why": "the registry does not have this digest"}
    image = Image(registry)
    assert registry.pull(NOWHERE) == absent, "another digest than the one that is there"
    assert registry.pull(image.config) != WORKS, "a digest of what is no image"
    assert registry.pull(image.digest, "ml/another") == absent, "the same image in another repository does not count"
    registry.delete(f"manifests/{image.digest}")
    assert registry.pull(image.digest) == absent


@pytest.mark.parametrize("lost", ["layer", "config"])
def test_an_image_that_lost_a_blob_is_not_whole(registry: Distribution, lost: str) -> None:
    image = Image(registry)
    blob = image.layers[1] if lost == "layer" else image.config
    registry.delete(f"blobs/{blob}")
    assert registry.pull(image.digest) == {"is": False, "why": f"1 of its blobs are missing or cut short, such as {blob}"}


def test_what_was_lost_or_cut_on_the_disk_of_the_registry_is_noticed(tmp_path: Path) -> None:
    with distribution(tmp_path) as registry:
        image = Image(registry)
        assert registry.pull(image.digest) == WORKS
        registry.file_of(image.layers[0]).unlink()
        file = registry.file_of(image.layers[1])
        file.write_bytes(file.read_bytes()[:-1])
        assert str(registry.pull(image.digest)["why"]).startswith("2 of its blobs are missing or cut short")


def test_a_registry_that_wants_a_password_is_not_known(registry: Distribution, tmp_path: Path) -> None:
    image = Image(registry)
    with distribution(tmp_path, storage=files(registry.folder), auth=password(tmp_path)) as closed:
        for digest in (image.digest, NOWHERE):
            assert closed.pull(digest, registry.repository) == {"error": "the registry answers 401, it asks for a login"}


def test_a_registry_that_is_down_or_hangs_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehead.app.site_probe.CONNECT_S", 0.05)
    with distribution(tmp_path) as registry:
        digest = Image(registry).digest
        registry.server.process.send_signal(signal.SIGSTOP)
        assert "timed out" in str(registry.pull(digest)["error"])
        registry.server.stop(number=signal.SIGKILL)
    answer = registry.pull(digest)
    assert "is" not in answer
    assert "the registry cannot be reached" in str(answer["error"])


def test_a_finding_tells_absent_from_not_known(registry: Distribution, tmp_path: Path) -> None:
    image = Image(registry)
    with distribution(tmp_path, storage=files(registry.folder), auth=password(tmp_path)) as closed:
        down = f"127.0.0.1:{free_port()}"
        words = [
            (f"docker://{registry.host}/{registry.repository}:v1", image.digest),
            (f"{registry.host}/{registry.repository}@{NOWHERE}", NOWHERE),
            (f"{closed.host}/{registry.repository}:v1", image.digest),
            (f"{down}/{registry.repository}:v1", image.digest),
        ]
        asked = SiteNeeds(
            workload=WorkloadId("w"),
            source=SiteId("a"),
            target=SiteId("b"),
            look=SiteLook(SiteId("b"), plain_http=(registry.host, closed.host, down)),
            images=tuple(ImageNeed(word, "job:1", digest) for word, digest in words),
        )
        found, said = judge_images(asked, Place(LocalShell))
    assert [one.status for one in found] == [FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN, FindingStatus.UNKNOWN]
    assert "it asks for a login" in found[2].text
    assert said[words[0][0]] == {"cuda": "12.4.1", "nccl": "2.21.5-1"}


class TokenServer:
    """Gives everybody a signed token (JWT) for what is asked, or answers as it is told."""

    def __init__(self, certificates: Certificates) -> None:
        pem = certificates.server.read_bytes()
        key = serialization.load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key, self._certificate = key, x509.load_pem_x509_certificate(pem)
        self.asked: list[str] = []
        self.fate, self.actions = 200, ["pull"]
        self.auth = {"service": "registry of tests", "issuer": "tests", "rootcertbundle": str(certificates.ca)}

    def handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        tokens = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                (scope,) = parse_qs(urlsplit(self.path).query)["scope"]
                tokens.asked.append(scope)
                body = json.dumps({"token": tokens._token(scope)}).encode()
                self.send_response(tokens.fate)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler

    def _token(self, scope: str) -> str:
        name = scope.split(":")[1]
        head = {
            "typ": "JWT",
            "alg": "ES256",
            "x5c": [base64.b64encode(self._certificate.public_bytes(serialization.Encoding.DER)).decode()],
        }
        now = int(time.time())
        access = [{"type": "repository", "name": name, "actions": self.actions}]
        claims = {"iss": "tests", "sub": "", "aud": "registry of tests", "exp": now + 300, "nbf": now - 60, "iat": now, "jti": "1"}
        signed = ".".join(_base64(json.dumps(one).encode()) for one in (head, {**claims, "access": access}))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[TokenServer]:
    tokens = TokenServer(make_certificates(tmp_path))
    with served(tokens.handler()) as port:
        tokens.auth["realm"] = f"http://127.0.0.1:{port}/token"
        yield tokens


def test_a_token_for_everybody_opens_a_public_image(registry: Distribution, tokens: TokenServer, tmp_path: Path) -> None:
    image = Image(registry)
    with distribution(tmp_path, storage=files(registry.folder), auth={"token": tokens.auth}) as public:
        assert public.pull(image.digest, registry.repository) == WORKS
        assert tokens.asked == [f"repository:{registry.repository}:pull"], "one token for the whole image"
        assert public.pull(NOWHERE, registry.repository)["is"] is False


@pytest.mark.parametrize("fate", [401, 403, 404, 503])
def test_a_token_that_is_not_given_is_not_an_image_that_is_absent(tokens: TokenServer, tmp_path: Path, fate: int) -> None:
    tokens.fate = fate
    with distribution(tmp_path, auth={"token": tokens.auth}) as private:
        answer = private.pull(NOWHERE, "ml/private")
    assert list(answer) == ["error"]
    assert f"the registry's token server answers {fate}" in answer["error"]


def test_a_token_that_allows_nothing_is_not_an_image_that_is_absent(tokens: TokenServer, tmp_path: Path) -> None:
    tokens.actions = []
    with distribution(tmp_path, auth={"token": tokens.auth}) as private:
        assert private.pull(NOWHERE, "ml/private") == {"error": "the registry answers 401, it asks for a login"}
    assert len(tokens.asked) == 1


@pytest.mark.server("weed")
def test_blobs_are_followed_to_the_object_store_where_they_are(weed: Seaweed, tmp_path: Path) -> None:
    """It sends on to signed addresses, each for one method: one for HEAD is none for GET."""
    bucket = weed.make_bucket("registry-blobs").removeprefix("s3://")
    access = {"accesskey": ACCESS_KEY, "secretkey": SECRET_KEY, "region": "us-east-1", "bucket": bucket}
    with distribution(tmp_path, storage={"s3": {**access, "regionendpoint": weed.url, "secure": False}}) as registry:
        image = Image(registry)
        with contextlib.closing(http.client.HTTPConnection(registry.host, timeout=10.0)) as connection:
            connection.request("HEAD", f"/v2/{registry.repository}/blobs/{image.config}")
            assert connection.getresponse().headers["Location"].startswith(weed.url), "or this test shows nothing"
        assert registry.pull(image.digest) == WORKS
        registry.delete(f"blobs/{image.layers[0]}")
        assert registry.pull(image.digest)["is"] is False


def test_the_token_of_a_registry_is_not_shown_to_its_storage(registry: Distribution, tokens: TokenServer, tmp_path: Path) -> None:
    """Object stores refuse a signed address that comes with another login; and who runs one could use the token."""
    image, seen = Image(registry), []

    class Store(http.server.SimpleHTTPRequestHandler):
        def send_head(self) -> object:
            seen.append((self.command, self.headers.get("Authorization")))
            return super().send_head()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with served(lambda *words: Store(*words, directory=str(registry.folder))) as port:
        storage = {**files(registry.folder), "redirect": {"disable": False}}
        on = [{"name": "redirect", "options": {"baseurl": f"http://127.0.0.1:{port}"}}]
        with distribution(tmp_path, storage=storage, auth={"token": tokens.auth}, middleware={"storage": on}) as public:
            assert public.pull(image.digest, registry.repository) == WORKS
    assert seen == [("HEAD", None)] * 3 + [("GET", None)]
