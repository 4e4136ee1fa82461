"""Errors: one table of codes, each with an exit code and a documentation anchor.

Every error that reaches a user says four things: what was tried, on what, what happened, and what to do next.
Port errors are a closed family of five (design rule 3): the engine decides by their type alone.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec


class ExitCode(enum.IntEnum):
    """Process exit codes of the command line; 0, 1, 2 are part of the contract that scripts rely on."""

    DONE = 0
    NEGATIVE = 1
    USAGE = 2
    CANNOT_TELL = 3
    BUSY = 4
    STUCK = 5
    NOT_FOUND = 6
    UNAVAILABLE = 7
    INTERNAL = 70


class ErrorCode(enum.StrEnum):
    """Stable codes; scripts and documentation refer to them."""

    BAD_INPUT = "bad-input"
    BAD_QUANTITY = "bad-quantity"
    BAD_USAGE = "bad-usage"
    RUN_BUSY = "run-busy"
    RUN_NOT_FOUND = "run-not-found"
    RUN_STATE = "run-state"
    RUN_STUCK = "run-stuck"
    RUNBOOK_REFUSED = "runbook-refused"
    RECOVERY_REFUSED = "recovery-refused"
    LEDGER_BROKEN = "ledger-broken"
    JOURNAL_DAMAGED = "journal-damaged"
    VAULT_DAMAGED = "vault-damaged"
    VAULT_FENCED = "vault-fenced"
    VAULT_NOT_FOUND = "vault-not-found"
    VAULT_FULL = "vault-full"
    VAULT_BUSY = "vault-busy"
    VAULT_LOCKED = "vault-locked"
    PORT_NOT_FOUND = "port-not-found"
    PORT_CONFLICT = "port-conflict"
    PORT_PERMANENT = "port-permanent"
    PORT_TRANSIENT = "port-transient"
    PORT_UNKNOWN = "port-unknown"
    SERVER_MISSING = "server-missing"
    LAB_BUSY = "lab-busy"
    PLAN_IMPOSSIBLE = "plan-impossible"
    PROMISE_BROKEN = "promise-broken"
    INTERNAL = "internal"


class ErrorEntry(msgspec.Struct, frozen=True):
    """One row of the error table."""

    title: str
    exit_code: ExitCode

    def anchor(self, code: ErrorCode) -> str:
        """The place in the documentation that explains the code."""
        return f"docs/reference/errors.md#{code.value}"


TABLE: Final[dict[ErrorCode, ErrorEntry]] = {
    ErrorCode.BAD_INPUT: ErrorEntry("A file that you gave is not valid", ExitCode.USAGE),
    ErrorCode.BAD_QUANTITY: ErrorEntry("A quantity cannot be read", ExitCode.USAGE),
    ErrorCode.BAD_USAGE: ErrorEntry("The command cannot be used like this", ExitCode.USAGE),
    ErrorCode.RUN_BUSY: ErrorEntry("Another process drives this run", ExitCode.BUSY),
    ErrorCode.RUN_NOT_FOUND: ErrorEntry("No such run", ExitCode.NOT_FOUND),
    ErrorCode.RUN_STATE: ErrorEntry("The run is in a state that does not allow this", ExitCode.USAGE),
    ErrorCode.RUN_STUCK: ErrorEntry("The run is stuck and needs a person", ExitCode.STUCK),
    ErrorCode.RUNBOOK_REFUSED: ErrorEntry("The runbook has faults that make it unsafe to run", ExitCode.USAGE),
    ErrorCode.RECOVERY_REFUSED: ErrorEntry("The recovery would do harm, or there is nothing to recover", ExitCode.NEGATIVE),
    ErrorCode.LEDGER_BROKEN: ErrorEntry("The ledger does not verify", ExitCode.NEGATIVE),
    ErrorCode.JOURNAL_DAMAGED: ErrorEntry("The journal cannot be read", ExitCode.INTERNAL),
    ErrorCode.VAULT_DAMAGED: ErrorEntry("The vault holds damaged data", ExitCode.NEGATIVE),
    ErrorCode.VAULT_FENCED: ErrorEntry("The writer's epoch is closed by a fence", ExitCode.NEGATIVE),
    ErrorCode.VAULT_NOT_FOUND: ErrorEntry("No such vault or snapshot", ExitCode.NOT_FOUND),
    ErrorCode.VAULT_FULL: ErrorEntry("No space left for the vault", ExitCode.UNAVAILABLE),
    ErrorCode.VAULT_BUSY: ErrorEntry("Another process does this already", ExitCode.BUSY),
    ErrorCode.VAULT_LOCKED: ErrorEntry("The vault is encrypted and does not open with what was given", ExitCode.USAGE),
    ErrorCode.PORT_NOT_FOUND: ErrorEntry("The outside system does not know this object", ExitCode.NOT_FOUND),
    ErrorCode.PORT_CONFLICT: ErrorEntry("The outside system is in another state than assumed", ExitCode.UNAVAILABLE),
    ErrorCode.PORT_PERMANENT: ErrorEntry("The outside system refused", ExitCode.UNAVAILABLE),
    ErrorCode.PORT_TRANSIENT: ErrorEntry("The outside system is not available now", ExitCode.UNAVAILABLE),
    ErrorCode.PORT_UNKNOWN: ErrorEntry("It is not known whether the outside system did it", ExitCode.UNAVAILABLE),
    ErrorCode.SERVER_MISSING: ErrorEntry("A program that is needed is not installed", ExitCode.UNAVAILABLE),
    ErrorCode.LAB_BUSY: ErrorEntry("Another process changes this lab", ExitCode.BUSY),
    ErrorCode.PLAN_IMPOSSIBLE: ErrorEntry("No plan keeps all limits", ExitCode.NEGATIVE),
    ErrorCode.PROMISE_BROKEN: ErrorEntry("A promise was not kept", ExitCode.NEGATIVE),
    ErrorCode.INTERNAL: ErrorEntry("A fault in Bridgehead itself", ExitCode.INTERNAL),
}


class BridgeheadError(Exception):
    """An error that a user may see.

    Args:
        code: row of the error table.
        tried: what was attempted, as a verb phrase ("read the estate").
        subject: on what (a file with line, a site, a run).
        happened: what happened instead.
        remedy: what to do now.
    """

    def __init__(self, code: ErrorCode, *, tried: str, subject: str, happened: str, remedy: str) -> None:
        self.code = code
        self.tried = tried
        self.subject = subject
        self.happened = happened
        self.remedy = remedy
        super().__init__(f"[{code.value}] could not {tried}: {subject}: {happened}. {remedy}".rstrip())

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command that fails with this error."""
        return TABLE[self.code].exit_code

    @property
    def anchor(self) -> str:
        """Where the documentation explains it."""
        return TABLE[self.code].anchor(self.code)


