"""Wiring: the only list of drivers and actions. Adding one is one line here.

Drivers are imported when an estate names them, so that a verb pays only for what it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridgehead.app.applications import Databases, FolderCaptures, SiteHooks
from bridgehead.app.secrets import ReferencingScheduler, secret_value
from bridgehead.app.service_metrics import ServiceMetrics
from bridgehead.app.shells import shell_at
from bridgehead.app.site_preflight.lazily import LazyPreflight
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.switchboard import Switchboard
from bridgehead.ports.vaults import Vaults
from bridgehead.recovery.actions.bubble import CloseBubble, FaultsHit, OpenBubble, ProveThis, StartInBubble, StrikeJob
from bridgehead.recovery.actions.capturing import CaptureContext
from bridgehead.recovery.actions.consistency import GoOn, HoldDatabases, KeepPoint
from bridgehead.recovery.actions.doors import DrainNodes, ReserveNodes, ResumeNodes, UnreserveNodes
from bridgehead.recovery.actions.fencing import RaiseFence
from bridgehead.recovery.actions.hooks import RunHooks
from bridgehead.recovery.actions.jobs import StartJob, StopJob
from bridgehead.recovery.actions.losing import ConfirmLoss, MeasureLoss
from bridgehead.recovery.actions.milestones import ProbeReplication, ReachMilestone
from bridgehead.recovery.actions.preflight import PreflightSites
from bridgehead.recovery.actions.promotion import PromoteStandby
from bridgehead.recovery.actions.proving import ProveNewest
from bridgehead.recovery.actions.queues import CheckGrace, HoldJobs, ReleaseJobs
from bridgehead.recovery.actions.ramping import RampTraffic
from bridgehead.recovery.actions.rebuilding import RebuildNodes
from bridgehead.recovery.actions.replication import Precopy, Replicate
from bridgehead.recovery.actions.running import ClearJobs, EnsureJob
from bridgehead.recovery.actions.services import DrainTraffic, ShiftTraffic, StartService
from bridgehead.recovery.actions.takeover import CloseSite, TakeOver
from bridgehead.recovery.actions.training import Hold, ReleaseTarget, Standby
from bridgehead.runbook.action import Action

if TYPE_CHECKING:
    from bridgehead.model.notice import Notice
    from bridgehead.model.notifyfile import Channel
    from bridgehead.ports.blobs import Blobs
    from bridgehead.ports.notify import AnswerWay, Notify
    from bridgehead.vault import Vault

Options = Mapping[str, Any]
Struct = TypeVar("Struct", bound=msgspec.Struct)

ACTIONS: tuple[type[Any], ...] = (
    StartJob,
    StopJob,
    Precopy,
    Replicate,
    Standby,
    Hold,
    ReleaseTarget,
    RaiseFence,
    StartService,
    ShiftTraffic,
    DrainTraffic,
    ProveNewest,
    OpenBubble,
    ProveThis,
    StartInBubble,
    StrikeJob,
    FaultsHit,
    CloseBubble,
    ConfirmLoss,
    TakeOver,
    PromoteStandby,
    EnsureJob,
    RampTraffic,
    ReachMilestone,
    CloseSite,
    ClearJobs,
    MeasureLoss,
    ProbeReplication,
    PreflightSites,
    CheckGrace,
    HoldJobs,
    ReleaseJobs,
    DrainNodes,
    ResumeNodes,
    ReserveNodes,
    UnreserveNodes,
    RebuildNodes,
    RunHooks,
    CaptureContext,
    HoldDatabases,
    GoOn,
    KeepPoint,
)


def actions(ports: Switchboard) -> dict[str, Action]:
    """Every registered action, connected to ``ports``."""
    return {action.name: action(ports) for action in ACTIONS}


def action_params() -> dict[str, type[msgspec.Struct]]:
    """Names of actions with the struct of their ``with:`` block."""
    return {action.name: action.params_type for action in ACTIONS}


def undoable_actions() -> frozenset[str]:
    """Names of the actions that can be undone."""
    return frozenset(action.name for action in ACTIONS if action.undoable)


class Driver(msgspec.Struct, frozen=True):
    """A driver: the struct of its options, and what makes it (of the site, where the port belongs to one, and the options)."""

    options: type[msgspec.Struct]
    make: Callable[..., Any]
    admission: Callable[..., Any] | None = None
    """Of a scheduler that has doors (``ports.admission``): what makes them, of the same."""


def _process() -> Driver:
    from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler

    return Driver(ProcessOptions, ProcessScheduler)


def _slurm() -> Driver:
    from bridgehead.drivers.slurm import SlurmAdmission, SlurmOptions, SlurmScheduler

    return Driver(SlurmOptions, partial(_in_shell, SlurmScheduler), partial(_in_shell, SlurmAdmission))


def _in_shell(kind: Callable[..., Any], site: SiteId, options: Any) -> Any:
    return kind(site, options, shell=shell_at(options.ssh, prefix=options.prefix))


def _kubernetes_jobs() -> Driver:
    from bridgehead.drivers.kubernetes import KubernetesAdmission, KubernetesOptions, KubernetesScheduler

    return Driver(KubernetesOptions, KubernetesScheduler, admission=KubernetesAdmission)


def _files() -> Driver:
    from bridgehead.drivers.process.control import FileTrainingControl

    return Driver(DirectoryOptions, lambda site, options: FileTrainingControl(site, options.directory))


def _traefik() -> Driver:
    from bridgehead.drivers.traefik import TraefikOptions, TraefikTraffic

    return Driver(TraefikOptions, TraefikTraffic)


def _haproxy() -> Driver:
    from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyTraffic

    return Driver(HaproxyOptions, HaproxyTraffic)


def _kubernetes_routes() -> Driver:
    from bridgehead.drivers.kubernetes import KubernetesTraffic, KubernetesTrafficOptions

    return Driver(KubernetesTrafficOptions, KubernetesTraffic)


def _prometheus_text() -> Driver:
    from bridgehead.drivers.prometheus import TextMetrics, TextMetricsOptions

    return Driver(TextMetricsOptions, TextMetrics)


def _prometheus() -> Driver:
    from bridgehead.drivers.prometheus import PrometheusMetrics, PrometheusOptions

    return Driver(PrometheusOptions, PrometheusMetrics)


def _http_serving() -> Driver:
    from bridgehead.drivers.httpserving import HttpServing, HttpServingOptions

    return Driver(HttpServingOptions, HttpServing)


def _localfs() -> Driver:
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions

    return Driver(LocalBlobsOptions, LocalBlobs)


def _http_blobs() -> Driver:
    from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions

    return Driver(HttpBlobsOptions, HttpBlobs)


def _s3() -> Driver:
    from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions

    return Driver(S3BlobsOptions, S3Blobs)


def _view() -> Driver:
    from pathlib import Path

    from bridgehead.training.opening import blobs_in

    return Driver(DirectoryOptions, lambda options: blobs_in(Path(options.directory)))


def _webhook() -> Driver:
    from bridgehead.drivers.notify import WebHook, WebHookOptions

    return Driver(WebHookOptions, lambda options, answers: WebHook(options, secret=secret_value, answers=answers))


def _email() -> Driver:
    from bridgehead.drivers.notify import Mail, MailOptions

    return Driver(MailOptions, lambda options, answers: Mail(options, secret=secret_value))


def _alertmanager() -> Driver:
    from bridgehead.drivers.notify import Alertmanager, AlertmanagerOptions

    return Driver(AlertmanagerOptions, lambda options, answers: Alertmanager(options))


def _local_bubbles() -> Driver:
    from bridgehead.drivers.bubble import LocalBubbles, LocalBubblesOptions

    return Driver(LocalBubblesOptions, LocalBubbles)


def _netboot() -> Driver:
    from bridgehead.drivers.netboot import NetbootMachines, NetbootOptions

    return Driver(NetbootOptions, NetbootMachines)


def _local_shell() -> Driver:
    from bridgehead.drivers.shell import LocalShell, LocalShellOptions

    return Driver(LocalShellOptions, lambda site, options: LocalShell(options))


def _ssh() -> Driver:
    from bridgehead.drivers.ssh import SshShell
    from bridgehead.model.login import SshOptions

    return Driver(SshOptions, lambda site, options: SshShell(options))


DRIVERS: dict[str, dict[str, Callable[[], Driver]]] = {
    "scheduler": {"process": _process, "slurm": _slurm, "kubernetes": _kubernetes_jobs},
    "training": {"files": _files},
    "vault": {"localfs": _localfs, "http": _http_blobs, "s3": _s3, "view": _view},
    "traffic": {"traefik": _traefik, "haproxy": _haproxy, "kubernetes": _kubernetes_routes},
    "metrics": {"prometheus-text": _prometheus_text, "prometheus": _prometheus},
    "serving": {"http": _http_serving},
    "bubbles": {"local": _local_bubbles},
    "machines": {"netboot": _netboot},
    "shell": {"local": _local_shell, "ssh": _ssh},
}
"""Port to driver to the function that imports it."""

CHANNELS: dict[str, Callable[[], Driver]] = {"webhook": _webhook, "email": _email, "alertmanager": _alertmanager}
"""Drivers of the notify port, which notify files name, not estates."""


def driver_options() -> dict[str, dict[str, Callable[[], type[msgspec.Struct]]]]:
    """Port to driver to a function that imports the struct of its options, as the estate reader takes it."""
    return {port: {name: partial(_options_of, load) for name, load in drivers.items()} for port, drivers in DRIVERS.items()}


def channel_options() -> dict[str, Callable[[], type[msgspec.Struct]]]:
    """As ``driver_options``, of the channels of notify files."""
    return {name: partial(_options_of, load) for name, load in CHANNELS.items()}


def _options_of(load: Callable[[], Driver]) -> type[msgspec.Struct]:
    return load().options


def read_options(options: Options, kind: type[Struct]) -> Struct:
    """The driver's own options. Raises BAD_INPUT, naming the field, when they do not fit."""
    try:
        return msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read the options of a driver",
            subject=kind.__name__,
            happened=str(error),
            remedy="The driver's page in docs/reference lists its options.",
        ) from error


