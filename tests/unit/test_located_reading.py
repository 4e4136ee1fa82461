"""Located reading: YAML with places, types from annotations, every fault reported."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from bridgehead.kernel.document import dump, read_document, to_file
from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.located import MAX_NODES, BadFile, Mapping, Mark, Scalar, compose
from bridgehead.kernel.moment import Moment, format_moment, parse_moment
from bridgehead.kernel.quantity import Bytes, Seconds
from bridgehead.kernel.shape import ByKey, Keyed, Ref, shape_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Round(msgspec.Struct, frozen=True, tag="round", tag_field="form"):
    radius_m: float


class Square(msgspec.Struct, frozen=True, tag="square", tag_field="form"):
    side: int


class Item(msgspec.Struct, frozen=True):
    id: str
    size_bytes: Bytes = 0


class Left(msgspec.Struct, frozen=True):
    left: str


class Right(msgspec.Struct, frozen=True):
    right: str


class Everything(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    count: Annotated[int, msgspec.Meta(ge=1, lt=10)] = 1
    ratio: float = 0.0
    flag: bool = False
    wait_s: float = 0.0
    lag_s: Seconds | None = None
    colour: Colour | None = None
    mode: Literal["fast", "slow"] = "fast"
    names: tuple[str, ...] = ()
    pair: tuple[str, int] | None = None
    table: dict[str, int] = {}
    items: Annotated[tuple[Item, ...], Keyed("item")] = ()
    main: Annotated[str, Ref(("item",))] | None = None
    figure: Round | Square | None = None
    side: Annotated[Left | Right, ByKey((("left", Left), ("right", Right)))] | None = None
    begins_s: Moment = 0.0
    free: dict[str, Any] = {}
    site: SiteId = SiteId("here")


def read(text: str) -> Everything:
    return read_document(text, Everything, file="f.yaml", what="test")[0]


def faults(text: str) -> list[str]:
    with pytest.raises(BadFile) as caught:
        read(text)
    return [str(fault).removeprefix("f.yaml:") for fault in caught.value.faults]


WHOLE = """
text: no
count: 3
ratio: 1e-3
flag: true
wait: 1 h 30 min
lag: ~
colour: blue
mode: slow
names: [a, "b", 012]
pair: [x, 7]
table: {a: 1}
items:
  one: {size: 5 TB}
  two: {}
