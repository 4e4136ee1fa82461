"""S3Blobs keeps the blobs port's contract on a real server, and says truthfully what is known when the network or the server fails."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions
from bridgehead.kernel.errors import NotFound, Permanent, Transient, Unknown
from bridgehead.kernel.hashing import block_hash
from bridgehead.testing.blobs_suite import BlobsSuite, large_value
from bridgehead.testing.lossy_path import LossyPath
from bridgehead.testing.seaweed import Seaweed, environ
from bridgehead.testing.servers import free_port, relay

pytestmark = pytest.mark.server("weed")
NUMBERS = itertools.count()


@pytest.fixture
def prefix() -> str:
    """A folder of the bucket that no other test uses."""
    return f"test-{next(NUMBERS)}/vault"


@pytest.fixture(scope="module")
def bucket(weed: Seaweed) -> str:
    return weed.make_bucket("blobs")


@pytest.fixture
def store(weed: Seaweed, bucket: str, prefix: str) -> S3Blobs:
    store = weed.blobs(f"{bucket}/{prefix}")
    store.put_new("present", b"value")
    return store


class TestS3Blobs(BlobsSuite):
    @pytest.fixture
    def blobs(self, weed: Seaweed, bucket: str, prefix: str) -> S3Blobs:
        self.open = lambda: weed.blobs(f"{bucket}/{prefix}")
        return self.open()

    def reopened(self, blobs: S3Blobs) -> S3Blobs:
        return self.open()

    @pytest.fixture(autouse=True)
    def place(self, weed: Seaweed, bucket: str, prefix: str) -> None:
        self.address, self.variables = f"{bucket}/{prefix}", weed.environ()

    def opening(self, blobs: S3Blobs) -> str:
        return f"""
