"""OpenSLO export: documents of the form that openslo/v1 describes, and queries of metrics that the watch really exports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bridgehead.model.estatefile import read_estate
from bridgehead.model.objectivefile import read_objectives
from bridgehead.recovery.objectives.openslo import documents, left_out, slug, text
from bridgehead.recovery.watch.metrics import METRICS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "objectives"
NAME = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
METADATA = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": NAME,
        "displayName": {"type": "string", "minLength": 1},
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": "^[a-z0-9A-Z][a-z0-9A-Z._-]*$", "maxLength": 63},
        },
    },
}
SHARE = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
DURATION = {"type": "string", "pattern": "^[1-9][0-9]*[mhdwMQY]$"}
OBJECTIVE = {
    "type": "object",
    "required": ["op", "value", "target", "timeSliceTarget", "timeSliceWindow"],
    "additionalProperties": False,
    "properties": {
        "displayName": {"type": "string"},
        "op": {"enum": ["lte", "gte", "lt", "gt"]},
        "value": {"type": "number"},
        "target": {**SHARE, "exclusiveMaximum": 1},
        "timeSliceTarget": SHARE,
        "timeSliceWindow": DURATION,
    },
}
SOURCE = {
    "type": "object",
    "required": ["spec"],
    "properties": {"type": {"type": "string"}, "spec": {"type": "object", "required": ["query"]}},
}
INDICATOR = {
    "type": "object",
    "required": ["metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "metadata": METADATA,
        "spec": {
            "type": "object",
            "required": ["thresholdMetric"],
            "additionalProperties": False,
            "properties": {"thresholdMetric": {"type": "object", "required": ["metricSource"], "properties": {"metricSource": SOURCE}}},
        },
    },
}
SLO = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "openslo/v1"},
        "kind": {"const": "SLO"},
        "metadata": METADATA,
        "spec": {
            "type": "object",
            "required": ["service", "indicator", "timeWindow", "budgetingMethod", "objectives"],
            "additionalProperties": False,
            "properties": {
                "description": {"type": "string", "maxLength": 1050},
                "service": NAME,
                "indicator": INDICATOR,
                "timeWindow": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 1,
                    "items": {"type": "object", "required": ["duration", "isRolling"],
                              "properties": {"duration": DURATION, "isRolling": {"type": "boolean"}}},
                },
                "budgetingMethod": {"enum": ["Occurrences", "Timeslices", "RatioTimeslices"]},
                "objectives": {"type": "array", "minItems": 1, "items": OBJECTIVE},
            },
        },
    },
}  # fmt: skip
SERVICE = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {"apiVersion": {"const": "openslo/v1"}, "kind": {"const": "Service"}, "metadata": METADATA, "spec": {"type": "object"}},
}


@pytest.fixture(scope="module")
def exported() -> list[dict[str, Any]]:
    estate = read_estate((EXAMPLES / "estate.yaml").read_text("utf-8"), file="e")
    continuity = read_objectives((EXAMPLES / "objectives.yaml").read_text("utf-8"), file="o", estate=estate)
    assert left_out(estate) == ("corpus", "traces")
    return list(yaml.safe_load_all(text(documents(estate, continuity))))


def test_documents_have_the_form_of_openslo_v1(exported: list[dict[str, Any]]) -> None:
    service, *slos = exported
    jsonschema.validate(service, SERVICE)
    for one in slos:
        jsonschema.validate(one, SLO)
        assert one["spec"]["service"] == service["metadata"]["name"]
    names = [one["metadata"]["name"] for one in slos]
    assert len(names) == len(set(names))
    assert {"lm-rpo", "lm-rto", "triage-rto", "chat-rpo"} <= set(names)
    assert not any(name.startswith("ablations") for name in names), "nobody gave it an objective"


def test_R5_the_strictest_time_is_exported(exported: list[dict[str, Any]]) -> None:
    triage = next(one for one in exported if one["metadata"]["name"] == "triage-rto")
    assert triage["spec"]["objectives"][0]["value"] == 4 * 3600
    assert "regulation healthcare-diagnosis" in triage["spec"]["description"]


def test_queries_ask_for_metrics_that_the_watch_exports(exported: list[dict[str, Any]]) -> None:
    queries = [one["spec"]["indicator"]["spec"]["thresholdMetric"]["metricSource"]["spec"]["query"] for one in exported[1:]]
    asked = {name for query in queries for name in re.findall(r"bridgehead_\w+", query)}
    assert asked == {"bridgehead_loss_seconds", "bridgehead_recovery_seconds"}
    assert asked <= {metric.name for metric in METRICS}


def test_names_are_those_that_other_programs_take() -> None:
    assert slug("Chat_Model v2") == "chat-model-v2"
    assert len(slug("x" * 200)) <= 55
    assert slug("___") == "objective"
