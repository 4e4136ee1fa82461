"""Play: the demo from the first process to the last. What was seen is returned raw; ``evidence`` makes numbers of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from bridgehead.app.demo import commands, files
from bridgehead.app.demo.breakages import Breaker, breaker_for
from bridgehead.app.demo.commands import Training
from bridgehead.app.demo.engine_process import EngineProcess
from bridgehead.app.demo.places import INFRA, PLAIN, SERVICE, SITES, SOURCE, TARGET, UNMOVED, WORKLOAD, Places
from bridgehead.app.demo.scene import Scene
from bridgehead.app.demo.script import Kind, Proxy, Script
from bridgehead.drivers.haproxy.process import haproxy_command
from bridgehead.drivers.haproxy.traffic import HaproxyTraffic
from bridgehead.drivers.httpserving import HttpServing, HttpServingOptions
from bridgehead.drivers.prometheus.text import MetricsSource, TextMetrics, TextMetricsOptions
from bridgehead.drivers.traefik.process import traefik_command
from bridgehead.drivers.traefik.traffic import TraefikTraffic
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import JobName, SiteId, SnapshotId, StepId
from bridgehead.model.estate import Connection
from bridgehead.ports.scheduler import JobSpec
from bridgehead.ports.traffic import Traffic
from bridgehead.recovery.actions.training import OnSilence
from bridgehead.runbook import state as st

Watch = Callable[[str, st.RunState | None], None]
"""Told what is going on now, in words, with the run's state once there is one."""

RATE_PER_S = 250.0
PACE_PER_S = 20.0
SAVE_EVERY = 50
SLOW_LINE_BPS = 20e6
"""Rate of the line when it is cut in the middle of a transfer: slow enough that there is a middle."""
PLAIN_SOURCE, PLAIN_TARGET, UNMOVED_JOB = JobName("plain-a"), JobName("plain-b"), JobName("unmoved")
NEVER = 1_000_000


class Plain(msgspec.Struct, frozen=True):
    """The plain way, really done: seconds from the last step at the source to the first new one at the target."""

    lost_compute_s: float
    step: int


class Seen(msgspec.Struct, frozen=True):
    """What remains after a demo, besides the files in its folder."""

    began_s: float
    ended_s: float
    model: SnapshotId
    state: st.RunState
    resumes_s: list[float]
    plain: Plain | None
    compared_step: int | None
    weights_at_end: dict[SiteId, int]
    wire_bytes: int
    breaker: Breaker


def play(script: Script, places: Places, watch: Watch) -> Seen:
    """Play the whole demo. Raises BridgeheadError when something that has to happen does not."""
    began_s = time.time()
    rate_bps = SLOW_LINE_BPS if script.kind is Kind.NETWORK else 0.0
    with Scene(places, wan_rate_bps=rate_bps) as scene:
        training = Training(seed=script.seed, until=NEVER, pace_per_s=PACE_PER_S, save_every=SAVE_EVERY)
        watch("starting training at site-a", None)
        model, traffic = _set_up(script, scene, training, watch)
        breaker = breaker_for(script.kind, scene)
        engine = EngineProcess(places)
        try:
            state = _follow(engine, breaker, watch)
        finally:
            engine.end()
        plain, wire_bytes = None, scene.wan_status().to_bytes
        if isinstance(state.mode, st.Ended) and state.mode.verdict == "done":
            watch("moving a second training the plain way: stop, copy, start", state)
            plain = _stop_copy_start(scene, training)
        breaker.after(training)
        watch("letting the traffic go on until there is enough to judge", state)
        _finish_load(script, scene)
        compared_step = _finish_training(scene, watch, state) if plain is not None else None
        return Seen(
            began_s=began_s,
            ended_s=time.time(),
            model=model,
            state=state,
            resumes_s=engine.resumes_s,
            plain=plain,
            compared_step=compared_step,
            weights_at_end=traffic.read(SERVICE),
            wire_bytes=wire_bytes,
            breaker=breaker,
        )


def _set_up(script: Script, scene: Scene, training: Training, watch: Watch) -> tuple[SnapshotId, Traffic]:
    """Training and serving at the source, behind the proxy, under load; files written, nothing moved yet."""
    places, ports = scene.places, scene.ports
    source = msgspec.structs.replace(training, ignore_orders=script.kind is Kind.TRAINER)
    scene.start(SOURCE, commands.trainer(places, source, files.SOURCE_TRAINER, site=SOURCE, workload=WORKLOAD))
    traffic, proxy_job, connection = _proxy(script.proxy, scene)
    model = scene.saved(SOURCE, WORKLOAD, at_least=SAVE_EVERY)
    watch("starting the inference server at site-a, the proxy and the load", None)
    scene.start(SOURCE, commands.backend(places, ports, files.SOURCE_BACKEND, SOURCE, model))
    scene.start(INFRA, proxy_job)
    serving = HttpServing(HttpServingOptions(backends={SERVICE: {site: f"http://127.0.0.1:{ports.backend[site]}" for site in SITES}}))
    scene.until(lambda: _quietly(lambda: serving.health(SERVICE, SOURCE).warm), "the inference server at site-a to be warm")
    scene.until(lambda: _quietly(lambda: bool(traffic.read(SERVICE))), "the proxy to answer")
    scene.start(INFRA, commands.load(places, ports, model, places.vault(SOURCE), rate_per_s=RATE_PER_S, seed=script.seed))
    on_silence = OnSilence.LAST_VERIFIED if script.kind is Kind.TRAINER else OnSilence.FAIL
    move = files.move_of(scene, training, model, wrong_target=script.kind is Kind.GATE, quick=script.quick, on_silence=on_silence)
    files.write_estate(scene, connection)
    files.write_move(scene, move)
    for site, name in ((TARGET, files.TARGET_TRAINER), (TARGET, files.TARGET_BACKEND)):
        scene.expect(site, name)
    served = 200 if script.quick else 800
    watch(f"serving at site-a; the move begins after {served} requests", None)
    scene.until(lambda: _requests(scene) >= served, f"the first {served} requests")
    flat_out = msgspec.structs.replace(training, pace_per_s=0.0)
    scene.start(SOURCE, commands.trainer(places, flat_out, UNMOVED_JOB, site=SOURCE, workload=UNMOVED, nice=19))
    return model, traffic