main: two
figure: {form: square, side: 3}
side: {right: up}
begins: 2026-03-01 20:00+01:00
free: {word: no, number: 12, half: 0.5, zero: 012, exponent: 1e3, date: 2026-01-01, flag: true, none: null, quoted: "12", list: [a, 1]}
site: on
"""


def test_every_kind_of_field_is_read() -> None:
    value = read(WHOLE)
    assert value == Everything(
        text="no", count=3, ratio=1e-3, flag=True, wait_s=5400.0, lag_s=None, colour=Colour.BLUE, mode="slow", names=("a", "b", "012"),
        pair=("x", 7), table={"a": 1}, items=(Item("one", 5 * 10**12), Item("two")), main="two", figure=Square(3), side=Right("up"),
        begins_s=parse_moment("2026-03-01 19:00Z"), site=SiteId("on"),
        free={"word": "no", "number": 12, "half": 0.5, "zero": "012", "exponent": "1e3", "date": "2026-01-01", "flag": True, "none": None,
              "quoted": "12", "list": ["a", 1]},
    )  # fmt: skip


def test_what_is_written_reads_back() -> None:
    value = read(WHOLE)
    text = dump(to_file(value, shape_of(Everything)))
    assert read(text) == value
    assert "wait: 1 h 30 min" in text
    assert "size: 5 TB" in text
    assert "flag: true" in text
    assert "\nlag" not in text, "defaults are left out"


@pytest.mark.parametrize(
    "word", ["no", "yes", "on", "off", "y", "012", "0x1f", "1e3", "1_000", "12:30:45", "2026-01-01", ".5", "+1", "NaN"]
)
def test_words_stay_what_their_author_wrote(word: str) -> None:
    assert read(f"text: {word}").text == word


@pytest.mark.parametrize("word", ["yes", "no", "on", "True", "1", '"true"'])
def test_only_true_and_false_are_truth_values(word: str) -> None:
    assert "expected true or false" in faults(f"text: x\nflag: {word}")[0]


@pytest.mark.parametrize("word", ["012", "0x1f", "1e3", "1_000", "1.0", '"3"', "3 s", "٣", "+", "99999999999999999999"])
def test_integers_are_plain(word: str) -> None:
    (fault,) = faults(f"text: x\ncount: {word}")
    assert fault.startswith("2:8: count: found ")


@pytest.mark.parametrize("word", [".inf", "nan", "1e999", "1,5", "012.5", '"1.5"', "many"])
def test_numbers_are_finite(word: str) -> None:
    assert len(faults(f"text: x\nratio: {word}")) == 1


@pytest.mark.parametrize("word", ["", "~", "null", "Null"])
def test_nothing_is_not_a_text(word: str) -> None:
    assert faults(f"text: {word}")[0].endswith("; expected a text")


def test_all_faults_of_a_file_are_reported_in_its_order() -> None:
    text = "count: 11\nratoi: 1\nwait_s: 3\nlag: 5\nmode: fastest\npair: [x]\ntable: {a: b}\nmain: three\nitems: {one: {sise: 1}}\n"
    assert faults(text) == [
        "1:1: text: the key 'text' is missing; expected a text",
        "1:8: count: found '11'; expected at least 1 and less than 10",
        "2:1: ratoi: unknown key 'ratoi'; did you mean 'ratio'?",
        "3:1: wait_s: unknown key 'wait_s'; write 'wait: ...' with a duration such as '30 min'",
        "4:6: lag: found '5': the unit is missing; write a duration with its unit, such as '30 min'",
        "5:7: mode: found 'fastest'; did you mean 'fast'?",
        "6:7: pair: found 1 item; expected a list of 2 items, [a, b]",
        "7:12: table.a: found 'b'; expected a whole number",
        "8:7: main: there is no item 'three'; expected 'one'",
        "9:15: items.one.sise: unknown key 'sise'; did you mean 'size'?",
    ]


def test_unions_say_what_is_possible() -> None:
    assert faults("text: x\nfigure: {form: squar}")[0] == "2:16: figure.form: found 'squar'; did you mean 'square'?"
    assert faults("text: x\nfigure: {side: 3}")[0] == "2:9: figure.form: the key 'form' is missing; expected one of round, square"
    assert (
        faults("text: x\nside: {left: a, right: b}")[0]
        == "2:17: side: found 'left' and 'right' together; expected exactly one of left, right"
    )
    assert faults("text: x\nside: left")[0] == "2:7: side: found 'left'; expected a mapping with one of left, right"
    assert faults("text: x\ncolour: green")[0] == "2:9: colour: found 'green'; expected one of blue, red"


def test_anchors_and_merges_work_and_own_keys_win() -> None:
    value = read("text: x\nitems:\n  a: &a {size: 1 GB}\n  b: *a\n  c:\n    <<: *a\n    size: 2 GB\n")
    assert [item.size_bytes for item in value.items] == [10**9, 10**9, 2 * 10**9]


def test_aliases_cannot_explode() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    with pytest.raises(BadFile, match="aliases that expand to more than"):
        compose(bomb, file="f.yaml", what="test")


def test_a_large_document_without_aliases_is_no_bomb() -> None:
    node = compose("x: [" + "1," * (MAX_NODES + 1) + "]\n", file="f.yaml", what="test")
    assert isinstance(node, Mapping)


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 2000, "- " * 3000 + "x", "a: &x [*x]"])
def test_deep_structures_are_refused_and_not_a_crash(text: str) -> None:
    with pytest.raises(BadFile):
        compose(text, file="f.yaml", what="test")


def test_places_count_from_one_and_keys_are_found() -> None:
    node = compose("# comment\na:\n  b: c\n", file="f.yaml", what="test")
    assert isinstance(node, Mapping)
    inner = node.get("a")
    assert isinstance(inner, Mapping)
    assert inner.get("b") == Scalar("c", True, Mark(3, 6))
    assert inner.get("x") is None


def test_an_empty_file_is_a_fault() -> None:
    assert faults("# nothing\n") == ["1:1: the file is empty; expected a mapping with text"]


def test_moments_need_a_zone() -> None:
    assert format_moment(parse_moment("2026-03-01 20:00+01:00")) == "2026-03-01 19:00:00Z"
    assert "the zone is missing" in faults("text: x\nbegins: 2026-03-01 20:00")[0]
    assert "it is no date with time" in faults("text: x\nbegins: tomorrow")[0]


def test_types_that_no_document_can_hold_are_a_programming_error() -> None:
    with pytest.raises(TypeError, match="no document can hold"):
        shape_of(complex)
    with pytest.raises(TypeError, match="cannot be told apart"):
        shape_of(int | str)
