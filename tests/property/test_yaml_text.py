"""Our YAML is PyYAML's, byte for byte (kernel.yamltext)."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridgehead.kernel.yamltext import _by_pyyaml, yaml_text

words = st.text(max_size=12) | st.text(alphabet=" abc:#-[]{}&*!|>'\"%@`,?\n\t01.", max_size=90) | st.sampled_from(
    ("", "null", "yes", "1e3", "0x10", "12:30", "0000:43:00.0", "2026-11-30", "~", "=", "- a", "a: b", "a #b",
     "word " * 40, "x" * 200, "\u00e9", "\ud7ff")
)  # fmt: skip
scalars = words | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(words, inner, max_size=5), max_leaves=25)


@given(st.dictionaries(words, values, max_size=6))
@settings(max_examples=300)
@example({"a": {}, "b": [], "c": [{}], "d": [[1]], "e": [{"x": 1, "y": {"z": [1, True, 1.0]}}, {"x": []}]})
@example({"a": 1, "b": True, "c": 1.0, "d": [1, True, 1.0, "1", "true"]})
@example(
    {
        "deep": {
            "er": {"and": {"er": {"words": "some words that are long enough to be folded, if they begin far to the right of it all" * 2}}}
        }
    }
)
@example({"x": ["word word word"] * 30})
def test_same_bytes_as_pyyaml(data: dict[str, Any]) -> None:
    assert yaml_text(data) == _by_pyyaml(data)
