"""df: sizes in bytes by the place of the mount; rounded ones are no numbers (M4, P23)."""

from __future__ import annotations

from pathlib import Path

from bridgehead.discovery.parsers.df import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "df"


def parse(data: bytes) -> Parsed:
    return PARSER.parse(Capture("f", data, host="h1"))


def values(parsed: Parsed) -> dict[str, object]:
    return {fact.attribute: fact.value for fact in parsed.facts if fact.status is Status.KNOWN}


def test_bytes_with_types() -> None:
    found = values(parse((FIXTURES / "bytes.txt").read_bytes()))
    assert found["filesystem-source:/home"] == "nas-3:/export/home"
    assert (found["filesystem-size:/home"], found["filesystem-used:/home"]) == (109951162777600, 54975581388800)
    assert found["filesystem-size:/mnt/scratch"] == 2**51
    assert not any("/dev/shm" in attribute for attribute in found), "memory is no store"


def test_kibibytes_with_a_wrapped_name_blanks_in_a_place_and_no_value() -> None:
    parsed = parse((FIXTURES / "kib_wrapped.txt").read_bytes())
    found = values(parsed)
    assert found["filesystem-size:/mnt/project files"] == 976762584 * 1024
    assert found["filesystem-source:/mnt/project files"] == "server-with-a-rather-long-name.example.com:/vol/projects"
    assert found["filesystem-size:/"] == 103081248 * 1024
    assert "filesystem-size:/mnt/stale" not in found
    assert any(fact.attribute == "filesystem-size:/mnt/stale" and "'-'" in fact.note for fact in parsed.facts)


def test_letters_are_rounded_and_no_numbers() -> None:
    parsed = parse((FIXTURES / "letters.txt").read_bytes())
    assert values(parsed) == {"filesystem-source:/data": "nas:/export"}
    assert "df -P -T -B 1" in parsed.skipped[0].reason


def test_units_of_the_head_and_a_cut_line() -> None:
    head, row = b"Filesystem 1MB-blocks Used Available Use% Mounted on\n", b"nas:/x 1000 10 990 1% /x\n"
    assert values(parse(head + row))["filesystem-size:/x"] == 1_000_000_000
    assert values(parse(head.replace(b"1MB", b"1M") + row))["filesystem-size:/x"] == 1000 * 2**20
    assert values(parse((head + row).replace(b"\n", b"\r\n")))["filesystem-size:/x"] == 1_000_000_000
    for end in range(len(row) - 1):
        assert values(parse(head + row[:end])) == {}
