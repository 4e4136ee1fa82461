"""PlanSet: a plan with the estate and the policy that it was made for, and no others: what is compiled or simulated must fit together."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bridgehead.app.estate_files import load_estate
from bridgehead.app.plan_files import load_plan
from bridgehead.app.runbook_files import read_text
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.estate import Estate
from bridgehead.model.plan import Plan, digest_of
from bridgehead.model.policy import Policy, read_policy


class PlanSet(msgspec.Struct, frozen=True):
    """What belongs together."""

    plan: Plan
    estate: Estate
    policy: Policy


def load_plan_set(plan_file: Path, *, estate_file: Path | None = None, policy_file: Path | None = None) -> PlanSet:
    """Read a plan with its estate and policy; where these are not named they lie beside it, as ``estate.yaml`` and ``policy.yaml``.

    Raises BAD_INPUT with every fault of a file, and when an estate or policy is not the one that the plan was made for.
    """
    plan = load_plan(plan_file)
    estate_path, policy_path = estate_file or beside(plan_file, "estate"), policy_file or beside(plan_file, "policy")
    estate = load_estate(estate_path)
    policy = read_policy(read_text(policy_path, what="policy"), file=str(policy_path), sites={site.id for site in estate.sites})
    pairs = (("estate", estate_path, digest_of(estate), plan.estate), ("policy", policy_path, digest_of(policy), plan.policy))
    for what, path, found, wanted in pairs:
        if found != wanted:
            raise _refused(
                plan_file,
                f"it was made for another {what} than {path} (digest {wanted[:12]}, not {found[:12]})",
                f"Name the {what} of the plan with --{what}, or make a new plan.",
            )
    return PlanSet(plan, estate, policy)


def beside(plan_file: Path, what: str) -> Path:
    """The estate or policy that lies beside the plan. Raises BAD_INPUT when there is none."""
    path = plan_file.parent / f"{what}.yaml"
    if path.is_file():
        return path
    raise _refused(plan_file, f"there is no {path}", f"Name the {what} with --{what}.")


def _refused(plan_file: Path, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_INPUT, tried="read a plan with what it was made for", subject=str(plan_file), happened=happened, remedy=remedy
    )
