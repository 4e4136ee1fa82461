"""Gate presets: questions to vLLM, Triton and TGI, judged through the gate itself (M7.3; G01-G03)."""

from __future__ import annotations

import pytest

from bridgehead.app.wiring import action_params
from bridgehead.drivers.prometheus.text import preset_counters
from bridgehead.kernel.located import BadFile
from bridgehead.model.exposition import parse_exposition
from bridgehead.model.gate_presets import TRAFFIC, Limits, PresetName, criterion, preset
from bridgehead.model.runbook import GateStep, OnNoData
from bridgehead.runbook.language import read_runbook, write_runbook

VLLM = """
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum{model_name="m"} 12.5
vllm:time_to_first_token_seconds_count{model_name="m"} 50
vllm:request_success_total{model_name="m",finished_reason="stop"} 48
vllm:request_success_total{model_name="m",finished_reason="length"} 2
vllm:generation_tokens_total{model_name="m"} 9000
vllm:prefix_cache_queries_total{model_name="m"} 100
vllm:prefix_cache_hits_total{model_name="m"} 60
vllm:request_success_total{model_name="other",finished_reason="stop"} 7
http_requests_total{status="5xx",model_name="m"} 3
"""
TGI = """
tgi_request_count 90
tgi_request_failure{err="validation"} 10
tgi_request_failure{err="generation"} 2
tgi_request_generated_tokens_sum 4000
"""
TRITON = """
nv_inference_request_success{model="m"} 10
nv_inference_request_failure{model="m"} 1
nv_inference_queue_duration_us{model="m"} 2500000
"""


def counters(text: str, name: PresetName, **labels: str) -> dict[str, float]:
    return preset_counters(parse_exposition(text), labels, name)


def test_vllm_counters() -> None:
    found = counters(VLLM, PresetName.VLLM, model_name="m")
    assert found["answered_total"] == 53.0
    assert found["errors_total"] == 3.0
    assert (found["first_token_sum"], found["first_token_count"]) == (12.5, 50.0)
    assert found["cache_misses_total"] == 40.0
    assert "queue_sum" not in found, "a series that does not exist is no counter of 0"


def test_tgi_leaves_out_what_the_client_did_wrong() -> None:
    found = counters(TGI, PresetName.TGI)
    assert (found[TRAFFIC], found["errors_total"]) == (80.0, 2.0)


def test_triton_counters() -> None:
    found = counters(TRITON, PresetName.TRITON, model="m")
    assert (found[TRAFFIC], found["errors_total"], found["queue_us"]) == (11.0, 1.0, 2_500_000.0)


def test_without_its_series_a_preset_has_no_counters() -> None:
    assert counters("up 1\n", PresetName.VLLM) == {}


@pytest.mark.parametrize("name", [PresetName.VLLM, PresetName.TRITON, PresetName.TGI])
def test_every_question_asks_for_counters_that_the_preset_has(name: PresetName) -> None:
    made = preset(name)
    known = {counter.name for counter in made.counters} | {"clock_seconds"}
    assert {part for question in made.questions for part in (question.numerator, question.denominator)} <= known
    assert TRAFFIC in known


def test_limits_are_in_the_questions_own_unit() -> None:
    assert criterion(PresetName.TRITON, "queue-time", Limits(most=0.5)).limit == 500_000.0
    least = criterion(PresetName.VLLM, "tokens-per-second", Limits(least=200.0, times_baseline=0.8))
    assert least.limit == pytest.approx(1 / 200)
    assert least.ratio_to_baseline == pytest.approx(1.25)
    assert criterion(PresetName.VLLM, "errors", Limits(most=0.01)).no_data is OnNoData.OK
    assert criterion(PresetName.VLLM, "errors", Limits(most=0.01), no_data=OnNoData.FAIL).no_data is OnNoData.FAIL


@pytest.mark.parametrize(
    ("question", "limits", "why"),
    [
        ("first-tokn", Limits(most=1.0), "no question"),
        ("first-token", Limits(least=1.0), "no least value"),
        ("tokens-per-second", Limits(most=1.0), "least value"),
        ("tokens-per-second", Limits(least=0.0), "above 0"),
    ],
)
def test_limits_that_do_not_fit_are_refused(question: str, limits: Limits, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        criterion(PresetName.VLLM, question, limits)


RUNBOOK = """
runbook: chat
steps:
  - id: gate
    deadline: 5 min
    gate:
      service: chat
      target: b
      criteria:
        - {{name: first token, {criterion}}}
      traffic: answered_total
      min_traffic: 10
      min_samples: 2
      interval: 1 s
"""


def test_a_runbook_asks_by_preset_and_is_written_back() -> None:
    runbook = read_runbook(RUNBOOK.format(criterion="ask: vllm/first-token, max: 0.5"), file="x", actions=action_params())
    gate = runbook.steps[0]
    assert isinstance(gate, GateStep)
    asked = gate.criteria[0]
    assert (asked.numerator, asked.denominator, asked.limit) == ("first_token_sum", "first_token_count", 0.5)
    assert read_runbook(write_runbook(runbook, actions=action_params()), file="x", actions=action_params()) == runbook


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("ask: vlm/first-token, max: 0.5", "no preset 'vlm'"),
        ("ask: vllm/first, max: 0.5", "no question 'first'"),
        ("ask: vllm/first-token, ratio: [a, b], max: 0.5", "both given"),
        ("max: 0.5", "neither 'ratio' nor 'ask'"),
        ("ratio: [a, b], min: 0.5", "'min' is for questions"),
    ],
)
def test_a_criterion_that_cannot_be_is_a_fault_with_its_place(given: str, why: str) -> None:
    with pytest.raises(BadFile, match=why) as refused:
        read_runbook(RUNBOOK.format(criterion=given), file="x.yaml", actions=action_params())
    assert "x.yaml:10" in str(refused.value)
