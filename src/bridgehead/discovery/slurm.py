"""Slurm's ways to write values: GRES and TRES, sizes, durations, sentinels, states. Pure (cases D16, D17)."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from bridgehead.discovery.parsing import number_in

SENTINELS: Final = {
    2**32 - 2: "NO_VAL",
    2**32 - 1: "INFINITE",
    2**64 - 2: "NO_VAL64",
    2**64 - 1: "INFINITE64",
    -1: "INFINITE",
    -2: "NO_VAL",
}
"""Numbers that mean that there is no value, or no limit."""
SENTINELS_16: Final = {65534: "NO_VAL16", 65535: "INFINITE16"}
"""The same of fields that have 16 bits, such as counts of CPUs."""
_MOST: Final = 2**64 - 1
NO_WORDS: Final = frozenset({"", "(null)", "null", "n/a", "n/s", "none", "unknown", "*", "invalid", "not_set", "(none)", "none assigned"})
"""What Slurm prints where there is no word, in lower case."""
UNLIMITED_WORDS: Final = frozenset({"unlimited", "infinite"})
_FACTORS: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_SIZE: Final = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)([KMGTPE]?)(?:i?B)?([cn]?)", re.ASCII)
_DURATION: Final = re.compile(r"(?:(\d{1,7})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,2})(?:\.\d{1,6})?", re.ASCII)
_DAYS_HOURS: Final = re.compile(r"(\d{1,7})-(\d{1,2})", re.ASCII)
_GPU: Final = re.compile(r"(?:gres[/:])?gpu((?:[:=][^:=(),]{1,80}){0,3})(?:\(.*)?", re.ASCII)
JOB_STATES: Final = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RD": "RESV_DEL_HOLD",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "TO": "TIMEOUT",
}
"""States of jobs by the short codes of squeue."""


class Gpus(msgspec.Struct, frozen=True):
    """GPUs of a GRES or TRES list: how many, and the types that are named, sorted."""

    count: int
    types: tuple[str, ...] = ()


def gpus_in(text: str) -> Gpus | None:
    """The GPUs of ``gpu:a100:8(S:0-3),mps:400`` or ``cpu=8,gres/gpu=4,gres/gpu:a100=4``; none of them is a count of 0.

    None where a GPU has no count: the list may be cut. An entry without a type is the sum of those with one, and counts alone (D17).
    """
    bare: int | None = None
    typed: dict[str, int] = {}
    for part in map(str.strip, parts(text)):
        found = _GPU.fullmatch(part)
        if found is None:
            if part.startswith(("gpu", "gres/gpu", "gres:gpu")) and not part.startswith(
                ("gpumem", "gres/gpumem", "gres/gpuutil", "gpuutil")
            ):
                return None
            continue
        words = [word for word in re.split(r"[:=]", found[1])[1:] if word != "no_consume"]
        if not words or not re.fullmatch(r"\d{1,6}", words[-1], re.ASCII) or len(words) > 2:
            return None
        if len(words) == 1:
            bare = (bare or 0) + int(words[0])
        else:
            typed[words[0]] = typed.get(words[0], 0) + int(words[1])
    return Gpus(sum(typed.values()) if bare is None else bare, tuple(sorted(typed)))


def tres_in(text: str) -> dict[str, str]:
    """The entries of ``cpu=16,mem=192G,gres/gpu=8``."""
    return {name: value for name, sign, value in (part.partition("=") for part in text.split(",")) if sign}


def size_bytes(text: str) -> int | None:
    """Bytes of ``257860M``, ``62.50G`` or ``2000Mc``; powers of 1024; a bare number is in MiB. None for what is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    value = number_in(found[1], scale=_FACTORS[found[2] or "M"])
    return None if value is None else round(value)


def duration_s(text: str) -> int | None:
    """Seconds of ``2-00:00:00``, ``01:30:00`` or ``30:00``; None for what is none. Fractions of seconds are left out."""
    word = text.strip()
    found = _DAYS_HOURS.fullmatch(word)
    if found is not None:
        return int(found[1]) * 86_400 + int(found[2]) * 3_600
    found = _DURATION.fullmatch(word)
    if found is None or int(found[4]) > 59 or (found[2] is not None and int(found[3]) > 59):
        return None
    if found[1] is not None and found[2] is None:  # days-hours:minutes
        return int(found[1]) * 86_400 + int(found[3]) * 3_600 + int(found[4]) * 60
    return int(found[1] or 0) * 86_400 + int(found[2] or 0) * 3_600 + int(found[3]) * 60 + int(found[4])


class Amount(msgspec.Struct, frozen=True):
    """A number of JSON; None where there is none, and ``note`` says what was printed. ``unlimited``: it is a limit that is not there."""

    value: int | float | None
    note: str = ""
    unlimited: bool = False


def amount_in(value: Any, *, narrow: bool = False) -> Amount:
    """The number in any of the shapes that the versions of Slurm's JSON have: bare, with sentinels, null, or ``{set, infinite, number}``.

    Args:
        narrow: the field has 16 bits, so that 65534 and 65535 are sentinels.
    """
    if isinstance(value, dict) and isinstance(value.get("number"), int | float | None):
        if value.get("infinite") is True:
            return Amount(None, "the tool printed infinite", unlimited=True)
        if value.get("set") is not True or value.get("number") is None:
            return Amount(None, "the tool printed a number that is not set")
        value = value["number"]
    if isinstance(value, str):
        if value.strip().lower() in UNLIMITED_WORDS:
            return Amount(None, f"the tool printed {value.strip()!r}", unlimited=True)
        number = number_in(value)
        return Amount(None, f"the tool printed {value[:80]!r}") if number is None else amount_in(number, narrow=narrow)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Amount(None, f"the tool printed {'null' if value is None else f'{value!r:.80}'}")
    if not -_MOST <= value <= _MOST:
        return Amount(None, "the tool printed a number of more than 64 bits")
    word = SENTINELS.get(int(value), "") if value == int(value) else ""
    word = word or (SENTINELS_16.get(int(value), "") if narrow else "")
    if word:
        return Amount(None, f"the tool printed {value}, which is {word}", unlimited=word.startswith("INFINITE"))
    return Amount(value) if value >= 0 else Amount(None, f"the tool printed {value}")


def state_of(value: Any, flags: Any = ()) -> str:
    """A state as ``scontrol`` writes it: base and flags joined by ``+``. Of a list, of a word with flags beside it, of a text; empty where
    there is none. ``CANCELLED by 1001`` and ``COMPLETED*`` are the words without what follows."""
    words = value if isinstance(value, list) else [value]
    more = flags if isinstance(flags, list) else []
    found = [str(word).strip().upper() for word in [*words, *more] if isinstance(word, str) and word.strip()]
    return "+".join(dict.fromkeys(found))


def parts(text: str) -> list[str]:
    """The parts between the commas that are in no parentheses or brackets."""
    found, start, depth = [], 0, 0
    for sign in re.finditer(r"[()\[\],]", text):
        if sign[0] in "([":
            depth += 1
        elif sign[0] in ")]":
            depth = max(0, depth - 1)
        elif depth == 0:
            found.append(text[start : sign.start()])
            start = sign.end()
    return [*found, text[start:]]