from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions
blobs = S3Blobs(S3BlobsOptions({self.address!r}), environ={self.variables!r})
"""


class TestS3BlobsWithStateElsewhere(BlobsSuite):
    @pytest.fixture
    def blobs(self, weed: Seaweed, bucket: str, prefix: str) -> S3Blobs:
        self.open = lambda: weed.blobs(f"{bucket}/{prefix}?state={bucket}/state/{prefix}")
        return self.open()

    def reopened(self, blobs: S3Blobs) -> S3Blobs:
        return self.open()

    def test_V26_keys_of_the_state_lie_in_the_other_place_alone(self, weed: Seaweed, bucket: str, prefix: str, blobs: S3Blobs) -> None:
        for key in ("data/a", "state/sessions/b", "vault.json"):
            assert blobs.put_new(key, key.encode())
            assert blobs.get(key) == key.encode()
        assert list(blobs.list("")) == ["data/a", "state/sessions/b", "vault.json"]
        assert list(blobs.list("state/")) == ["state/sessions/b"]
        assert list(weed.blobs(f"{bucket}/{prefix}").list("")) == ["data/a", "vault.json"]
        assert list(weed.blobs(f"{bucket}/state/{prefix}").list("")) == ["state/sessions/b"]
        blobs.delete("state/sessions/b")
        assert list(blobs.list("")) == ["data/a", "vault.json"]


def test_objects_that_are_not_ours_are_not_listed_and_folders_keep_apart(weed: Seaweed, bucket: str, prefix: str, store: S3Blobs) -> None:
    weed.put_object(f"{bucket.removeprefix('s3://')}/{prefix}/not%20a%20key", b"x")
    assert list(store.list("")) == ["present"]
    assert list(weed.blobs(f"{bucket}/{prefix}-2").list("")) == []
    assert [key for key in weed.blobs(bucket).list("") if key.startswith(prefix)] == [f"{prefix}/present"]


@pytest.fixture
def path(weed: Seaweed, store: S3Blobs) -> Iterator:
    with contextlib.ExitStack() as stack:

        def make(*plan: str) -> LossyPath:
            lossy = LossyPath(weed.port, list(plan))
            stack.callback(lossy.close)
            return lossy

        yield make


def through(port: int, bucket: str, prefix: str, *, retries: int = 0, timeout_s: float = 5.0) -> S3Blobs:
    options = S3BlobsOptions(f"{bucket}/{prefix}", timeout_s=timeout_s, retries=retries)
    return S3Blobs(options, environ=environ(f"http://127.0.0.1:{port}"))


def test_lost_answer_of_a_put_is_looked_up_and_counts_as_written(path, bucket, prefix, store):
    lossy = path("lose answer", "pass")
    assert through(lossy.port, bucket, prefix).put_new("new", b"mine") is True
    assert lossy.used == ["lose answer", "pass"]
    assert store.get("new") == b"mine"


def test_lost_answer_of_a_put_on_a_key_of_somebody_else_is_not_a_win(path, bucket, prefix, store):
    lossy = path("lose answer", "pass")
    assert through(lossy.port, bucket, prefix).put_new("present", b"mine") is False
    assert store.get("present") == b"value"


def test_put_that_never_arrived_is_sent_again(path, bucket, prefix, store):
    lossy = path("lose request", "pass", "pass")
    assert through(lossy.port, bucket, prefix, retries=1).put_new("new", b"mine") is True
    assert store.get("new") == b"mine"


def test_put_that_never_arrived_is_unknown_without_another_try_because_it_may_still_arrive(path, bucket, prefix, store):
    lossy = path("lose request", "pass")
    with pytest.raises(Unknown):
        through(lossy.port, bucket, prefix).put_new("new", b"mine")
    assert lossy.used == ["lose request", "pass"]
    assert store.size("new") is None


def test_put_whose_look_up_fails_too_is_unknown(path, bucket, prefix, store):
    lossy = path("lose answer", "lose answer")
    with pytest.raises(Unknown, match="then"):
        through(lossy.port, bucket, prefix).put_new("new", b"mine")
    assert store.get("new") == b"mine"


def test_lost_answer_of_a_read_is_transient_and_of_a_delete_unknown(path, bucket, prefix, store):
    with pytest.raises(Transient):
        through(path("lose answer").port, bucket, prefix).get("present")
    with pytest.raises(Transient):
        list(through(path("lose answer").port, bucket, prefix).list(""))
    with pytest.raises(Unknown):
        through(path("lose answer").port, bucket, prefix).delete("present")
    assert store.size("present") is None


def test_read_is_repeated(path, bucket, prefix, store):
    lossy = path("lose answer", "lose answer", "pass")
    assert through(lossy.port, bucket, prefix, retries=2).get("present") == b"value"
    assert lossy.used == ["lose answer", "lose answer", "pass"]


def test_V23_line_cut_in_the_middle_of_a_put_leaves_nothing_and_a_healed_one_goes_on(weed, bucket, prefix, store, tmp_path: Path):
    value = bytes(2_000_000)
    with relay(weed.port, folder=tmp_path, rate_bps=16e6) as (port, cut, status):
        blobs = through(port, bucket, prefix, retries=5)

        def cut_midway() -> None:
            while not re.search(rb'"to_bytes":[1-9]\d{5}', status.read_bytes() if status.exists() else b""):
                time.sleep(0.02)
            cut.touch()

        cutter = threading.Thread(target=cut_midway)
        cutter.start()
        with pytest.raises(Unknown):
            blobs.put_new("big", value)
        cutter.join()
        assert store.size("big") is None
        assert list(store.list("")) == ["present"]
        assert f"{prefix}/big" not in weed.uploads(bucket.removeprefix("s3://"))
        with pytest.raises(Transient):
            blobs.get("present")
        cut.unlink()
        assert blobs.put_new("big", value) is True
        assert blobs.digest("big").blake3 == block_hash(value)


def test_V23_line_cut_in_the_middle_of_an_upload_in_parts_shows_nothing_and_a_healed_one_goes_on(
    weed, bucket, prefix, store, tmp_path: Path
):
    key, value = large_value()
    with relay(weed.port, folder=tmp_path, rate_bps=400e6) as (port, cut, status):
        blobs = through(port, bucket, prefix, retries=1)

        def cut_midway() -> None:
            while not re.search(rb'"to_bytes":[2-9]\d{7}', status.read_bytes() if status.exists() else b""):
                time.sleep(0.02)
            cut.touch()

        cutter = threading.Thread(target=cut_midway)
        cutter.start()
        with pytest.raises((Unknown, Transient)):
            blobs.put_new(key, value)
        cutter.join()
        assert list(store.list("")) == ["present"]
        cut.unlink()
        assert blobs.put_new(key, value) is True
        assert blobs.digest(key).blake3 == block_hash(value)


def test_V23_upload_in_parts_that_loses_an_answer_goes_on_with_that_part(path, weed, bucket, prefix, store):
    key, value = large_value()
    lossy = path("pass", "pass", "lose answer", "lose request", *["pass"] * 20)  # the look, the beginning of the upload, parts
    assert through(lossy.port, bucket, prefix, retries=2).put_new(key, value) is True
    assert lossy.used[:4] == ["pass", "pass", "lose answer", "lose request"]
    assert f"{prefix}/" not in weed.uploads(bucket.removeprefix("s3://"))  # no second upload was begun
    assert store.digest(key).blake3 == block_hash(value)


def test_V26_large_value_that_is_there_gets_no_second_version_under_object_lock(weed: Seaweed):
    address = weed.make_bucket("locked-large", locked_days=1)
    blobs = weed.blobs(f"{address}/vault")
    key, value = large_value()
    assert [blobs.put_new(key, value) for _ in range(3)] == [True, False, False]
    assert weed.versions("locked-large").count("<Version>") == 1


def test_large_value_under_another_name_is_create_only_and_one_request(weed, bucket, prefix, store):
    _, value = large_value()
    assert store.put_new("large/record", value) is True
    assert store.put_new("large/record", value[:-1] + b"D") is False
    assert store.get_range("large/record", len(value) - 3, 3) == b"end"


def test_server_that_hangs_is_noticed_in_time(bucket, prefix):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        blobs = through(listener.getsockname()[1], bucket, prefix, timeout_s=0.3)
        began_s = time.monotonic()
        with pytest.raises(Transient, match="in time"):
            blobs.get("present")
        assert time.monotonic() - began_s < 3
        with pytest.raises(Unknown, match="in time"):
            blobs.put_new("new", b"x")
        assert time.monotonic() - began_s < 10


def test_no_server_is_transient_for_every_method(bucket, prefix):
    blobs = through(free_port(), bucket, prefix, retries=1)
    for call in (
        lambda: blobs.put_new("new", b"x"),
        lambda: blobs.get("present"),
        lambda: blobs.get_range("present", 0, 1),
        lambda: blobs.digest("present"),
        lambda: blobs.size("present"),
        lambda: blobs.list(""),
        lambda: blobs.delete("present"),
    ):
        with pytest.raises(Transient):
            call()


def test_J01_missing_bucket_is_not_an_empty_store(weed: Seaweed):
    blobs = weed.blobs("s3://never-made/x")
    for call in (
        lambda: blobs.put_new("new", b"x"),
        lambda: blobs.get("present"),
        lambda: blobs.get_range("present", 0, 1),
        lambda: blobs.digest("present"),
        lambda: blobs.size("present"),
        lambda: blobs.list(""),
        lambda: blobs.delete("present"),
    ):
        with pytest.raises(Permanent, match="no such bucket"):
            call()


@pytest.mark.parametrize("wrong", [{"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ACCESS_KEY_ID": "nobody"}])
def test_wrong_credentials_are_named_and_are_not_a_retention(weed: Seaweed, bucket, prefix, store, wrong):
    blobs = weed.blobs(f"{bucket}/{prefix}", **wrong)
    for call in (lambda: blobs.put_new("new", b"x"), lambda: blobs.get("present"), lambda: blobs.list(""), lambda: blobs.delete("present")):
        with pytest.raises(Permanent, match="credentials are refused") as refused:
            call()
        assert "retained" not in str(refused.value)
        assert "wrong" not in str(refused.value)
    with pytest.raises(Permanent):  # HEAD says 403 and no more
        blobs.size("present")
    assert store.get("present") == b"value"


def test_V26_denied_delete_is_called_retained(weed: Seaweed):
    address = weed.make_bucket("denied")
    blobs = weed.blobs(f"{address}/vault")
    blobs.put_new("state/mark", b"x")
    weed.deny_deletes("denied")
    with pytest.raises(Permanent, match="retained") as refused:
        blobs.delete("state/mark")
    assert "?state=s3://" in refused.value.remedy
    assert blobs.get("state/mark") == b"x"


def test_V26_object_lock_keeps_what_was_deleted(weed: Seaweed):
    """A plain delete hides the object behind a marker, and its name is free again; the server lets nobody remove the version below."""
    address = weed.make_bucket("locked", locked_days=1)
    blobs = weed.blobs(f"{address}/vault")
    assert blobs.put_new("data/a", b"first")
    blobs.delete("data/a")
    assert blobs.size("data/a") is None
    with pytest.raises(NotFound):
        blobs.get("data/a")
    assert blobs.put_new("data/a", b"second") is True
    listing = weed.versions("locked")
    kept = re.findall(r"<Version>.*?<VersionId>([^<]+)</VersionId>.*?</Version>", listing, re.DOTALL)
    assert len(kept) == 2
    assert [weed.delete_version("locked/vault/data/a", version) for version in kept] == [403, 403]
    assert blobs.get("data/a") == b"second"