def connect(connections: Mapping[str, Any]) -> Switchboard:
    """Ports for the connections of an estate: ``{"sites": {site: {port: {driver, options...}}}, "services": {...}}``.

    Raises BAD_INPUT for an unknown driver or wrong options.
    """
    sites: dict[SiteId, Mapping[str, Any]] = connections["sites"]
    services: dict[ServiceId, Mapping[str, Any]] = connections["services"]
    return Switchboard(
        schedulers={site: ReferencingScheduler(_made("scheduler", c["scheduler"], site)) for site, c in sites.items() if "scheduler" in c},
        trainings={site: _made("training", c["training"], site) for site, c in sites.items() if "training" in c},
        traffics={service: _made("traffic", c["traffic"]) for service, c in services.items() if "traffic" in c},
        servings={service: _made("serving", c["serving"]) for service, c in services.items() if "serving" in c},
        metrics=ServiceMetrics({service: _made("metrics", c["metrics"]) for service, c in services.items() if "metrics" in c}),
        vaults=_vaults({site: c["vault"] for site, c in sites.items() if "vault" in c}),
        bubbles=_made("bubbles", connections["bubbles"]) if "bubbles" in connections else None,
        preflight=LazyPreflight(connections),
        databases=Databases(),
        admissions=_admissions({site: c["scheduler"] for site, c in sites.items() if "scheduler" in c}),
        rooms={SiteId(site): _made("machines", options, SiteId(site)) for site, options in connections.get("machines", {}).items()},
        captures=FolderCaptures(),
        hooks=SiteHooks({site: partial(_made, "shell", c["shell"], site) for site, c in sites.items() if "shell" in c}),
    )


class DirectoryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a driver that needs only a folder."""

    directory: str


def _made(port: str, connection: Options, *site: SiteId) -> Any:
    driver, options = _driver_of(port, connection)
    return driver.make(*site, options)


def _driver_of(port: str, connection: Options) -> tuple[Driver, Any]:
    """The driver that a connection names, and its options. Raises BAD_INPUT."""
    known, name = DRIVERS[port], connection.get("driver")
    if name is None or name not in known:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried=f"connect the {port}",
            subject=f"driver {name!r}",
            happened="there is no driver of that name for this port",
            remedy=f"Known: {', '.join(sorted(known))}.",
        )
    driver = known[name]()
    return driver, read_options({key: value for key, value in connection.items() if key != "driver"}, driver.options)


def notify_channel(channel: Channel, *, answers: Callable[[Notice], AnswerWay | None]) -> Notify:
    """A way to tell people. Raises BAD_INPUT for options that do not fit.

    Args:
        answers: how an ask is answered by web hook.
    """
    driver = CHANNELS[channel.driver]()
    made: Notify = driver.make(read_options(channel.options, driver.options), answers)
    return made


def _admissions(connections: Mapping[SiteId, Options]) -> dict[SiteId, Any]:
    """Doors of the schedulers that have some; they are reached as the scheduler is."""
    found = {site: _driver_of("scheduler", connection) for site, connection in connections.items()}
    return {site: driver.admission(site, options) for site, (driver, options) in found.items() if driver.admission is not None}


def _vaults(connections: Mapping[SiteId, Options]) -> Vaults:
    from bridgehead.vault import SiteVaults

    stores = {site: _made("vault", connection) for site, connection in connections.items()}
    # Opened at first use: a site that is out of reach is an error of the calls to it, not of the whole estate.
    return SiteVaults({site: partial(opened, store) for site, store in stores.items()})


def store_at(connection: Options) -> Blobs:
    """The blob store of a vault's connection. Raises BAD_INPUT."""
    store: Blobs = _made("vault", connection)
    return store


def opened(store: Blobs) -> Vault:
    """The vault in a store, with the keys that the environment gives. Raises VAULT_LOCKED, Damaged, NoVault, port errors."""
    from bridgehead.app.secrets import vault_credentials
    from bridgehead.vault import Vault

    return Vault.open(store, key=vault_credentials())
