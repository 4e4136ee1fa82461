"""Gate presets: what vLLM, Triton and TGI export, as counters with the same names for all, and the criteria that gates make of them (M7.3).

Each counter is a sum of series less others; sums and counts of histograms and plain counters, since gates judge growth. Gauges cannot be
used so. Queue depth is therefore taken by Little's law: time spent in the queue, summed over requests, divided by the time that passed, is
the mean number of requests that waited. Names of series: vLLM's ``vllm/v1/metrics/loggers.py``, Triton's ``docs/user_guide/metrics.md``,
TGI's ``docs/source/reference/metrics.md`` and its router.
"""

from __future__ import annotations

import enum

import msgspec

from bridgehead.model.runbook import Criterion, OnNoData


class PresetName(enum.StrEnum):
    """Which server of models."""

    NONE = ""
    VLLM = "vllm"
    TRITON = "triton"
    TGI = "tgi"


class Selector(msgspec.Struct, frozen=True):
    """All series of a name that carry these labels with these values."""

    series: str
    labels: dict[str, str] = {}


class PresetCounter(msgspec.Struct, frozen=True):
    """A counter of a preset: the sum of ``plus`` less the sum of ``minus``.

    Without series for the first of ``plus`` there is no counter; any other part without series has counted nothing yet.
    """

    name: str
    plus: tuple[Selector, ...]
    minus: tuple[Selector, ...] = ()


class Question(msgspec.Struct, frozen=True):
    """What a preset can ask: growth of ``numerator`` over growth of ``denominator``.

    Attributes:
        factor: limits are given in ``unit``; times this they are in what the ratio measures.
        inverse: the limit is a least value: it is the ratio's inverse that people speak of.
        at_no_data: what a counter that never existed means (G03).
    """

    name: str
    unit: str
    numerator: str
    denominator: str
    meaning: str
    factor: float = 1.0
    inverse: bool = False
    at_no_data: OnNoData = OnNoData.HOLD


class GatePreset(msgspec.Struct, frozen=True):
    """One server's counters and questions; ``lacking`` says what it does not export."""

    counters: tuple[PresetCounter, ...]
    questions: tuple[Question, ...]
    lacking: str = ""


TRAFFIC = "answered_total"
"""The counter of requests of every preset, for the gate's ``traffic``."""


def _plain(name: str, series: str, **labels: str) -> PresetCounter:
    return PresetCounter(name, (Selector(series, labels),))


def _histogram(name: str, series: str, **labels: str) -> tuple[PresetCounter, ...]:
    return (_plain(f"{name}_sum", f"{series}_sum", **labels), _plain(f"{name}_count", f"{series}_count", **labels))


_ERRORS = Question("errors", "share", "errors_total", TRAFFIC, "requests that ended in an error of the server", at_no_data=OnNoData.OK)
_LATENCY = Question("latency", "seconds", "latency_sum", "latency_count", "mean time of a request from end to end")
_QUEUE_TIME = Question("queue-time", "seconds", "queue_sum", "queue_count", "mean time that a request waited")
_QUEUE_DEPTH = Question("queue-depth", "requests", "queue_sum", "clock_seconds", "mean number of requests that waited")
_FIRST = Question("first-token", "seconds", "first_token_sum", "first_token_count", "mean time to the first token")
_PER_TOKEN = Question("token-time", "seconds", "token_sum", "token_count", "mean time of a further token")
_TOKENS = Question("tokens-per-second", "1/s", "clock_seconds", "tokens_total", "tokens made in a second, by all together", inverse=True)
_CACHE = Question("cache-misses", "share", "cache_misses_total", "cache_queries_total", "look-ups of the cache that found nothing")


_VLLM = GatePreset(
    counters=(
        # The first one of a preset is asked for its age.
        PresetCounter(TRAFFIC, (Selector("vllm:request_success_total"), Selector("http_requests_total", {"status": "5xx"}))),
        _plain("errors_total", "http_requests_total", status="5xx"),
        _plain("tokens_total", "vllm:generation_tokens_total"),
        _plain("preemptions_total", "vllm:num_preemptions_total"),
        *_histogram("first_token", "vllm:time_to_first_token_seconds"),
        PresetCounter("token_sum", (Selector("vllm:inter_token_latency_seconds_sum"),)),
        PresetCounter("token_count", (Selector("vllm:inter_token_latency_seconds_count"),)),
        *_histogram("latency", "vllm:e2e_request_latency_seconds"),
        *_histogram("queue", "vllm:request_queue_time_seconds"),
        _plain("cache_queries_total", "vllm:prefix_cache_queries_total"),
        PresetCounter("cache_misses_total", (Selector("vllm:prefix_cache_queries_total"),), (Selector("vllm:prefix_cache_hits_total"),)),
    ),
    questions=(
        _ERRORS,
        _FIRST,
        _PER_TOKEN,
        _TOKENS,
        _LATENCY,
        _QUEUE_TIME,
        _QUEUE_DEPTH,
        _CACHE,
        Question("preemptions", "per request", "preemptions_total", TRAFFIC, "how often a request was put back for want of cache"),
    ),
    lacking="Older versions call the time between tokens vllm:time_per_output_token_seconds: name it in a query of your own there.",
)

