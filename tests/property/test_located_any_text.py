"""Whatever a file holds: it is read, or refused with faults that have places; nothing else is raised."""

from __future__ import annotations

from collections.abc import Callable

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.app.wiring import action_params, driver_options
from bridgehead.kernel.located import BadFile, Fault
from bridgehead.model.estatefile import read_estate
from bridgehead.model.policy import read_policy
from bridgehead.runbook.language import read_runbook

WORDS = st.sampled_from(
    ["estate", "sites", "site-a", "links", "between", "workloads", "policy", "source", "steps", "runbook", "id", "gate", "action", "with",
     "traffic.shift", "weights", "deadline", "30 min", "5 TB", "no", "null", "12", "1.5", "&a", "*a", "<<", "[", "]", "{", "}", ":", "-",
     "\n", "  ", ", ", "'", '"', "#", "!!set", "\t", "---", "|", ">", "driver", "connections", "scheduler", "process", "needs", "%", "é",
     "\x00"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | WORDS
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5), max_leaves=25)


def faults(read: Callable[[], object]) -> tuple[Fault, ...]:
    """What is wrong; at least one fault when the file is refused."""
    try:
        read()
    except BadFile as error:
        return error.faults or (Fault("f", 0, 0, "", "", ""),)
    return ()


def check(text: str) -> None:
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 1
    for read in (
        lambda: read_estate(text, file="f", drivers=driver_options()),
        lambda: read_policy(text, file="f"),
        lambda: read_runbook(text, file="f", actions=action_params()),
    ):
        for fault in faults(read):
            assert 1 <= fault.line <= lines + 1
            assert fault.column >= 1
            assert fault.found
            assert fault.expected


@given(st.lists(WORDS, max_size=30).map(" ".join))
def test_any_words(text: str) -> None:
    check(text)


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check(text)


@settings(max_examples=60)
@given(TREES)
def test_any_tree(tree: object) -> None:
    check(yaml.safe_dump(tree))
