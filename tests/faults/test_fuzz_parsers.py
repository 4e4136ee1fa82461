"""The fuzzer of parsers itself: it accepts the samples, tries much, and finds a parser that raises, runs away or states nonsense (M2)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.testing import fuzz_parsers

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
FOUND = fuzz_parsers.samples(FIXTURES)


def test_changes_are_the_same_for_a_seed_and_differ_for_another() -> None:
    texts = [data for some in FOUND.values() for data in some if len(data) < 20_000]

    def made(seed: int) -> list[bytes]:
        chance = random.Random(seed)
        return [fuzz_parsers.changed(chance.choice(texts), chance, texts) for _ in range(60)]

    assert made(3) == made(3)
    assert made(3) != made(4)


def test_a_moment_with_each_parser_finds_nothing() -> None:
    said: list[str] = []
    found = list(fuzz_parsers.faults(FIXTURES, seed=11, seconds=0.1, say=said.append))
    assert [(tool, data[:200], error) for tool, data, error in found] == []
    assert len(said) == len(FOUND)


def stated(value: object, *, line: int = 1, attribute: str = "x", unit: str = "") -> Callable[[Capture], Parsed]:
    def parse(capture: Capture) -> Parsed:
        say = Statements("t", capture)
        say.known("node:a", attribute, value, line=line, unit=unit)  # type: ignore[arg-type]  # nonsense is the point
        return say.done()

    return parse


def slow(capture: Capture) -> Parsed:
    end_s = time.process_time() + 0.6
    while time.process_time() < end_s:
        pass
    return Parsed(())


def raising(capture: Capture) -> Parsed:
    raise IndexError("out of range")


@pytest.mark.parametrize(
    ("parse", "complaint"),
    [
        (stated(float("inf")), "not finite"),
        (stated(1, line=3), "not a line of 2"),
        (stated(1, attribute="y"), "not in its yields"),
        (stated(1, unit="W"), "not in its yields"),
        (slow, "took"),
        (raising, "out of range"),
    ],
)
def test_a_broken_parser_is_found(parse: Callable[[Capture], Parsed], complaint: str) -> None:
    broken = Parser("t", "t", lambda _head: True, parse, (Yield("node:*", "x", "", ""),))
    with pytest.raises((AssertionError, IndexError), match=complaint):
        fuzz_parsers.check(broken, b"a\nb")
    fuzz_parsers.check(Parser("t", "t", lambda _head: True, stated(1), broken.yields), b"a\nb")


def test_an_offending_input_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Parser("t", "t", lambda head: head.startswith(b"only this"), raising, ())
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "sample").write_bytes(b"only this\n")
    monkeypatch.setattr(fuzz_parsers, "parsers", lambda: (broken,))
    monkeypatch.setattr(fuzz_parsers.resource, "setrlimit", lambda *_: None)
    code = fuzz_parsers.main(["--samples", str(tmp_path / "in"), "--seconds", "0.2", "--seed", "1", "--output", str(tmp_path / "out")])
    assert code == 1
    assert "t: IndexError: out of range; seed 1" in capsys.readouterr().out
    assert 1 <= len(list((tmp_path / "out").iterdir())) <= 5
