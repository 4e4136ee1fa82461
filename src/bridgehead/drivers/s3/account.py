"""Account: with which keys, at which server. From the options, the environment and the shared files, in this order."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.drivers.s3.options import S3BlobsOptions
from bridgehead.kernel.errors import Permanent

DEFAULT_REGION: Final = "us-east-1"
_ELSEWHERE: Final = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
)
"""Each names a service that hands out keys; obstore asks it. Without one of them, and without keys, nothing is tried."""


class Keys(msgspec.Struct, frozen=True):
    """Static keys. Not shown by ``repr``."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""

    def __repr__(self) -> str:
        return f"Keys({self.access_key_id!r})"


class Account(msgspec.Struct, frozen=True):
    """``endpoint`` is empty for Amazon's; ``keys`` None when a service hands them out; ``roots``: further certificates (PEM)."""

    endpoint: str
    region: str
    keys: Keys | None
    roots: bytes


def account(options: S3BlobsOptions, environ: Mapping[str, str]) -> Account:
    """Gather all of it. Raises Permanent when there are no keys, the profile does not exist or a file cannot be read."""
    named = options.profile or environ.get("AWS_PROFILE", "")
    profile = _profile(named, environ)
    endpoint = (
        options.endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or profile.get("endpoint_url", "")
    ).rstrip("/")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise _refused(endpoint, "the endpoint is not an http:// or https:// address", "Write https://HOST:PORT.")
    region = options.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or profile.get("region") or DEFAULT_REGION
    keys = _keys(options, environ, profile)
    if keys is None and not any(environ.get(name) for name in _ELSEWHERE):
        raise _refused(
            options.url,
            "there are no credentials",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with a section in ~/.aws/credentials.",
        )
    bundle = environ.get("AWS_CA_BUNDLE") or profile.get("ca_bundle", "")
    return Account(endpoint, region, keys, b"" if endpoint.startswith("http://") else _content(bundle))


def _keys(options: S3BlobsOptions, environ: Mapping[str, str], profile: Mapping[str, str]) -> Keys | None:
    in_environ = (environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY"), environ.get("AWS_SESSION_TOKEN", ""))
    in_profile = (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key"), profile.get("aws_session_token", ""))
    # A profile that is named with the store is meant, whatever the environment holds.
    for key, secret, token in (in_profile, in_environ) if options.profile else (in_environ, in_profile):
        if key and secret:
            return Keys(key, secret, token)
        if key or secret:
            half = "the secret key" if key else "the access key"
            raise _refused(options.url, f"the credentials lack {half}", "Give both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    return None


def _profile(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What both shared files say of a profile; the credentials file counts more."""
    home = Path(environ.get("HOME") or "~").expanduser() / ".aws"
    config = environ.get("AWS_CONFIG_FILE") or str(home / "config")
    credentials = environ.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / "credentials")
    wanted = name or "default"
    found = [_section(config, "default" if wanted == "default" else f"profile {wanted}"), _section(credentials, wanted)]
    if name and not any(found):
        raise _refused(f"profile {name}", "there is no such profile", f"Look into {credentials} and {config}.")
    return {key: value for section in found for key, value in section.items()}


def _section(path: str, name: str) -> dict[str, str]:
    if not os.path.exists(path):
        return {}
    parser = configparser.ConfigParser(interpolation=None, default_section="\0")
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, UnicodeError, configparser.Error) as error:
        # The parser's own text shows the line at fault, which may hold a secret.
        raise _refused(path, f"the file cannot be read ({type(error).__name__})", "Correct it, or take it away.") from None
    return dict(parser[name]) if parser.has_section(name) else {}


def _content(bundle: str) -> bytes:
    if not bundle:
        return b""
    try:
        return Path(bundle).read_bytes()
    except OSError as error:
        raise _refused(bundle, f"the certificates cannot be read ({error.strerror})", "Correct AWS_CA_BUNDLE, or unset it.") from error


def _refused(subject: str, happened: str, remedy: str) -> Permanent:
    return Permanent(happened, tried="use a bucket", subject=subject, remedy=remedy)
