"""Where the objects lie: the options of the driver, and what an address ``s3://bucket/prefix?name=value`` says."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from bridgehead.kernel.errors import Permanent
from bridgehead.ports.blobkeys import is_segment

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_IN_ADDRESS: Final = frozenset({"state", "endpoint", "region", "profile"})
_REMEDY: Final = "Write s3://BUCKET/PREFIX, or s3://BUCKET/PREFIX?state=s3://BUCKET/PREFIX&endpoint=URL&region=NAME&profile=NAME."


class S3BlobsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the objects are. What is empty comes from the address, then from the environment, then from the files of the profile.

    Attributes:
        url: ``s3://bucket/prefix``; ``?state=``, ``?endpoint=``, ``?region=`` and ``?profile=`` in it stand for the options below.
        state: ``s3://bucket/prefix`` where keys under ``state/`` lie instead. Needed when objects of the bucket cannot be deleted.
        endpoint: ``https://host:port`` of a server that is not Amazon's.
        region: the bucket's region; ``us-east-1`` when nothing says one.
        profile: section of the shared files (``~/.aws/credentials``, ``~/.aws/config``) that has the keys.
        timeout_s: for connecting, and for each wait on the network.
        retries: how often a request is sent again after a failure that may pass.
    """

    url: str
    state: str = ""
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    timeout_s: float = 20.0
    retries: int = 4


class Location(msgspec.Struct, frozen=True):
    """A folder of a bucket; ``prefix`` has no slash at its ends."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def with_address(options: S3BlobsOptions) -> S3BlobsOptions:
    """The options with what the address says put into its fields. Raises Permanent when they do not fit."""
    parts = urlsplit(options.url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in asked:
        if name not in _IN_ADDRESS or not value:
            raise _bad(options.url, f"it asks for {name}, and only {', '.join(sorted(_IN_ADDRESS))} can be asked for")
    found = dict(asked)
    if options.timeout_s <= 0 or options.retries < 0:
        raise _bad(options.url, "the time limit must be above zero, and retries not below")
    twice = len(asked) != len(found) or any(getattr(options, name) for name in found)
    if twice or parts.fragment:
        raise _bad(options.url, "it says something twice" if twice else "it has a part behind #")
    url = parts._replace(query="").geturl()
    return msgspec.structs.replace(options, url=url, **found)


def location(url: str) -> Location:
    """The folder that ``s3://bucket/prefix`` names. Raises Permanent for anything else."""
    parts = urlsplit(url)
    prefix = parts.path.strip("/")
    if parts.scheme != "s3" or parts.query or parts.fragment:
        raise _bad(url, "not an s3:// address")
    if not _BUCKET.fullmatch(parts.netloc):
        if "@" in parts.netloc or (":" in parts.netloc and "@" in parts.path):
            raise _bad(url, "an address holds no keys: they come from the environment or from a profile")
        raise _bad(url, f"{parts.netloc!r} is not the name of a bucket")
    if prefix and not all(is_segment(segment) for segment in prefix.split("/")):
        raise _bad(url, "its prefix has other signs than A-Z a-z 0-9 @ . _ + - and slashes")
    return Location(parts.netloc, prefix)


def places(options: S3BlobsOptions) -> tuple[Location, Location | None]:
    """Where the objects lie and where those of ``state/`` lie. Raises Permanent for a bad address, or when one holds the other."""
    main = location(options.url)
    if not options.state:
        return main, None
    state = location(options.state)
    if state.bucket == main.bucket and (f"{state.prefix}/".startswith(f"{main.prefix}/") or not main.prefix):
        raise _bad(options.state, "the place of the state lies within the vault itself")
    return main, state


def without_keys(text: str) -> str:
    """An address without what stands before the last @: it may be a secret, slashes in it, and would end in a log."""
    return re.sub(r"(^|//).*@", r"\1***@", text)


def _bad(url: str, happened: str) -> Permanent:
    return Permanent(happened, tried="use a bucket", subject=without_keys(url), remedy=_REMEDY)
