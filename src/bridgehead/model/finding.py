"""Findings: what a check says of one thing (design rule 1: unknown is a result and never passes; rules section 0)."""

from __future__ import annotations

import enum

import msgspec

Value = float | int | str | bool | None


class FindingStatus(enum.StrEnum):
    """What came out. Never a bare bool."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Severity(enum.StrEnum):
    """What a finding that fails, or is unknown, does to the verdict."""

    BLOCKING = "blocking"
    WARNING = "warning"


class Origin(enum.StrEnum):
    """Where an input comes from. DEFAULT is a value of the rules that is well supported, GUESS one whose source is weak."""

    MEASURED = "measured"
    DECLARED = "declared"
    DERIVED = "derived"
    DEFAULT = "default"
    GUESS = "guess"
    MISSING = "missing"


class Input(msgspec.Struct, frozen=True):
    """One number that went into a finding.

    Attributes:
        name: its symbol in the formula.
        value: in base units of SI, but temperatures in °C (K is a difference of two); None when it is missing.
        unit: of the value.
        origin: where it comes from.
        source: path in the estate or policy (``sites.site-b.circuits.a1.continuous``), or the section of the rules.
    """

    name: str
    value: Value
    unit: str
    origin: Origin
    source: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check says of one subject.

    Attributes:
        code: of the check, such as ``PWR-CIRCUIT``; stable.
        subject: what it is about: ``site-b/circuit:a1``.
        status: pass, fail or unknown.
        severity: whether it decides the verdict.
        text: one sentence for a tired person: what is the case, with numbers.
        value: what was found, in ``unit``; None where it is not known or no number.
        limit: what it is compared with, in ``unit``.
        margin: room to the limit as a share of the limit, negative when it is exceeded; None where there is none. Less is worse.
        unit: of value and limit.
        state: the state in which it is worst: ``normal``, ``feed A lost``.
        formula: how value and limit follow from the inputs.
        inputs: everything that went in.
        requirement: ids that it serves.
        remedy: what to do when it fails.
        measurement: what would settle it when it is unknown.
    """

    code: str
    subject: str
    status: FindingStatus
    text: str
    severity: Severity = Severity.BLOCKING
    value: Value = None
    limit: Value = None
    margin: float | None = None
    unit: str = ""
    state: str = ""
    formula: str = ""
    inputs: tuple[Input, ...] = ()
    requirement: tuple[str, ...] = ()
    remedy: str = ""
    measurement: str = ""


class Verdict(enum.StrEnum):
    """What all findings together say: NO_GO when a blocking one fails, else CANNOT_TELL when a blocking one is unknown, else GO."""

    GO = "go"
    NO_GO = "no-go"
    CANNOT_TELL = "cannot-tell"
