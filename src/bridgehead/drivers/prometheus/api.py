"""PrometheusApi: questions in PromQL to a Prometheus server, and what counts as an answer (ports.metrics; G01-G03)."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import urlencode

import msgspec

from bridgehead.host.questions import refused
from bridgehead.host.web import WebAccess, WebClient
from bridgehead.kernel.errors import Permanent, Transient

_TRIED = "ask Prometheus"
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
MOST_NAMED = 4
"""So many of several series are named in the error."""


class _Data(msgspec.Struct, frozen=True):
    resultType: str
    result: Any


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data | None = None
    errorType: str = ""
    error: str = ""
    warnings: list[str] = []


class _Series(msgspec.Struct, frozen=True):
    value: tuple[float, str]
    metric: dict[str, str] = {}


class PrometheusApi:
    """One server."""

    def __init__(self, url: str, *, access: WebAccess, timeout_s: float) -> None:
        self._web = WebClient(url, access=access, timeout_s=timeout_s)
        self._timeout_s = timeout_s

    def value(self, query: str) -> float | None:
        """What the query is now; None without data: no series, or NaN or infinite.

        Raises:
            Permanent: the server refuses the query, it gives several series (they are named), or none of a number.
            Transient: the server cannot be read, or says that its answer lacks a part.
        """
        # The server gives up a little before we do, and then says why.
        patience_s = max(0.1, self._timeout_s * 0.9)
        form = {"query": query, "timeout": f"{round(patience_s * 1000)}ms"}
        answer = self._web.request("POST", "/api/v1/query", tried=_TRIED, body=urlencode(form).encode(), headers=_FORM)
        data = self._data(query, answer.status, answer.body)
        series = self._series(query, data)
        if len(series) > 1:
            named = "; ".join(_named(one.metric) for one in series[:MOST_NAMED]) + ("; ..." if len(series) > MOST_NAMED else "")
            happened = f"{len(series)} series where one is needed: {named}"
            raise Permanent(happened, tried=_TRIED, subject=query, remedy="Narrow the query by labels, or wrap it in sum(...).")
        if not series:
            return None
        try:
            value = float(series[0].value[1])
        except ValueError as error:
            raise Permanent(f"not a number: {error}", tried=_TRIED, subject=query, remedy="Check what the query gives.") from error
        return value if math.isfinite(value) else None

    def _data(self, query: str, status: int, body: bytes) -> _Data:
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except msgspec.MsgspecError as error:
            if status != 200:
                raise refused(status, tried=_TRIED, subject=self._web.url) from error
            raise Permanent(
                f"not an answer of Prometheus ({error})", tried=_TRIED, subject=self._web.url, remedy="Check the url."
            ) from error
        if answer.status != "success" or answer.data is None:
            happened = f"{answer.errorType or status}: {answer.error or 'no reason given'}"
            if answer.errorType in ("timeout", "canceled", "unavailable", "internal"):
                raise Transient(happened, tried=_TRIED, subject=query, remedy="Look at the server's log.")
            raise Permanent(happened, tried=_TRIED, subject=query, remedy="Correct the query.")
        if answer.warnings:
            # Servers in front of several others (Thanos, Mimir) answer with what they have and say in a warning what is missing.
            raise Transient("; ".join(answer.warnings), tried=_TRIED, subject=query, remedy="See that all its sources answer.")
        return answer.data

    def _series(self, query: str, data: _Data) -> list[_Series]:
        try:
            match data.resultType:
                case "scalar":
                    return [_Series(msgspec.convert(data.result, tuple[float, str]))]
                case "vector":
                    return msgspec.convert(data.result, list[_Series])
        except msgspec.ValidationError as error:
            raise Permanent(f"not an answer of Prometheus ({error})", tried=_TRIED, subject=query, remedy="Check the url.") from error
        raise Permanent(f"the query gives a {data.resultType}", tried=_TRIED, subject=query, remedy="Ask for a number at one moment.")


def _named(labels: dict[str, str]) -> str:
    inside = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != "__name__")
    return f"{labels.get('__name__', '')}{{{inside}}}"