def _proxy(proxy: Proxy, scene: Scene) -> tuple[Traffic, JobSpec, Connection]:
    """The driver, the job that runs the proxy, and the connection of the estate file."""
    match proxy:
        case Proxy.TRAEFIK:
            options = files.traefik_options(scene)
            driver = TraefikTraffic(options)
            driver.install()
            command = traefik_command(options, listen=f"127.0.0.1:{scene.ports.web}")
        case Proxy.HAPROXY:
            other = files.haproxy_options(scene)
            haproxy = HaproxyTraffic(other)
            haproxy.install()
            job = JobSpec(name=JobName("proxy"), command=tuple(haproxy_command(other)), grace_s=5.0)
            return haproxy, job, Connection("haproxy", msgspec.to_builtins(other))
    return (
        driver,
        JobSpec(name=JobName("proxy"), command=tuple(command), grace_s=5.0),
        Connection("traefik", msgspec.to_builtins(options)),
    )


def _follow(engine: EngineProcess, breaker: Breaker, watch: Watch) -> st.RunState:
    """The run, from its start to its end, with what the breaker does to it."""
    engine.start()
    while True:
        alive = engine.alive  # asked first: a run that ends between the two looks is seen as ended
        state = engine.state()
        if state is not None:
            watch("moving", state)
            if isinstance(state.mode, st.Ended | st.NeedsPerson):
                breaker.settle(state)
                return state
        if not alive and not breaker.revives_engine:
            raise _engine_died("it ended before the run did")
        if state is not None:
            breaker.during(state, engine, time.time())
        time.sleep(breaker.poll_s)


def _stop_copy_start(scene: Scene, training: Training) -> Plain:
    """What one does without Bridgehead: stop the trainer, copy its newest checkpoint, start it at the other site."""
    places, vaults = scene.places, scene.vaults()
    scene.start(SOURCE, commands.trainer(places, training, PLAIN_SOURCE, site=SOURCE, workload=PLAIN))
    scene.saved(SOURCE, PLAIN, at_least=SAVE_EVERY)
    scene.stop(SOURCE, PLAIN_SOURCE)
    last = scene.progress(SOURCE, PLAIN_SOURCE)
    newest = vaults.newest(PLAIN, site=SOURCE)
    assert last is not None
    assert newest is not None
    while not vaults.replicate(newest.id, source=SOURCE, target=TARGET, budget_s=5.0, stamp=scene.stamp()).done:
        pass
    scene.start(TARGET, commands.trainer(places, training, PLAIN_TARGET, site=TARGET, workload=PLAIN))

    def first_step_s() -> float:
        progress = scene.progress(TARGET, PLAIN_TARGET)
        return progress.first_step_s if progress is not None else 0.0

    first_s = scene.until(first_step_s, "the plainly moved trainer to go on")
    scene.stop(TARGET, PLAIN_TARGET)
    return Plain(first_s - last.step_ended_s, newest.step)


def _finish_load(script: Script, scene: Scene) -> None:
    """Enough requests, then let every open one come to its end."""
    scene.until(lambda: _requests(scene) >= script.least_requests, f"{script.least_requests} requests", timeout_s=120.0)
    scene.stop(INFRA, JobName("load"))


def _finish_training(scene: Scene, watch: Watch, state: st.RunState) -> int:
    """A step that the target saved after it had computed on, and that the unmoved training saved too; the unmoved one is the quicker."""
    copied = state.steps[StepId("final-copy")]
    assert isinstance(copied, st.Finished)
    resumed_step = int(copied.verified["step"])
    vaults = scene.vaults(over_wan=False)

    def saved_by_target() -> int | None:
        info = vaults.newest(WORKLOAD, site=TARGET)
        return info.step if info is not None and info.site == TARGET and info.step > resumed_step else None

    watch(f"waiting for site-b to save a step after {resumed_step}", state)
    step = scene.until(saved_by_target, f"a snapshot of {WORKLOAD} after step {resumed_step} written at {TARGET}", timeout_s=60.0)
    assert step is not None
    watch(f"comparing weights after step {step} with a training that was never moved", state)
    scene.saved(SOURCE, UNMOVED, at_least=step)
    scene.stop(TARGET, files.TARGET_TRAINER)
    return step


def _requests(scene: Scene) -> float:
    """How many requests the load generator has finished, from its own metrics."""
    page = f"http://127.0.0.1:{scene.ports.probe}/metrics"
    metrics = TextMetrics(TextMetricsOptions(sources={SERVICE: {site: MetricsSource(url=page, labels={"site": site}) for site in SITES}}))
    total = 0.0
    for site in SITES:
        try:
            total += metrics.read(SERVICE, site).counters.get("requests_total", 0.0)
        except PortError:
            continue
    return total


def _quietly(look: Callable[[], bool]) -> bool:
    """False while the other side does not answer yet."""
    try:
        return look()
    except PortError:
        return False


def _engine_died(happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.PROMISE_BROKEN,
        tried="drive the move",
        subject="the engine's process",
        happened=happened,
        remedy="Run with --keep and read log/engine.log in the demo's folder.",
    )
