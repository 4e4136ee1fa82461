"""PrometheusMetrics: counters of services by queries to a Prometheus server (ports.metrics.Metrics; M7.3, G01-G03)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import msgspec

from bridgehead.drivers.prometheus.api import PrometheusApi
from bridgehead.host.web import WebAccess
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.gate_presets import PresetName, Selector, preset
from bridgehead.ports.metrics import Reading

_PLACE = re.compile(r"\{(service|site)\}")
_SELECTOR = re.compile(r"""[a-zA-Z_:][a-zA-Z0-9_:]*\s*\{(?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*\}""")


class PrometheusOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How counters are asked for. In queries and labels ``{service}`` and ``{site}`` stand for the names.

    Attributes:
        url: ``https://host:port`` of the server, with the path in front of ``/api``, if any.
        sites: the services and their sites that it knows; others are no data.
        queries: a query in PromQL for each counter; it must give one series at most. Counters grow, so no rate() here: the gate takes it.
        preset: the counters that this server of models exports, beside ``queries``.
        labels: labels by which the preset's series of one service at one site are told from others.
        max_age_s: a counter one of whose samples is older is no data. Without asking, Prometheus takes samples of the last 5 minutes.
        timeout_s: for connecting, and for each wait on the answer.
        access: login and certificates.
    """

    url: str
    sites: dict[ServiceId, tuple[SiteId, ...]]
    queries: dict[str, str] = {}
    preset: PresetName = PresetName.NONE
    labels: dict[str, str] = {}
    max_age_s: float = 60.0
    timeout_s: float = 2.0
    access: WebAccess = WebAccess()

    def __post_init__(self) -> None:
        if not self.queries and self.preset is PresetName.NONE:
            raise self._refused("neither queries nor a preset are given", "Name the counters under 'queries', or a preset.")
        for name, query in self.queries.items():
            if not _selectors(query):
                happened = f"the query of {name} selects no series by labels, so their age cannot be asked"
                raise self._refused(happened, 'Write them with braces, such as requests_total{site="{site}"}.')

    def _refused(self, happened: str, remedy: str) -> BridgeheadError:
        tried = "connect the metrics"
        return BridgeheadError(ErrorCode.BAD_INPUT, tried=tried, subject=self.url, happened=happened, remedy=remedy)


class PrometheusMetrics:
    """Asks one query for each counter.

    - A counter without a series is absent, and so is one that is NaN or infinite: never 0 (G03).
    - Several series are an error that names them: which of them was meant, nobody can know.
    - A counter that fell (its process was started anew) is handed on as it is; the gate takes that for no data.
    """

    def __init__(self, options: PrometheusOptions) -> None:
        self._options = options
        self._api = PrometheusApi(options.url, access=options.access, timeout_s=options.timeout_s)

    def read(self, service: ServiceId, site: SiteId) -> Reading:
        """See the port. Raises Permanent when a query is wrong or gives several series."""
        if site not in self._options.sites.get(service, ()):
            return Reading(counters={}, read_s=time.time())
        values = {name: self._counter(query) for name, query in self.queries(service, site).items()}
        if values and self._options.preset is not PresetName.NONE:
            values["clock_seconds"] = self._api.value("time()")
        return Reading(counters={name: value for name, value in values.items() if value is not None}, read_s=time.time())

    def value(self, query: str) -> float | None:
        """See ``ports.metrics.Measures``."""
        return self._api.value(query)

    def queries(self, service: ServiceId, site: SiteId) -> dict[str, str]:
        """The query of each counter, as it is sent."""
        made = {}
        if self._options.preset is not PresetName.NONE:
            labels = self._labels(service, site)
            made = {counter.name: _query(counter.plus, counter.minus, labels) for counter in preset(self._options.preset).counters}
        return made | {name: _placed(query, service, site, quoted=True) for name, query in self._options.queries.items()}

    def _counter(self, query: str) -> float | None:
        """The counter, None also when a sample that it is made of is too old."""
        value = self._api.value(query)
        if value is None:
            return None
        # Each selector by itself: without their names, series of two would be taken for one another.
        ages = [self._api.value(f"time() - min(timestamp({selector}))") for selector in _selectors(query)]
        return value if all(age_s is None or age_s <= self._options.max_age_s for age_s in ages) else None

    def _labels(self, service: ServiceId, site: SiteId) -> dict[str, str]:
        return {name: _placed(value, service, site) for name, value in self._options.labels.items()}


def _selectors(query: str) -> list[str]:
    """The parts of a query that select series by labels, as far as they have braces."""
    return list(dict.fromkeys(_SELECTOR.findall(query)))


def _placed(text: str, service: ServiceId, site: SiteId, *, quoted: bool = False) -> str:
    """With the names in their places; ``quoted``: within the quotes of a query."""
    names = {"service": str(service), "site": str(site)}
    return _PLACE.sub(lambda place: _escaped(names[place[1]]) if quoted else names[place[1]], text)


def _query(plus: tuple[Selector, ...], minus: tuple[Selector, ...], labels: Mapping[str, str]) -> str:
    """The first part must exist; of the others, one that does not has counted nothing yet."""
    first, *rest = plus
    more = "".join(f" + ({_sum(part, labels)} or vector(0))" for part in rest)
    less = "".join(f" - ({_sum(part, labels)} or vector(0))" for part in minus)
    return _sum(first, labels) + more + less


def _sum(part: Selector, labels: Mapping[str, str]) -> str:
    return f"sum({_selector(part, labels)})"


def _selector(part: Selector, labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted({**labels, **part.labels}.items()))
    return f"{part.series}{{{inside}}}"


def _escaped(text: str) -> str:
    """Within the quotes of a PromQL text."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
