"""What an address, the environment and the shared files say of a bucket; what the text of obstore's exceptions says of a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions
from bridgehead.drivers.s3.account import Account, Keys, account
from bridgehead.drivers.s3.faults import failure, port_error
from bridgehead.drivers.s3.options import Location, location, places, with_address
from bridgehead.kernel.errors import NotFound, Permanent, Transient

KEYS = {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.mark.parametrize(("url", "bucket", "prefix"), [
    ("s3://one", "one", ""), ("s3://one/", "one", ""), ("s3://one/a", "one", "a"), ("s3://my.bucket-1/a/b@c/", "my.bucket-1", "a/b@c"),
])  # fmt: skip
def test_address(url: str, bucket: str, prefix: str) -> None:
    assert location(url) == Location(bucket, prefix)


@pytest.mark.parametrize("url", [
    "s3://", "s3:///a", "s3://Upper", "s3://ab", "s3://-ab", "s3://a_b/c", "s3://one/a//b", "s3://one/../b", "s3://one/ä", "s3://one/a b",
    "s3://one/a#b", "http://one/a", "s3://key:secret@one/a", "s3://one?other=1", "s3://one?state=", "s3://one?region=a&region=b",
    "s3://one?state=one", "s3://one?state=s3://one/state", "s3://one/a?state=s3://one/a", "s3://one/a?state=s3://one/a/b",
    "s3://one?endpoint=host:80",
])  # fmt: skip
def test_bad_address_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(Permanent) as refused:
        S3Blobs(S3BlobsOptions(url), environ=KEYS)
    assert refused.value.remedy


def test_address_speaks_for_the_options() -> None:
    url = "s3://one/a?state=s3://two/b&endpoint=https://host:9000/&region=mars-1&profile=other"
    options = with_address(S3BlobsOptions(url))
    assert places(options) == (Location("one", "a"), Location("two", "b"))
    assert (options.region, options.profile, options.url) == ("mars-1", "other", "s3://one/a")
    assert places(with_address(S3BlobsOptions("s3://one/a", state="s3://one/ab"))) == (Location("one", "a"), Location("one", "ab"))
    with pytest.raises(Permanent, match="twice"):
        with_address(S3BlobsOptions(url, region="moon-1"))
    for timeout_s, retries in ((0.0, 1), (1.0, -1)):
        with pytest.raises(Permanent, match="limit"):
            with_address(S3BlobsOptions("s3://one", timeout_s=timeout_s, retries=retries))


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = D\naws_secret_access_key = d%1\n"
        "[other]\naws_access_key_id = O\naws_secret_access_key = o\naws_session_token = t\n"
    )
    (folder / "config").write_text("[default]\nregion = eu-1\n[profile other]\nregion = us-9\nendpoint_url = http://other:1/\n")
    return {"HOME": str(tmp_path)}


def test_order_is_options_then_environment_then_files(home: dict[str, str]) -> None:
    plain = S3BlobsOptions("s3://one")
    assert account(plain, home) == Account("", "eu-1", Keys("D", "d%1"), b"")
    assert account(plain, home | KEYS | {"AWS_SESSION_TOKEN": "s"}) == Account("", "eu-1", Keys("AK", "secret", "s"), b"")
    assert account(plain, home | {"AWS_PROFILE": "other"}) == Account("http://other:1", "us-9", Keys("O", "o", "t"), b"")
    assert (
        account(plain, home | {"AWS_REGION": "r", "AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}).endpoint == "http://b"
    )
    given = S3BlobsOptions("s3://one", endpoint="http://c", region="here", profile="other")
    assert account(given, home | KEYS | {"AWS_REGION": "r", "AWS_ENDPOINT_URL": "http://a"}) == Account(
        "http://c", "here", Keys("O", "o", "t"), b""
    )


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(account(S3BlobsOptions("s3://one"), KEYS))


def test_what_is_missing_is_named(home: dict[str, str], tmp_path: Path) -> None:
    nowhere = {"HOME": str(tmp_path / "nobody")}
    for environ, word in (
        (nowhere, "no credentials"),
        (nowhere | {"AWS_ACCESS_KEY_ID": "AK"}, "lack the secret key"),
        (nowhere | {"AWS_SECRET_ACCESS_KEY": "SK"}, "lack the access key"),
        (home | {"AWS_PROFILE": "absent"}, "no such profile"),
        (KEYS | {"AWS_CA_BUNDLE": str(tmp_path / "absent.pem")}, "certificates cannot be read"),
    ):
        with pytest.raises(Permanent, match=word):
            account(S3BlobsOptions("s3://one"), environ)
    (tmp_path / ".aws" / "credentials").write_text("aws_secret_access_key = hidden\n")
    with pytest.raises(Permanent, match="cannot be read") as refused:
        account(S3BlobsOptions("s3://one"), home)
    assert "hidden" not in str(refused.value)
    assert account(S3BlobsOptions("s3://one"), nowhere | {"AWS_WEB_IDENTITY_TOKEN_FILE": "/run/token"}).keys is None


def refusal(status: int, code: str = "", *, deleting: bool = False) -> Exception:
    text = f"Generic S3 error: Server returned non-2xx status code: {status} X: <Error><Code>{code}</Code></Error>\n\nDebug source: secret"
    return port_error(failure(Exception(text)), tried="try", subject="key", deleting=deleting)


@pytest.mark.parametrize(("status", "code", "kind", "word"), [
    (404, "NoSuchKey", NotFound, "no such key"), (404, "NoSuchBucket", Permanent, "no such bucket"),
    (403, "AccessDenied", Permanent, "access denied"), (403, "ExpiredToken", Permanent, "credentials are refused"),
    (401, "", Permanent, "credentials are refused"), (400, "AuthorizationHeaderMalformed", Permanent, "AWS_REGION"),
    (400, "RequestTimeout", Transient, "400"), (409, "ConditionalRequestConflict", Transient, "409"), (429, "", Transient, "429"),
    (500, "InternalError", Transient, "500"), (503, "SlowDown", Transient, "503"), (507, "", Permanent, "no space"),
    (403, "QuotaExceeded", Permanent, "no space"), (501, "NotImplemented", Permanent, "501"), (400, "InvalidArgument", Permanent, "400"),
])  # fmt: skip
def test_answers_become_port_errors(status: int, code: str, kind: type[Exception], word: str) -> None:
    error = refusal(status, code)
    assert type(error) is kind
    assert word in str(error)
    assert "Debug source" not in str(error)


def test_V26_only_a_denied_delete_is_a_retention() -> None:
    assert "retained" in str(refusal(403, "AccessDenied", deleting=True))
    assert "retained" not in str(refusal(403, "SignatureDoesNotMatch", deleting=True))
    assert "retained" not in str(refusal(403, "AccessDenied"))


def test_what_is_not_understood_is_in_doubt() -> None:
    found = failure(Exception("something that nobody has seen yet\n\nDebug source:\nX"))
    assert (found.nothing_done, found.may_pass, found.text) == (False, True, "something that nobody has seen yet")
    assert failure(Exception("HttpError {\n kind: Connect,")).nothing_done
    assert not failure(Exception("non-2xx status code: 500 X")).nothing_done
    assert failure(Exception("non-2xx status code: 403 X")).nothing_done
