"""prometheus: counters from pages in the Prometheus text format, and from a Prometheus server."""

from bridgehead.drivers.prometheus.api import PrometheusApi
from bridgehead.drivers.prometheus.queries import PrometheusMetrics, PrometheusOptions
from bridgehead.drivers.prometheus.text import MetricsSource, TextMetrics, TextMetricsOptions

__all__ = ["MetricsSource", "PrometheusApi", "PrometheusMetrics", "PrometheusOptions", "TextMetrics", "TextMetricsOptions"]
