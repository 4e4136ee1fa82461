"""Every parser, whatever its tool: no bytes, no cut and no damage of any sample makes it raise or state what is malformed (M2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.app.parsers import parsers
from bridgehead.discovery.parsing import Parser
from bridgehead.discovery.recognise import HEAD_BYTES, recognised_by
from bridgehead.testing.fuzz_parsers import check, check_marks

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
SAMPLES = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.name != "SOURCES.md")
SMALL = [data for path in SAMPLES if len(data := path.read_bytes()) < 20_000]


@pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.tool)
@given(data=st.binary(max_size=1000) | st.text(max_size=500).map(str.encode))
@settings(max_examples=50)
def test_any_bytes(parser: Parser, data: bytes) -> None:
    check_marks(parser, data)
    check(parser, data)


@pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.tool)
@given(data=st.sampled_from(SMALL))
@settings(max_examples=50)
def test_output_of_any_other_tool(parser: Parser, data: bytes) -> None:
    check(parser, data)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(FIXTURES)))
@given(draw=st.data())
@settings(max_examples=40)
def test_any_cut_and_any_damage(path: Path, draw: st.DataObject) -> None:
    whole = path.read_bytes()
    [parser] = recognised_by(whole, parsers())
    start, end = sorted(draw.draw(st.lists(st.integers(0, len(whole)), min_size=2, max_size=2)))
    for wreck in (whole[:start], whole[start:end], whole[:start] + draw.draw(st.binary(max_size=20)) + whole[end:]):
        for one in parsers():
            check_marks(one, wreck[:HEAD_BYTES])
        check(parser, wreck)
