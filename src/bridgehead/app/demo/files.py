"""Files: the estate and the runbook of the demo, as a user would write them; the run is started from them like any other."""

from __future__ import annotations

import msgspec

from bridgehead.app import wiring
from bridgehead.app.demo import commands
from bridgehead.app.demo.commands import Training
from bridgehead.app.demo.places import SERVICE, SITES, SOURCE, TARGET, WORKLOAD, Places
from bridgehead.app.demo.scene import Scene
from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyService
from bridgehead.drivers.traefik import TraefikOptions, TraefikService
from bridgehead.drivers.traefik.options import TraefikBackend
from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId
from bridgehead.model import estatefile
from bridgehead.model.estate import Connection, Estate, Service, Site, SiteConnections
from bridgehead.model.runbook import Runbook
from bridgehead.recovery.actions.training import OnSilence
from bridgehead.recovery.runbooks import CanaryRules, Move, ServiceMove, TrainingMove, move_runbook
from bridgehead.runbook.language import write_runbook

SOURCE_TRAINER, TARGET_TRAINER = JobName("lm-a"), JobName("lm-b")
SOURCE_BACKEND, TARGET_BACKEND = JobName("chat-a"), JobName("chat-b")


def traefik_options(scene: Scene) -> TraefikOptions:
    """The embedded proxy: everything to the source at first."""
    backends = {}
    for site in SITES:
        url = f"http://127.0.0.1:{scene.ports.backend[site]}"
        backends[site] = TraefikBackend(url=url, metrics_url=f"{url}/metrics", in_flight_gauge="in_flight")
    service = TraefikService(sites=backends, initial={SOURCE: 100, TARGET: 0})
    return TraefikOptions(
        dynamic_file=str(scene.places.proxy / "dynamic.yaml"),
        admin_url=f"http://127.0.0.1:{scene.ports.admin}",
        services={SERVICE: service},
    )


def haproxy_options(scene: Scene) -> HaproxyOptions:
    """The same behind HAProxy."""
    proxy = scene.places.proxy
    service = HaproxyService(
        listen=f"127.0.0.1:{scene.ports.web}",
        sites={site: f"127.0.0.1:{scene.ports.backend[site]}" for site in SITES},
        initial={SOURCE: 100, TARGET: 0},
    )
    return HaproxyOptions(
        socket=str(proxy / "haproxy.sock"),
        state_file=str(proxy / "weights.json"),
        services={ServiceId(SERVICE): service},
        config_file=str(proxy / "haproxy.cfg"),
    )


def embedded_site(places: Places, site: SiteId, *, vault: Connection) -> Site:
    """A site whose jobs are processes of this machine and whose trainers are reached through files."""
    scheduler = Connection("process", {"directory": str(places.jobs(site))})
    training = Connection("files", {"directory": str(places.control(site))})
    return Site(site, connections=SiteConnections(scheduler=scheduler, training=training, vault=vault))


def write_estate(scene: Scene, traffic: Connection) -> None:
    """Two sites with their schedulers, trainers and vaults, and one service with its proxy, its probe and its backends."""
    places, ports = scene.places, scene.ports
    vaults = {
        SOURCE: Connection("localfs", {"directory": str(places.vault(SOURCE))}),
        TARGET: Connection("http", {"url": scene.wan_url}),
    }
    sites = [embedded_site(places, site, vault=vaults[site]) for site in SITES]
    probe = {site: {"url": f"http://127.0.0.1:{ports.probe}/metrics", "labels": {"service": SERVICE, "site": site}} for site in SITES}
    service = Service(
        SERVICE,
        SITES,
        traffic=traffic,
        metrics=Connection("prometheus-text", {"sources": {SERVICE: probe}}),
        serving=Connection("http", {"backends": {SERVICE: {site: f"http://127.0.0.1:{ports.backend[site]}" for site in SITES}}}),
    )
    estate = Estate(name="demo", sites=tuple(sites), services=(service,))
    places.estate.write_text(f"# Two sites on this machine.\n{estatefile.write_estate(estate, drivers=wiring.driver_options())}")


def write_move(scene: Scene, move: Move) -> Runbook:
    """The runbook of the move, written as YAML."""
    runbook = move_runbook(move)
    scene.places.runbook.write_text(write_runbook(runbook, actions=wiring.action_params()))
    return runbook


def move_of(scene: Scene, training: Training, model: SnapshotId, *, wrong_target: bool, quick: bool, on_silence: OnSilence) -> Move:
    """What is moved: the trainer and the backend, each with what an undo would start again."""
    places, ports = scene.places, scene.ports
    obedient = msgspec.structs.replace(training, ignore_orders=False)
    return Move(
        name="move",
        source=SOURCE,
        target=TARGET,
        training=TrainingMove(
            workload=WORKLOAD,
            source_job=SOURCE_TRAINER,
            standby=commands.trainer(places, obedient, TARGET_TRAINER, site=TARGET, workload=WORKLOAD, standby=True),
            restart=commands.trainer(places, obedient, SOURCE_TRAINER, site=SOURCE, workload=WORKLOAD, standby=True),
            patience_s=4.0,
            on_silence=on_silence,
        ),
        service=ServiceMove(
            service=SERVICE,
            source_job=SOURCE_BACKEND,
            backend=commands.backend(places, ports, TARGET_BACKEND, TARGET, model, wrong=wrong_target),
            restart=commands.backend(places, ports, SOURCE_BACKEND, SOURCE, model),
            model_workload=WORKLOAD,
            model=model,
        ),
        canary=CanaryRules(min_traffic=15 if quick else 60, min_samples=4 if quick else 8, interval_s=0.5 if quick else 1.0),
        step_deadline_s=60.0,
        drain_deadline_s=30.0,
    )
