"""M2: each sample is recognised by exactly one parser, by its content; every parser is listed, and declares what it says."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

from bridgehead.app.parsers import MODULES, parsers
from bridgehead.discovery.parsing import Capture, Parser
from bridgehead.discovery.recognise import first_words, read_capture, recognised_by
from bridgehead.model.fact import Status

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "discovery"
SAMPLES = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.name != "SOURCES.md")
PARSER_FILES = sorted(path.stem for path in (ROOT / "src/bridgehead/discovery/parsers").glob("*.py") if path.stem != "__init__")


def capture(path: Path) -> Capture:
    return Capture(str(path), path.read_bytes(), host="h1")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_sample_is_recognised_by_exactly_one_parser(path: Path) -> None:
    tools = [parser.tool for parser in recognised_by(path.read_bytes(), parsers())]
    assert len(tools) == 1, tools


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_facts_of_sample_are_declared_and_well_formed(path: Path) -> None:
    [parser] = recognised_by(path.read_bytes(), parsers())
    lines = capture(path).lines
    for fact in parser.parse(capture(path)).facts:
        assert any(
            fnmatch.fnmatchcase(fact.subject, one.subject) and fnmatch.fnmatchcase(fact.attribute, one.attribute) and fact.unit == one.unit
            for one in parser.yields
        ), f"not in its yields: {fact}"
        assert (fact.value is None) == (fact.status is Status.UNKNOWN)
        assert fact.status is Status.KNOWN or fact.note
        assert 1 <= fact.source.line <= len(lines)


def test_every_sample_has_a_line_that_says_where_it_is_from() -> None:
    text = (FIXTURES / "SOURCES.md").read_text(encoding="utf-8")
    assert [str(path.relative_to(FIXTURES)) for path in SAMPLES if f"| {path.relative_to(FIXTURES)} |" not in text] == []


def test_parsers_are_listed_once_and_sorted() -> None:
    assert list(MODULES) == PARSER_FILES
    tools = [parser.tool for parser in parsers()]
    assert len(set(tools)) == len(tools)


def claims_all(tool: str) -> Parser:
    found = parsers()[0]
    return Parser(tool, "x", lambda _head: True, found.parse, ())


def test_several_parsers_are_a_finding_and_none_is_believed() -> None:
    tool, parsed = read_capture(Capture("f", b"words"), [claims_all("a"), claims_all("b")])
    assert (tool, parsed.facts) == ("", ())
    assert "several parsers recognise it (a, b)" in parsed.skipped[0].reason


def test_what_nobody_recognises_is_named_by_its_first_words() -> None:
    tool, parsed = read_capture(Capture("f", b"\xff\x00{\n  some words\x1b[1m here"), parsers())
    assert tool == ""
    assert parsed.skipped[0].reason.startswith("no parser recognises it; it begins with")
    assert "some words" in parsed.skipped[0].reason
    assert "\x1b" not in parsed.skipped[0].reason
    assert read_capture(Capture("f", b" \n"), parsers())[1].skipped[0].reason == "it is empty"
    assert len(first_words(b"word " * 1000)) < 70


def test_escapes_of_a_terminal_inside_of_a_mark_hide_nothing() -> None:
    heading = b"| GPU ID | Device Information                         |\n"
    for text in (heading, heading.replace(b"Device", b"Devi\x1b[1mce"), heading.replace(b"Inform", b"Infor\x1b[0mm")):
        assert [parser.tool for parser in recognised_by(text, parsers())] == ["dcgmi-discovery"]
