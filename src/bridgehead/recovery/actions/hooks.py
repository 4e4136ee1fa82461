"""Hooks around a snapshot or a recovery: what was begun before it is always ended after it (R16)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.recovery import Hook, HookPoint, OnHookFailure
from bridgehead.ports.hooks import HookRun, Hooks
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome, Pending

HOOK_POLL_S = 0.05


class HooksParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``hooks.run``: programs in their order.

    Attributes:
        folder: where results and output are kept, in a folder of its own for each run.
        hooks: what is run.
        undo: what a rollback runs: the other half, which must come whatever happened.
    """

    workload: WorkloadId
    site: SiteId
    folder: str
    hooks: tuple[Hook, ...] = ()
    undo: tuple[Hook, ...] = ()


class RunHooks:
    """Run programs one after the other. One before the fact fails the step at once; one after it is tried again. Undo runs ``undo``."""

    name = "hooks.run"
    params_type = HooksParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: HooksParams, call: Call) -> Outcome:
        """Somebody can run them."""
        self._runner()
        return Done()

    def apply(self, params: HooksParams, call: Call) -> Outcome:
        """Run them."""
        told: dict[str, Json] = {}
        for hook in params.hooks:
            run = self._run(hook, params, call)
            if run is None:
                return Pending(HOOK_POLL_S, {"waiting_for": f"hook {hook.id}"})
            told[hook.id] = _told(run)
            if not run.well and hook.on_failure is OnHookFailure.STOP and hook.at in (HookPoint.BEFORE_SNAPSHOT, HookPoint.BEFORE_RECOVERY):
                return _failed(hook, run.happened, run.log)
        return Done({"hooks": told})

    def verify(self, params: HooksParams, call: Call) -> Outcome:
        """Each ended well, or is one that may fail."""
        told = call.applied.get("hooks")
        if told is None:
            return Failed("it is not known that they were run", "They are run now.")
        for hook in params.hooks:
            if told[hook.id]["exit_code"] != 0 and hook.on_failure is OnHookFailure.STOP:
                return _failed(hook, told[hook.id]["happened"], told[hook.id]["log"])
        return Done()

    def undo(self, params: HooksParams, call: Call) -> Outcome:
        """The other half. What has ended well in this run is not run again."""
        told: dict[str, Json] = {}
        for hook in params.undo:
            run = self._run(hook, params, call)
            if run is None:
                return Pending(HOOK_POLL_S, {"waiting_for": f"hook {hook.id}"})
            told[hook.id] = _told(run)
            if not run.well and hook.on_failure is OnHookFailure.STOP:
                return _failed(hook, run.happened, run.log)
        return Done({"hooks": told})

    def _run(self, hook: Hook, params: HooksParams, call: Call) -> HookRun | None:
        env = {"BRIDGEHEAD_RUN": call.stamp.run, "BRIDGEHEAD_WORKLOAD": params.workload, "BRIDGEHEAD_SITE": params.site}
        env["BRIDGEHEAD_HOOK"] = hook.at.value
        return self._runner().run(hook, site=params.site, folder=f"{params.folder}/{call.stamp.run}", env=env, stamp=call.stamp)

    def _runner(self) -> Hooks:
        if self._ports.hooks is None:
            raise NotFound("nothing can run hooks here", tried="run hooks", subject="the estate")
        return self._ports.hooks


def _told(run: HookRun) -> Json:
    found: Json = msgspec.to_builtins(run)
    return found


def _failed(hook: Hook, happened: str, log: str) -> Failed:
    return Failed(f"hook {hook.id} ({hook.at.value}): {happened}", f"See {log}; mend what it stands around by hand if it cannot.")
