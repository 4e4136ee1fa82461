"""Consistency: one moment over model and databases, copied while everything goes on (R10, R16).

The trainer holds first: a checkpoint takes long, and a trainer that saves may itself have to write to a database. Then all databases are
held at the same time, pinned, and released; that is short. Copies are made of what is pinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound, PortError, Transient
from bridgehead.kernel.ids import JobName, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.point import DATABASES, POINT_FILE, Point, PointDatabase, points_of
from bridgehead.model.recovery import Database
from bridgehead.ports.quiesce import Copied, Held, HoldKey
from bridgehead.ports.switchboard import Switchboard
from bridgehead.ports.training import Continue, TrainerState
from bridgehead.recovery.actions.jobs import POLL_S
from bridgehead.recovery.actions.training import QUICK_POLL_S
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome, Pending

WAITS_S: Final = ((0.0, 0.25), (3.0, 0.8), (9.0, 1.5))
"""From when on a hold waits how long for writers. Short at first: who holds one database and waits for another one that we hold stands
still for as long as that. Then shorter than the second after which PostgreSQL looks for deadlocks, so that no transaction of an
application is ended for ours; at last longer, so that its vacuum makes way."""
AGAIN_S: Final = (0.05, 0.13, 0.29, 0.41)
"""Time to the next try: uneven, so that it does not fall into step with writers that we have just let go."""
PATIENCE_S: Final = 12.0
"""So long it is tried in quick succession; then it is an error, which the engine tries again with longer and longer pauses."""
COPY_POLL_S: Final = 0.2


class HoldDatabasesParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``databases.hold``: which, where their copies go, and how long their writers may stand still."""

    databases: tuple[Database, ...]
    folder: str
    pause_s: float = 10.0


class HoldDatabases:
    """Hold all databases at the same time, pin their state, and let them go. Undo lets go and forgets what was pinned."""

    name = "databases.hold"
    params_type = HoldDatabasesParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: HoldDatabasesParams, call: Call) -> Outcome:
        """Each is there, and may be held and copied."""
        return Done({"databases": {one.id: self._ports.database(one.engine).check(one) for one in params.databases}})

    def apply(self, params: HoldDatabasesParams, call: Call) -> Outcome:
        """All or none. Whoever waits for us in one database may hold another one: then all are let go, and another one is tried first."""
        key, moment = _key(call), int(call.now_s * 1000)
        first = moment % len(params.databases)
        wait_s = [wait_s for since_s, wait_s in WAITS_S if call.now_s - call.since_s >= since_s][-1]
        held: dict[str, Held] = {}
        try:
            for one in params.databases[first:] + params.databases[:first]:
                held[one.id] = self._hold(one, key, params, call, wait_s)
        except Transient as error:
            self._let_all_go(params, key)
            if call.now_s - call.since_s >= PATIENCE_S:
                raise
            return Pending(AGAIN_S[moment % len(AGAIN_S)], {"waiting_for": "all databases at once", "said": error.happened})
        except PortError:
            self._let_all_go(params, key)
            raise
        if not all(one.pinned for one in held.values()):
            return Pending(QUICK_POLL_S, {"waiting_for": "copies that are made while writers wait"})
        return self._let_go(params, key, held, call)

    def _let_go(self, params: HoldDatabasesParams, key: HoldKey, held: dict[str, Held], call: Call) -> Outcome:
        released = {one.id: self._ports.database(one.engine).release(one, key=key) for one in params.databases}
        torn = sorted(name for name, one in released.items() if not one.intact)
        if torn:
            self._let_all_go(params, key)
            happened = "it went on before all databases were held, because the hold had ended or its connection was lost"
            raise Transient(happened, tried="hold databases", subject=", ".join(torn), remedy="A larger 'pause' gives it more time.")
        pause_s = max(one.held_s for one in released.values())
        databases = {name: one.evidence for name, one in held.items()}
        return Done({"key": key, "databases": databases, "pause_s": pause_s, "pinned_s": call.now_s})

    def _let_all_go(self, params: HoldDatabasesParams, key: HoldKey) -> None:
        with suppress(PortError):  # it ends by itself, and why we let go says more
            drop_all(self._ports, params.databases, key)

    def _hold(self, one: Database, key: HoldKey, params: HoldDatabasesParams, call: Call, wait_s: float) -> Held:
        driver, folder = self._ports.database(one.engine), f"{params.folder}/{call.stamp.run}"
        return driver.hold(one, key=key, folder=folder, wait_s=min(wait_s, params.pause_s), lasts_s=params.pause_s)

    def verify(self, params: HoldDatabasesParams, call: Call) -> Outcome:
        """What is pinned is there, and its copy has begun."""
        if "key" not in call.applied:
            return Failed("it is not known that they were held", "They are held now.")
        try:
            for one in params.databases:
                self._ports.database(one.engine).copy(one, key=HoldKey(call.applied["key"]))
        except NotFound as lost:
            return Failed(f"{lost.subject}: {lost.happened}", "They are held again.")
        return Done()

    def undo(self, params: HoldDatabasesParams, call: Call) -> Outcome:
        """Nothing is held or pinned."""
        keys = {_key(call), *([HoldKey(call.applied["key"])] if "key" in call.applied else [])}
        for key in keys:
            drop_all(self._ports, params.databases, key)
        return Done()


class GoOnParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``training.continue``: a trainer that holds; ``hold`` is the step that made it."""

    site: SiteId
    job: JobName
    hold: StepId


class GoOn:
    """Let a trainer that was held compute again, in the same epoch. Nothing to undo: the hold's own undo does the same."""

    name = "training.continue"
    params_type = GoOnParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: GoOnParams, call: Call) -> Outcome:
        """It has reported."""
        return Done({"step": self._ports.training(params.site).progress(params.job).step})

    def apply(self, params: GoOnParams, call: Call) -> Outcome:
        """Give the order."""
        self._ports.training(params.site).request(params.job, Continue(), order_id=f"{call.stamp.key}/continue", stamp=call.stamp)
        return Done()

    def verify(self, params: GoOnParams, call: Call) -> Outcome:
        """It obeyed, and computes or has finished."""
        progress = self._ports.training(params.site).progress(params.job)
        if progress.obeyed != f"{call.stamp.key}/continue" and progress.state is not TrainerState.FINISHED:
            return Pending(POLL_S, {"waiting_for": f"{params.job} to go on", "state": progress.state.value})
        asked_s = call.earlier.get(params.hold, {}).get("asked_s")
        return Done({"step": progress.step, "paused_s": None if asked_s is None else max(0.0, call.now_s - asked_s)})

    def undo(self, params: GoOnParams, call: Call) -> Outcome:
        """Nothing."""
        return Done()


class KeepPointParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``point.keep``: the point's snapshot, which names the model's.

    Attributes:
        site: in whose vault.
        hold: the step that made the trainer save; None when nothing trains.
        pinned: the step that held the databases; None when there are none.
        context: the step that captured code and data; None when that is not wanted.
        serves: the name under which the vault has the model that is served; None when none is.
    """

    workload: WorkloadId
    site: SiteId
    databases: tuple[Database, ...] = ()
    hold: StepId | None = None
    pinned: StepId | None = None
    context: StepId | None = None
    serves: WorkloadId | None = None


class KeepPoint:
    """Finish the copies and commit them as one snapshot. Undo forgets the copies; a snapshot that was committed stays: it is true."""

    name = "point.keep"
    params_type = KeepPointParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: KeepPointParams, call: Call) -> Outcome:
        """The model is in the vault, and what was pinned is pinned still."""
        model = self._model(params, call)
        if model is not None and self._ports.vaults.find(SnapshotId(model["snapshot"]), site=params.site) is None:
            return Failed(f"{model['snapshot']} is not in the vault of {params.site}", "See whether somebody has removed it.")
        served = None if params.serves is None else self._ports.vaults.newest(params.serves, site=params.site)
        return Done({"serves": None if served is None else served.id})

    def apply(self, params: KeepPointParams, call: Call) -> Outcome:
        """Copy, then commit."""
        pinned = {} if params.pinned is None else call.earlier[params.pinned]
        copies: dict[str, Copied] = {}
        try:
            for one in params.databases:
                copies[one.id] = self._ports.database(one.engine).copy(one, key=HoldKey(pinned["key"]))
        except NotFound as lost:
            happened = f"{lost.subject}: the process that had pinned it has ended before the copy was made"
            return Failed(happened, "Take the point again; everything goes on, and nothing of this one is left.")
        waiting = {name: copy.size_bytes for name, copy in copies.items() if not copy.done}
        if waiting:
            return Pending(COPY_POLL_S, {"waiting_for": f"copies of {', '.join(waiting)}", "copied_bytes": sum(waiting.values())})
        point, files = self._point(params, call, copies)
        captured = {} if params.context is None else call.earlier[params.context]
        files |= captured.get("files", {})
        own = {"point": "1", "run": point.run, **({} if point.model is None else {"model": point.model})}
        context = {**captured.get("pairs", {}), **own}
        name, second = points_of(params.workload), int(point.pinned_s)
        info = self._ports.vaults.keep(files, workload=name, step=second, site=params.site, context=context, stamp=call.stamp)
        return Done({"snapshot": info.id, "point": msgspec.to_builtins(point), "raw_bytes": info.raw_bytes})

    def verify(self, params: KeepPointParams, call: Call) -> Outcome:
        """Every block of it is read back; then the copies here are not needed any more."""
        if "snapshot" not in call.applied:
            return Failed("it is not known that it was kept", "It is kept now.")
        receipt = self._ports.vaults.receipt(SnapshotId(call.applied["snapshot"]), site=params.site, stamp=call.stamp)
        self._forget(params, call)
        return Done({"blocks": receipt.blocks, "verified_s": receipt.verified_s})

    def undo(self, params: KeepPointParams, call: Call) -> Outcome:
        """Nothing is pinned, and no copy is left outside of the vault."""
        self._forget(params, call)
        return Done()

    def _point(self, params: KeepPointParams, call: Call, copies: dict[str, Copied]) -> tuple[Point, dict[str, bytes | str]]:
        pinned = {} if params.pinned is None else call.earlier[params.pinned]
        model = self._model(params, call)
        found, files = [], dict[str, bytes | str]()
        for one in params.databases:
            copy = copies[one.id]
            path = DATABASES + copy.file.rpartition("/")[2]
            evidence = {**pinned["databases"][one.id], **copy.evidence}
            found.append(PointDatabase(one.id, one.engine, path, copy.size_bytes, evidence))
            files[path] = copy.file
        point = Point(
            format=1,
            run=call.stamp.run,
            workload=params.workload,
            site=params.site,
            pinned_s=pinned.get("pinned_s", call.since_s),
            model=None if model is None else SnapshotId(model["snapshot"]),
            model_step=None if model is None else model["step"],
            serves=call.recorded.get("serves"),
            pause_s=pinned.get("pause_s", 0.0),
            databases=tuple(found),
        )
        files[POINT_FILE] = msgspec.json.format(msgspec.json.encode(point), indent=2) + b"\n"
        return point, files

    def _model(self, params: KeepPointParams, call: Call) -> Json | None:
        return None if params.hold is None else call.earlier[params.hold]

    def _forget(self, params: KeepPointParams, call: Call) -> None:
        key = {} if params.pinned is None else call.earlier.get(params.pinned, {})
        if "key" in key:
            drop_all(self._ports, params.databases, HoldKey(key["key"]))
        captured = None if params.context is None else call.earlier.get(params.context, {}).get("folder")
        if captured is not None and self._ports.captures is not None:
            self._ports.captures.drop(captured)


def drop_all(ports: Switchboard, databases: Sequence[Database], key: HoldKey) -> None:
    """Let go of all of them. Raises the first error after it was tried with each."""
    first: PortError | None = None
    for one in databases:
        try:
            ports.database(one.engine).drop(one, key=key)
        except PortError as error:
            first = first or error
    if first is not None:
        raise first


def _key(call: Call) -> HoldKey:
    return HoldKey(f"{call.stamp.key}/{call.stamp.attempt}")
