"""TextMetrics: counters scraped from the services themselves, without a Prometheus server in between (ports.metrics.Metrics; G01-G03)."""

from __future__ import annotations

import time

import msgspec

from bridgehead.host.questions import ask
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.exposition import Page, finite_sum, parse_exposition
from bridgehead.model.gate_presets import PresetName, Selector, preset
from bridgehead.ports.metrics import Reading

_TRIED = "read the counters"


class MetricsSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the counters of one service at one site are.

    Attributes:
        url: ``http://host:port/path`` of the page.
        labels: a series counts only when it carries each of these labels with this value; needed when several sites share a page.
    """

    url: str
    labels: dict[str, str] = {}


class TextMetricsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sources by service and site. ``timeout_s`` holds for connecting and for each wait on the answer.

    Attributes:
        preset: the server of models whose pages they are: its counters are read under the names that presets of gates use.
    """

    sources: dict[ServiceId, dict[SiteId, MetricsSource]]
    timeout_s: float = 2.0
    preset: PresetName = PresetName.NONE


class TextMetrics:
    """Sums the series of each counter that match the source's labels.

    - A counter without a matching series is absent, and so is one of whose series any value is NaN or infinite: never 0, never a part.
    - Gauges and the quantiles of summaries are left out; they cannot be summed or compared over time. Series without a declared type count.
    - Buckets of a histogram are summed by bound, under ``name_bucket{le="0.5"}``.
    """

    def __init__(self, options: TextMetricsOptions) -> None:
        self._options = options

    def read(self, service: ServiceId, site: SiteId) -> Reading:
        """See the port. Raises Transient also for a damaged page, NotFound and Permanent when the server refuses the address."""
        source = self._options.sources.get(service, {}).get(site)
        if source is None:
            return Reading(counters={}, read_s=time.time())
        body = ask(source.url, accept="text/plain;version=0.0.4", tried=_TRIED, timeout_s=self._options.timeout_s)
        read_s = time.time()
        try:
            page = parse_exposition(body.decode("utf-8"))
        except ValueError as error:  # also UnicodeDecodeError
            raise Transient(
                f"the page is damaged: {error}", tried=_TRIED, subject=source.url, remedy="Check what serves this address."
            ) from error
        if self._options.preset is PresetName.NONE:
            return Reading(counters=counters(page, source.labels), read_s=read_s)
        return Reading(counters=preset_counters(page, source.labels, self._options.preset) | {"clock_seconds": read_s}, read_s=read_s)


def counters(page: Page, labels: dict[str, str]) -> dict[str, float]:
    """Counter name → sum over the series that match ``labels``."""
    values: dict[str, list[float]] = {}
    for sample in page.matching(labels):
        kind = page.type_of(sample.name)
        if kind == "gauge" or (kind == "summary" and not sample.name.endswith(("_sum", "_count"))):
            continue
        name = f'{sample.name}{{le="{sample.labels["le"]}"}}' if kind == "histogram" and "le" in sample.labels else sample.name
        values.setdefault(name, []).append(sample.value)
    sums = {name: finite_sum(parts) for name, parts in values.items()}
    return {name: total for name, total in sums.items() if total is not None}


def preset_counters(page: Page, labels: dict[str, str], name: PresetName) -> dict[str, float]:
    """The counters of a preset on a page; one that cannot be known is absent."""

    def summed(part: Selector) -> float | None:
        found = [sample.value for sample in page.matching({**labels, **part.labels}) if sample.name == part.series]
        return finite_sum(found) if found else 0.0

    values: dict[str, float] = {}
    for counter in preset(name).counters:
        first = counter.plus[0]
        exists = any(sample.name == first.series for sample in page.matching({**labels, **first.labels}))
        parts = [(summed(part), 1) for part in counter.plus] + [(summed(part), -1) for part in counter.minus]
        known = [value * sign for value, sign in parts if value is not None]
        if exists and len(known) == len(parts):
            values[counter.name] = sum(known)
    return values
