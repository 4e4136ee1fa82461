"""A throw-away S3 server (SeaweedFS) for tests: on free ports of loopback, with all its files in one folder, killed by its process id."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import signal
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions
from bridgehead.testing.servers import Server, free_port

ACCESS_KEY: Final = "test-access"
SECRET_KEY: Final = "test-secret"
_ALL: Final = ("Admin", "Read", "Write", "List", "Tagging")
_TRIES: Final = 3
"""A port that was free when it was chosen may be taken before the server takes it."""


class Seaweed:
    """A running server. Whoever speaks to it without a signature may do everything: so tests make buckets."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def environ(self, **changes: str) -> dict[str, str]:
        """The environment by which programs reach it."""
        return environ(self.url) | changes

    def blobs(self, url: str, *, timeout_s: float = 10.0, retries: int = 2, state: str = "", **changes: str) -> S3Blobs:
        """A store at ``s3://bucket/prefix``."""
        options = S3BlobsOptions(url, state=state, timeout_s=timeout_s, retries=retries)
        return S3Blobs(options, environ=self.environ(**changes))

    def make_bucket(self, name: str, *, locked_days: int = 0) -> str:
        """A new bucket; with ``locked_days``: with object lock, and so long a retention (COMPLIANCE) for every object. Its address."""
        self._ask("PUT", f"/{name}", headers={"x-amz-bucket-object-lock-enabled": "true"} if locked_days else {})
        if locked_days:
            rule = f"<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>{locked_days}</Days></DefaultRetention></Rule>"
            enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>"
            self._ask("PUT", f"/{name}?object-lock", f"<ObjectLockConfiguration>{enabled}{rule}</ObjectLockConfiguration>".encode())
        return f"s3://{name}"

    def deny_deletes(self, bucket: str) -> None:
        """A bucket policy by which nobody deletes an object."""
        rule = {
            "Sid": "keep",
            "Effect": "Deny",
            "Principal": "*",
            "Action": ["s3:DeleteObject"],
            "Resource": [f"arn:aws:s3:::{bucket}/*"],
        }
        self._ask("PUT", f"/{bucket}?policy", msgspec.json.encode({"Version": "2012-10-17", "Statement": [rule]}))

    def put_object(self, path: str, body: bytes) -> None:
        """Write ``bucket/name``, whatever the name."""
        self._ask("PUT", f"/{path}", body)

    def versions(self, bucket: str) -> str:
        """The listing of all versions and delete markers, as XML."""
        return self._ask("GET", f"/{bucket}?versions").decode()

    def uploads(self, bucket: str) -> str:
        """The listing of multipart uploads that were begun and not ended, as XML."""
        return self._ask("GET", f"/{bucket}?uploads").decode()

    def delete_version(self, path: str, version: str) -> int:
        """The status with which the server answers when one version of ``bucket/key`` is to be deleted for good."""
        return self._status("DELETE", f"/{path}?versionId={version}")[0]

    def ready(self) -> bool:
        """Whether an object can be written."""
        try:
            self._status("PUT", "/ready")
            return self._status("PUT", "/ready/object", b"x")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
        status, answer = self._status(method, path, body, headers)
        if status not in (200, 204):
            raise RuntimeError(f"{method} {path}: {status} {answer.decode(errors='replace')}")
        return answer

    def _status(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10.0)
        with contextlib.closing(connection):
            connection.request(method, path, body=body or None, headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, response.read()


def environ(endpoint: str) -> dict[str, str]:
    """The environment of a client of the server at ``endpoint``, or of something that stands before it."""
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[Seaweed]:
    """A server that is ready inside the ``with`` block; its files are removed after it."""
    data, log, identities = folder / "data", folder / "weed.log", folder / "identities.json"
    identities.write_bytes(
        msgspec.json.encode(
            {
                "identities": [
                    {"name": "test", "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}], "actions": _ALL},
                    {"name": "anonymous", "actions": _ALL},
                ]
            }
        )
    )
    # A socket's path may have 107 bytes, so that ``folder`` can be too deep for it.
    with tempfile.TemporaryDirectory(prefix="bridgehead-weed-", ignore_cleanup_errors=True) as short:
        running = _started(data, log, identities, Path(short))
        try:
            yield running
        finally:
            running.server.stop(number=signal.SIGKILL)  # on SIGTERM it takes half a minute
            shutil.rmtree(data, ignore_errors=True)
            _remove_sockets(running.server)


def _remove_sockets(server: Server) -> None:
    """Those of gRPC, whose place cannot be chosen: they are named after this server's own ports."""
    for word in map(str, server.command):
        if ".port.grpc=" in word:
            for socket in Path("/tmp").glob(f"seaweedfs-*-grpc-{word.rpartition('=')[2]}.sock"):
                socket.unlink(missing_ok=True)


def _started(data: Path, log: Path, identities: Path, short: Path) -> Seaweed:
    """``short``: a folder for its sockets and its own temporary files."""
    for attempt in range(1, _TRIES + 1):
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        port = free_port()
        running = Seaweed(Server(_command(data, identities, port, short), log=log, env={"TMPDIR": str(short)}), port)
        try:
            running.server.wait_until(running.ready)
        except RuntimeError:
            running.server.stop(number=signal.SIGKILL)
            if attempt == _TRIES:
                raise
        except BaseException:
            running.server.stop(number=signal.SIGKILL)
            raise
        else:
            return running
    raise AssertionError("unreachable")


def _command(data: Path, identities: Path, port: int, short: Path) -> list[str]:
    program = shutil.which("weed", path=sysconfig.get_path("scripts")) or "weed"
    others = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port.grpc")
    ports = [f"-{name}={free_port()}" for name in others]
    return [
        program,
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *ports,
        "-filer",
        "-s3",
        f"-s3.port={port}",
        f"-s3.config={identities}",
        f"-filer.localSocket={short}/filer.sock",
        f"-s3.localSocket={short}/s3.sock",
        "-s3.autoCreateBucket=false",  # a bucket that is missing must look missing
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-volume.max=500",  # each bucket takes several volumes
        "-master.volumeSizeLimitMB=64",
        "-volume.preStopSeconds=0",
        "-master.telemetry=false",
    ]
