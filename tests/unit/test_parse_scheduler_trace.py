"""Traces of GPU clusters as CSV: parts of a GPU, cells that are empty, columns in another order, files that are cut (M2, M5.2)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.discovery.parsers import gpu_trace
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "traces"
NODES, PODS = (FIXTURES / "nodes.csv").read_bytes(), (FIXTURES / "pods.csv").read_bytes()


def parse(data: bytes | str) -> Parsed:
    raw = data if isinstance(data, bytes) else data.encode()
    assert gpu_trace.PARSER.recognises(raw)
    return gpu_trace.PARSER.parse(Capture("f", raw, "h1"))


def facts(parsed: Parsed) -> dict[tuple[str, str], Fact]:
    found = {(fact.subject, fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)  # nothing is said twice
    return found


def said(parsed: Parsed, name: str) -> dict[str, Any]:
    return {attribute: fact.value for (subject, attribute), fact in facts(parsed).items() if subject == name}


def column(parsed: Parsed, attribute: str) -> list[Any]:
    return [fact.value for fact in parsed.facts if fact.attribute == attribute]


def test_nodes_their_gpus_and_models() -> None:
    parsed = parse(NODES)
    assert parsed.skipped == ()
    assert sum(column(parsed, "gpu-capacity")) == 18
    assert Counter(column(parsed, "gpu-model")) == {"G9": 2, "T4": 1}
    assert said(parsed, "node:tr-node-02") == {
        "scheduler-cpu-count": 32.5,
        "memory": 131072 * 2**20,
        "gpu-capacity": 2,
        "gpu-model": "T4",
    }
    assert said(parsed, "node:tr-node-03")["gpu-capacity"] == 0
    assert "gpu-model" not in said(parsed, "node:tr-node-03")
    assert facts(parsed)["node:tr-node-02", "memory"].source.line == 4


def test_pods_their_phases_and_gpus() -> None:
    parsed = parse(PODS)
    assert parsed.skipped == ()
    assert sum(column(parsed, "gpu-count")) == 10
    assert Counter(column(parsed, "phase")) == {"Running": 1, "Failed": 1, "Pending": 1, "Succeeded": 1}
    assert said(parsed, "workload:default/tr-pod-01") == {
        "kind": "Pod",
        "cpu-count": 3.152,
        "memory-requested": 5600 * 2**20,
        "gpu-count": 1,
        "gpu-share": 0.46,
        "qos": "BE",
        "phase": "Failed",
        "created-after": 70,
        "scheduled-after": 72,
        "deleted-after": 95,
    }


def test_thousandths_below_1000_are_a_part_of_one_gpu() -> None:
    found = facts(parse(PODS))
    assert found["workload:default/tr-pod-00", "gpu-share"].value == 1
    assert found["workload:default/tr-pod-01", "gpu-share"].value == 0.46
    assert found["workload:default/tr-pod-02", "gpu-share"].value == 1
    assert ("workload:default/tr-pod-03", "gpu-share") not in found  # it asks for none


@pytest.mark.parametrize(("count", "milli"), [("2", "500"), ("1", "0"), ("1", "1500")])
def test_a_part_that_cannot_be_is_a_conflict(count: str, milli: str) -> None:
    text = f"name,cpu_milli,memory_mib,num_gpu,gpu_milli,pod_phase\np,1000,1,{count},{milli},Running\n"
    assert facts(parse(text))["workload:default/p", "gpu-share"].status is Status.CONFLICT


def test_empty_times_are_unknown_and_zero_is_a_time() -> None:
    found = facts(parse(PODS))
    for attribute in ("scheduled-after", "deleted-after"):
        fact = found["workload:default/tr-pod-02", attribute]
        assert (fact.value, fact.status) == (None, Status.UNKNOWN)
        assert "empty" in fact.note
    assert found["workload:default/tr-pod-00", "scheduled-after"].value == 0


def test_models_that_are_allowed() -> None:
    found = facts(parse(PODS))
    assert found["workload:default/tr-pod-02", "gpu-models-allowed"].value == ("G9", "T4")
    assert ("workload:default/tr-pod-00", "gpu-models-allowed") not in found


@pytest.mark.parametrize("data", [NODES, PODS], ids=["nodes", "pods"])
@pytest.mark.parametrize("separator", [b",", b";", b"\t"])
def test_other_order_separator_line_ends_and_mark_say_the_same(data: bytes, separator: bytes) -> None:
    rows = [line.split(b",") for line in data.rstrip(b"\n").split(b"\n")]
    turned = b"\xef\xbb\xbf" + b"".join(separator.join(reversed(row)) + b"\r\n" for row in rows)
    expected, found = facts(parse(data)), facts(parse(turned))
    assert found == expected


def test_columns_that_are_missing_say_nothing() -> None:
    found = said(parse("sn,cpu_milli,memory_mib,gpu\na,1000,1024,4\n"), "node:a")
    assert found == {"scheduler-cpu-count": 1, "memory": 2**30, "gpu-capacity": 4}


def test_what_is_no_number_is_unknown() -> None:
    found = facts(parse("sn,cpu_milli,memory_mib,gpu,model\na,N/A,-1,8x,\n"))
    assert {fact.status for fact in found.values()} == {Status.UNKNOWN}
    assert {attribute for _, attribute in found} == {"scheduler-cpu-count", "memory", "gpu-capacity", "gpu-model"}


def test_rows_that_are_no_rows_are_skipped_with_their_line() -> None:
    parsed = parse("sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,T4\nb,1,1\n\na,2,2,2,T4\n,1,1,1,T4\nc,1,1,12")
    assert {fact.subject for fact in parsed.facts} == {"node:a"}
    assert said(parsed, "node:a")["gpu-capacity"] == 1
    assert sorted(one.line for one in parsed.skipped) == [3, 5, 6, 7]


@pytest.mark.parametrize(
    "head", [b"", b"name,cpu_milli\n", b"sn,cpu_milli,memory_mib,gpu,gpu\n", b"name,site,u_height\n", b"index, name, memory.total [MiB]\n"]
)
def test_other_tables_are_not_recognised(head: bytes) -> None:
    assert not gpu_trace.PARSER.recognises(head)


@given(data=st.binary(max_size=300), begin=st.sampled_from([b"", NODES[:34], PODS[:110]]))
def test_any_bytes_never_raise(data: bytes, begin: bytes) -> None:
    gpu_trace.PARSER.recognises(begin + data)
    gpu_trace.PARSER.parse(Capture("f", begin + data))


@pytest.mark.parametrize("data", [NODES, PODS], ids=["nodes", "pods"])
def test_D05_a_cut_file_says_nothing_that_the_whole_one_does_not(data: bytes) -> None:
    whole = facts(parse(data))
    for end in range(len(data)):
        cut = gpu_trace.PARSER.parse(Capture("f", data[:end], "h1"))
        assert all(whole.get(key) == fact for key, fact in facts(cut).items()), data[:end]
