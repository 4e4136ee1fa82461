"""Criteria in files: two counters, or a question of a preset (M7.3)."""

from __future__ import annotations

from bridgehead.kernel.decode import Decoder
from bridgehead.model.gate_presets import Limits, PresetName, criterion
from bridgehead.model.runbook import Criterion, OnNoData
from bridgehead.runbook import filing


def criterion_of(body: filing.CriterionBody) -> Criterion:
    """The criterion. Raises ValueError for one that ``check_criteria`` has a fault for."""
    if body.ask:
        server, _, question = body.ask.partition("/")
        if server not in _servers():
            raise ValueError(f"there is no preset {server!r}; there are {', '.join(_servers())}")
        if body.ratio is not None:
            raise ValueError("'ask' and 'ratio' are both given")
        limits = Limits(body.max, body.min, body.over_baseline, body.times_baseline)
        return criterion(PresetName(server), question, limits, called=body.name, no_data=body.no_data)
    if body.ratio is None:
        raise ValueError("neither 'ratio' nor 'ask' is given")
    if body.min is not None:
        raise ValueError("'min' is for questions of presets; turn the ratio round and give 'max'")
    return Criterion(
        name=body.name, numerator=body.ratio[0], denominator=body.ratio[1], limit=body.max, over_baseline=body.over_baseline,
        ratio_to_baseline=body.times_baseline, no_data=body.no_data or OnNoData.HOLD,
    )  # fmt: skip


def check_criteria(document: filing.RunbookFile, decoder: Decoder) -> None:
    """A fault for each criterion that cannot be made."""
    for entry in document.steps:
        if isinstance(entry, filing.GateEntry):
            for number, body in enumerate(entry.gate.criteria):
                try:
                    criterion_of(body)
                except ValueError as error:
                    path = ("steps", f"[{entry.id}]", "gate", "criteria", f"[{number}]")
                    decoder.fault_at(path, str(error), "expected 'ratio' with two counters, or 'ask' with a question of a preset")


def _servers() -> list[str]:
    return [one.value for one in PresetName if one.value]
