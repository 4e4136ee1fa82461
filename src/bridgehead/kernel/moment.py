"""Moments: dates with time and zone at the edge, seconds since the Unix epoch inside. A time without its zone is refused."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Annotated

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode


class IsMoment(msgspec.Struct, frozen=True):
    """Metadata for ``typing.Annotated``: files write a date with time and zone, inside it is seconds since the Unix epoch."""


Moment = Annotated[float, IsMoment()]
_FINE = re.compile(r"\.\d{7,}")
"""More digits than a microsecond has, which the standard library would cut off."""


def parse_moment(text: str) -> float:
    """Seconds since the Unix epoch for '2026-03-01 20:00+01:00'. Raises BAD_QUANTITY, also when the zone is missing."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise _bad(text, f"it is no date with time ({error})") from error
    if moment.tzinfo is None:
        raise _bad(text, "the zone is missing, so it could be any of two dozen moments")
    fine = _FINE.search(text)
    return moment.timestamp() if fine is None else float(Decimal(moment.replace(microsecond=0).timestamp()) + Decimal(f"0{fine[0]}"))


def format_moment(moment_s: float) -> str:
    """The text, in UTC, that ``parse_moment`` reads back as the same number; a clock's readings are finer than microseconds."""
    text = _in_utc(moment_s)
    if parse_moment(text) == moment_s:
        return text
    whole_s = math.floor(moment_s)
    fraction = format(Decimal(repr(float(moment_s))) - whole_s, "f").removeprefix("0")
    return _in_utc(whole_s).replace("Z", f"{fraction}Z")


def _in_utc(moment_s: float) -> str:
    return datetime.datetime.fromtimestamp(moment_s, tz=datetime.UTC).isoformat(sep=" ").replace("+00:00", "Z")


def _bad(text: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_QUANTITY,
        tried="read a date with time",
        subject=f"'{text}'",
        happened=happened,
        remedy="Write it such as '2026-03-01 20:00+01:00', or with Z for UTC.",
    )
