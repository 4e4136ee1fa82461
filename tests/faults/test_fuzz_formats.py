"""The fuzzer itself: it accepts what our writers make, it tries different things, and it finds a parser that breaks (V12)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bridgehead.testing import fuzz_formats
from bridgehead.vault.formats import Contents, Extent


@pytest.mark.parametrize("given", fuzz_formats.samples(), ids=lambda given: next(iter(given)))
def test_valid_samples_are_read(given: fuzz_formats.Input) -> None:
    fuzz_formats.check(given)


def test_a_few_seconds_find_nothing_and_try_much() -> None:
    said: list[str] = []
    assert list(fuzz_formats.run(seed=7, seconds=3, say=said.append)) == []
    assert int(said[-1].split()[0]) > 200


def test_changes_are_the_same_for_a_seed() -> None:
    seeds = fuzz_formats.samples()

    def made(seed: int) -> list[fuzz_formats.Input]:
        chance = random.Random(seed)
        return [fuzz_formats.changed(chance.choice(seeds), chance, seeds) for _ in range(200)]

    assert made(3) == made(3)
    assert made(3) != made(4)


def test_a_broken_parser_is_found_and_its_input_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = fuzz_formats.examine

    def broken(path: str, size: int, read: object) -> Contents:
        contents = real(path, size, read)  # type: ignore[arg-type]  # as it is called
        if size == 3:
            raise IndexError("out of range")
        return Contents(header_bytes=1, extents=(Extent(0, size + 1),)) if size == 5 else contents

    monkeypatch.setattr(fuzz_formats, "examine", broken)
    monkeypatch.setattr(fuzz_formats.resource, "setrlimit", lambda *_: None)
    assert fuzz_formats.main(["--seconds", "5", "--seed", "1", "--output", str(tmp_path)]) == 1
    assert "IndexError: out of range; seed 1" in capsys.readouterr().out
    assert any(path.stat().st_size == 3 for path in tmp_path.rglob("*") if path.is_file())