class PortError(BridgeheadError):
    """Anything that a port raises; always one of the five subclasses."""

    port_code: ErrorCode = ErrorCode.PORT_PERMANENT

    def __init__(self, happened: str, *, tried: str, subject: str, remedy: str = "") -> None:
        super().__init__(self.port_code, tried=tried, subject=subject, happened=happened, remedy=remedy)


class NotFound(PortError):
    """Positive evidence that the object does not exist (never: "could not look")."""

    port_code = ErrorCode.PORT_NOT_FOUND


class Conflict(PortError):
    """The object exists in another state, or the stamp's epoch is older than one already seen. Not retried."""

    port_code = ErrorCode.PORT_CONFLICT


class Permanent(PortError):
    """Refused for a reason that repeating will not change. Nothing was done."""

    port_code = ErrorCode.PORT_PERMANENT


class Transient(PortError):
    """Nothing was done; trying again after ``retry_after_s`` may work."""

    port_code = ErrorCode.PORT_TRANSIENT

    def __init__(self, happened: str, *, tried: str, subject: str, remedy: str = "", retry_after_s: float = 1.0) -> None:
        super().__init__(happened, tried=tried, subject=subject, remedy=remedy)
        self.retry_after_s = retry_after_s


class Unknown(PortError):
    """It may have happened: look (verify) before trying again."""

    port_code = ErrorCode.PORT_UNKNOWN
