"""Open requests of a backend, by the gauge on its own metrics page; for proxies that do not count them."""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.host.questions import ask
from bridgehead.kernel.errors import Transient
from bridgehead.model.exposition import finite_sum, parse_exposition


def open_requests(metrics_url: str, *, gauge: str, labels: Mapping[str, str], timeout_s: float) -> int:
    """Requests and streams open at the backend: the sum of the gauge's series with these labels.

    Raises Transient when the gauge cannot be seen (never 0 then).
    """
    tried = "count open requests"
    body = ask(metrics_url, accept="text/plain;version=0.0.4", tried=tried, timeout_s=timeout_s)
    try:
        matching = parse_exposition(body.decode("utf-8")).matching(labels)
    except ValueError as error:
        raise Transient(
            f"the page is damaged: {error}", tried=tried, subject=metrics_url, remedy="Check what serves this address."
        ) from error
    total = finite_sum([sample.value for sample in matching if sample.name == gauge])
    if total is None:
        raise Transient(
            f"the page has no usable value of {gauge}",
            tried=tried,
            subject=metrics_url,
            remedy="Set in_flight_gauge and in_flight_labels to the backend's gauge of open requests.",
        )
    return round(total)
