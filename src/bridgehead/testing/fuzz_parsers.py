"""A fuzzer for the parsers of discovery: ``python -m bridgehead.testing.fuzz_parsers --samples DIR --seconds N --seed S [--tool NAME]``.

Samples of captured output are changed at random and read, for so many seconds with each parser. Whatever the bytes are, a parser must not
raise, must end in time that grows with the input, and must state facts that are well formed, finite and declared in its ``yields`` (M2).
An input that breaks this is written to a file, with the seed that made it.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import pkgutil
import random
import re
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.discovery import parsers as package
from bridgehead.discovery.hostlist import MAX_HOSTS
from bridgehead.discovery.merge import merge
from bridgehead.discovery.packing import pack
from bridgehead.discovery.parsing import Capture, Parser, for_marks
from bridgehead.discovery.recognise import HEAD_BYTES, recognised_by
from bridgehead.model.fact import Fact, Status

MEMORY_BYTES: Final = 2 << 30
SLOW_S: Final = 0.5
SLOW_S_PER_BYTE: Final = 20e-6
"""An input that takes more than ``SLOW_S`` and so much for each of its bytes, in time of the processor, has run away."""
MOST_FACTS: Final = 4 * MAX_HOSTS
"""A list of hosts may stand for so many names, and a row of a table says a few things of each."""
_GROWN_BYTES: Final = 300_000
_TEXTS: Final = (
    *(
        b"N/A",
        b"ERR!",
        b"[N/A]",
        b"(null)",
        b"\t",
        b"\r\n",
        b"\r",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xc3\xa9",
        b"\xd9\xa3",
        b"\x1b[1m",
    ),
    *(
        b"9223372036854775794",
        b"9" * 400,
        b"1e999",
        b"-1",
        b"NaN",
        b"Infinity",
        b"0x10",
        b"1_000",
        b"1,5",
        b"00",
        b"1e308",
        b"[0-99999999]",
    ),
    *(
        b"[1-3,7-9]" * 6,
        b"{" * 2000,
        b"[" * 2000,
        b"<a>" * 2000,
        b"<!DOCTYPE x [<!ENTITY a 'b'>]>&a;",
        b'"',
        b"'",
        b"\\",
        b"\\ud800",
        b"null",
    ),
    *(b"true", b"{}", b"[]", b"=", b":", b"#", b"/", b"..", b" " * 500, b"*", b"&a", b"!!python/object", b"\n"),
)
Fault = tuple[str, bytes, BaseException]
"""Tool, input, and what happened."""


@cache
def parsers() -> tuple[Parser, ...]:
    """All that there are: the list of them is in a layer above this one."""
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return tuple(import_module(f"{package.__name__}.{name}").PARSER for name in names)


def samples(folder: Path) -> dict[str, list[bytes]]:
    """The files below the folder, by the tool that recognises them; others and those that several recognise are left out."""
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            tools = recognised_by(data, parsers())
            if len(tools) == 1:
                found[tools[0].tool].append(data)
    return dict(found)


def changed(given: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """One to six changes; and sometimes a part that is repeated until the input is large, which shows time that grows with its square."""
    data = given
    for _ in range(chance.randint(1, 6)):
        data = _hurt(data, chance, others)
    if chance.random() < 0.05 and data:
        start = chance.randrange(len(data))
        part = data[start : start + chance.choice((1, 2, 10, 100, 2000))]
        room = max(0, _GROWN_BYTES - len(data))
        data = data[:start] + part * (room // max(1, len(part))) + data[start:]
    return data


def _hurt(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice((1, 1, 2, 4, 8, 50, 1000)))
    match chance.randrange(11):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:end] + data[at:]
        case 3 | 4:
            return data[:at] + chance.choice(_TEXTS) + data[end:]
        case 5:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            return data[:at] + other[start : start + chance.choice((10, 100, 3000))] + data[end:]
        case 6:
            return data[:at] + chance.randbytes(end - at) + data[end:]
        case 7:
            return b"".join(_without_one(data.splitlines(keepends=True), chance))
        case 8:
            return _other_number(data, chance)
        case 9:
            return data.replace(b"\n", b"\r\n") if chance.random() < 0.5 else data.replace(b"  ", b"\t")
        case _:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if at < len(data) else data


def _without_one(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """A line less, or two that change places."""
    if len(lines) > 1:
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        if chance.random() < 0.5:
            del lines[one]
        else:
            lines[one], lines[other] = lines[other], lines[one]
    return lines


def _other_number(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    found = re.compile(rb"\d+").search(data, at)
    if found is None:
        return data
    return data[: found.start()] + chance.choice((b"", b"0", b"-1", b"1.5", b"N/A", b"9" * 25, b"[1-9999999]")) + data[found.end() :]


def check(parser: Parser, data: bytes) -> None:
    """Read it and look at what was said. Raises AssertionError, or whatever the parser lets out."""
    began_s = time.process_time()
    parsed = parser.parse(Capture("f", data, "h1", 1.0))
    took_s = time.process_time() - began_s
    assert took_s < SLOW_S + SLOW_S_PER_BYTE * len(data), f"{len(data)} bytes took {took_s:.2f} s"
    assert len(parsed.facts) < MOST_FACTS + len(data), f"{len(data)} bytes gave {len(parsed.facts)} facts"
    last = max(len(Capture("f", data).lines), 1)
    for fact in parsed.facts:
        _check_fact(parser, fact, last)
    for skipped in parsed.skipped:
        assert 1 <= skipped.line <= last, f"line {skipped.line} of {last}: {skipped}"
        assert skipped.reason, "no reason"
    msgspec.json.encode(parsed)
    pack(parsed.facts)
    merge(parsed.facts)


def check_marks(parser: Parser, head: bytes) -> None:
    """Whatever it recognises has one of its marks. Raises AssertionError, or whatever the parser lets out."""
    if parser.recognises(head):
        assert parser.takes(head, for_marks(head)), f"{parser.tool} recognises what has none of its marks"


def _check_fact(parser: Parser, fact: Fact, last: int) -> None:
    assert fact.subject, "no subject"
    assert fact.attribute, "no attribute"
    assert (fact.value is None) == (fact.status is Status.UNKNOWN), f"value and status disagree: {fact}"
    assert fact.status is Status.KNOWN or fact.note, f"no note: {fact}"
    assert not isinstance(fact.value, float) or math.isfinite(fact.value), f"not finite: {fact}"
    assert fact.source.tool == parser.tool, f"another tool: {fact}"
    assert 1 <= fact.source.line <= last, f"not a line of {last}: {fact}"
    assert any(
        _fits(fact.attribute, one.attribute) and _fits(fact.subject, one.subject) and one.unit in (fact.unit, "*") for one in parser.yields
    ), f"not in its yields: {fact}"


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(text))


def _fits(text: str, pattern: str) -> bool:
    return text == pattern or ("*" in pattern and _pattern(pattern).match(text) is not None)


def run(
    parser: Parser, given: Sequence[bytes], others: Sequence[bytes], *, seed: int, seconds: float
) -> Iterator[bytes | BaseException | int]:
    """Try until the time is over. Yields each input that broke the promise followed by what happened, and at last how many were tried."""
    chance, pool, tried = random.Random(f"{seed} {parser.tool}"), list(given), 0
    everybody, end_s = parsers(), time.monotonic() + seconds
    while time.monotonic() < end_s:
        data = changed(chance.choice(pool), chance, others)
        try:
            check(parser, data)
            for other in everybody:
                check_marks(other, data[:HEAD_BYTES])
        except (Exception, MemoryError) as error:
            yield data
            yield error
        tried += 1
        if chance.random() < 0.02 and len(data) < 20_000:  # changes pile up
            pool = [*pool[-200:], *given, data]
    yield tried


def faults(folder: Path, *, seed: int, seconds: float, tool: str = "", say: Callable[[str], None]) -> Iterator[Fault]:
    """What breaks the promise, of each parser that has a sample (or of the one that is named), ``seconds`` for each."""
    found = samples(folder)
    others = [data for some in found.values() for data in some if len(data) < 50_000]
    for parser in parsers():
        if (tool and parser.tool != tool) or parser.tool not in found:
            continue
        pending = b""
        for event in run(parser, found[parser.tool], others, seed=seed, seconds=seconds):
            match event:
                case bytes():
                    pending = event
                case int():
                    say(f"{parser.tool}: {event} inputs, seed {seed}")
                case _:
                    yield parser.tool, pending, event


def main(arguments: list[str]) -> int:
    """0 when nothing was found, 1 otherwise."""
    options = argparse.ArgumentParser(prog="fuzz_parsers", description="Change samples of captured output at random and read them.")
    options.add_argument("--samples", type=Path, required=True, help="folder of captured output")
    options.add_argument("--seconds", type=float, default=10, help="for each parser")
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--tool", default="", help="only this parser")
    options.add_argument("--output", type=Path, default=Path("fuzz-found"), help="folder for offending inputs")
    given = options.parse_args(arguments)
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    found: defaultdict[str, int] = defaultdict(int)
    for tool, data, error in faults(
        given.samples, seed=seed, seconds=given.seconds, tool=given.tool, say=lambda text: print(text, flush=True)
    ):
        found[tool] += 1
        if found[tool] > 5:  # more of one parser say the same again
            continue
        given.output.mkdir(parents=True, exist_ok=True)
        path = given.output / f"{tool}-{seed}-{found[tool]}"
        path.write_bytes(data)
        print(f"{tool}: {type(error).__name__}: {str(error)[:300]}; seed {seed}; the input is {path}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
