"""Parsers of measurements and logs: no bytes make them raise, and a capture that is cut gives no number that is not in it (D02, D05)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers import bridgehead_collect, iperf3, kernel_log, nccl_tests
from bridgehead.discovery.parsing import Capture, Parser
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
PARSERS = {parser.tool: parser for parser in (nccl_tests.PARSER, iperf3.PARSER, kernel_log.PARSER, bridgehead_collect.PARSER)}
FILES = {
    "nccl-tests": (FIXTURES / "nccl-tests/h100_4gpu_allreduce.txt").read_bytes(),
    "iperf3": (FIXTURES / "iperf3/wan_two_streams.json").read_bytes(),
    "kernel-log": (FIXTURES / "syslog/dmesg_xid_119.log").read_bytes(),
    "bridgehead-collect": b"# bridgehead collect 1\nhost gpu01\nat 1796025600\ntool lspci ran\ntool ibstat failed with 1: no device\n",
}
COUNTED = re.compile(r"ranks|hosts|(?:xid|carrier-lost)-seen(?:-at-least)?(?::\d+)?")
"""Attributes that count lines: the count itself is not in the file."""


@pytest.mark.parametrize("tool", PARSERS)
@given(data=st.binary(max_size=2000) | st.text(max_size=500).map(str.encode))
def test_any_bytes(tool: str, data: bytes) -> None:
    parser = PARSERS[tool]
    parser.recognises(data)
    merge(parser.parse(Capture("f", data)).facts)


@pytest.mark.parametrize("tool", PARSERS)
@given(data=st.data())
def test_any_cut_and_any_damage(tool: str, data: st.DataObject) -> None:
    whole = FILES[tool]
    start, end = sorted(data.draw(st.lists(st.integers(0, len(whole)), min_size=2, max_size=2)))
    wreck = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    PARSERS[tool].recognises(wreck)
    merge(PARSERS[tool].parse(Capture("f", wreck)).facts)


def numbers(parser: Parser, data: bytes) -> dict[tuple[str, str], object]:
    """Number by subject and attribute: not those that count lines, and without the run's part of the subject, which a cut takes away."""
    return {
        (fact.subject.partition("/")[2].partition("@")[0].partition(":")[0], fact.attribute): fact.value
        for fact in parser.parse(Capture("f", data, "h1")).facts
        if fact.status is Status.KNOWN and isinstance(fact.value, int | float) and not COUNTED.fullmatch(fact.attribute)
    }


@pytest.mark.parametrize("tool", PARSERS)
@given(data=st.data())
def test_what_is_cut_off_gives_no_other_number(tool: str, data: st.DataObject) -> None:
    whole = FILES[tool]
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    # A peak of fewer rows is another peak; its number is in the file all the same.
    full = numbers(PARSERS[tool], whole)
    for key, value in numbers(PARSERS[tool], cut).items():
        assert value == full[key] or ("peak" in key[1] and value in full.values())