_US = 1e6
_TRITON = GatePreset(
    counters=(
        PresetCounter(TRAFFIC, (Selector("nv_inference_request_success"), Selector("nv_inference_request_failure"))),
        _plain("errors_total", "nv_inference_request_failure"),
        _plain("inferences_total", "nv_inference_count"),
        _plain("latency_us", "nv_inference_request_duration_us"),
        _plain("queue_us", "nv_inference_queue_duration_us"),
        _plain("compute_us", "nv_inference_compute_infer_duration_us"),
        _plain("succeeded_total", "nv_inference_request_success"),
        *_histogram("first_token_ms", "nv_inference_first_response_histogram_ms"),
        PresetCounter("cache_queries_total", (Selector("nv_cache_num_misses_per_model"), Selector("nv_cache_num_hits_per_model"))),
        _plain("cache_misses_total", "nv_cache_num_misses_per_model"),
    ),
    questions=(
        _ERRORS,
        Question("first-token", "seconds", "first_token_ms_sum", "first_token_ms_count", "mean time to the first response", factor=1e3),
        Question("latency", "seconds", "latency_us", "succeeded_total", _LATENCY.meaning, factor=_US),
        Question("queue-time", "seconds", "queue_us", "succeeded_total", _QUEUE_TIME.meaning, factor=_US),
        Question("queue-depth", "requests", "queue_us", "clock_seconds", _QUEUE_DEPTH.meaning, factor=_US),
        Question("compute-time", "seconds", "compute_us", "succeeded_total", "mean time of a request in the model", factor=_US),
        Question("inferences-per-second", "1/s", "clock_seconds", "inferences_total", "inferences made in a second", inverse=True),
        _CACHE,
    ),
    lacking="Triton counts no tokens. It tells the time to the first response only with --metrics-config histogram_latencies=true, for "
    "decoupled models. The cache is the one of whole responses.",
)

_TGI = GatePreset(
    counters=(
        PresetCounter(
            TRAFFIC,
            (Selector("tgi_request_count"),),
            (Selector("tgi_request_failure", {"err": "validation"}),),
        ),
        # A request that is refused as invalid is the client's fault.
        PresetCounter("errors_total", (Selector("tgi_request_failure"),), (Selector("tgi_request_failure", {"err": "validation"}),)),
        _plain("tokens_total", "tgi_request_generated_tokens_sum"),
        *_histogram("token", "tgi_request_mean_time_per_token_duration"),
        *_histogram("latency", "tgi_request_duration"),
        *_histogram("queue", "tgi_request_queue_duration"),
        *_histogram("prefill", "tgi_batch_forward_duration", method="prefill"),
    ),
    questions=(
        _ERRORS,
        Question("prefill-time", "seconds", "prefill_sum", "prefill_count", "mean time of the prefill of a batch"),
        _PER_TOKEN,
        _TOKENS,
        _LATENCY,
        _QUEUE_TIME,
        _QUEUE_DEPTH,
    ),
    lacking="TGI does not export the time to the first token: queue-time and prefill-time are its parts. It counts no cache.",
)

_PRESETS = {PresetName.VLLM: _VLLM, PresetName.TRITON: _TRITON, PresetName.TGI: _TGI}


def preset(name: PresetName) -> GatePreset:
    """The preset. Raises KeyError for NONE."""
    return _PRESETS[name]


class Limits(msgspec.Struct, frozen=True):
    """Limits of a question in its own unit.

    Attributes:
        most: it may not be above.
        least: it may not be below.
        over_baseline: how much above the source's value it may be.
        times_baseline: how many times the source's value it may be; where there is a least value, must be.
    """

    most: float | None = None
    least: float | None = None
    over_baseline: float | None = None
    times_baseline: float | None = None


def criterion(name: PresetName, question: str, limits: Limits, *, called: str = "", no_data: OnNoData | None = None) -> Criterion:
    """The criterion of a gate that asks this question of a preset.

    Args:
        called: what people call it; default the question.
        no_data: what missing data means; default as the question has it.

    Raises:
        ValueError: the preset has no such question, or the limits do not fit it.
    """
    known = {one.name: one for one in preset(name).questions}
    if question not in known:
        raise ValueError(f"{name.value} has no question {question!r}; it has {', '.join(known)}")
    asked = known[question]
    if asked.inverse and (limits.most is not None or limits.over_baseline is not None or limits.times_baseline == 0):
        raise ValueError(f"{question} has a least value: give 'min' or a positive 'times_baseline'")
    if not asked.inverse and limits.least is not None:
        raise ValueError(f"{question} has no least value: give 'max', 'over_baseline' or 'times_baseline'")
    if limits.least is not None and limits.least <= 0:
        raise ValueError(f"{question}: a least value is above 0")
    times = limits.times_baseline
    return Criterion(
        name=called or question,
        numerator=asked.numerator,
        denominator=asked.denominator,
        limit=1.0 / limits.least if limits.least is not None else _scaled(limits.most, asked.factor),
        over_baseline=_scaled(limits.over_baseline, asked.factor),
        ratio_to_baseline=1.0 / times if times is not None and asked.inverse else times,
        no_data=no_data or asked.at_no_data,
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
