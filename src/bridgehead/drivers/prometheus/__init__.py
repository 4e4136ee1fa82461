"""prometheus: counters from pages in the Prometheus text format."""

from bridgehead.drivers.prometheus.text import MetricsSource, TextMetrics, TextMetricsOptions

__all__ = ["MetricsSource", "TextMetrics", "TextMetricsOptions"]
