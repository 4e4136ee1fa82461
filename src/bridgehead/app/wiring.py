"""Wiring: the only list of drivers and actions. Adding one is one line here.

Drivers are imported when an estate names them, so that a verb pays only for what it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.blobs import Blobs
from bridgehead.ports.metrics import Metrics, Reading
from bridgehead.ports.scheduler import Scheduler
from bridgehead.ports.serving import Serving
from bridgehead.ports.switchboard import Switchboard
from bridgehead.ports.traffic import Traffic
from bridgehead.ports.training import TrainingControl
from bridgehead.ports.vaults import Vaults
from bridgehead.recovery.actions.fencing import RaiseFence
from bridgehead.recovery.actions.jobs import StartJob, StopJob
from bridgehead.recovery.actions.replication import Precopy, Replicate
from bridgehead.recovery.actions.services import DrainTraffic, ShiftTraffic, StartService
from bridgehead.recovery.actions.training import Hold, ReleaseTarget, Standby
from bridgehead.runbook.action import Action

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


def _process(site: SiteId, options: Options) -> Scheduler:
    from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler

    return ProcessScheduler(site, read_options(options, ProcessOptions))


def _files(site: SiteId, options: Options) -> TrainingControl:
    from bridgehead.drivers.process.control import FileTrainingControl

    return FileTrainingControl(site, read_options(options, DirectoryOptions).directory)


def _traefik(options: Options) -> Traffic:
    from bridgehead.drivers.traefik import TraefikOptions, TraefikTraffic

    return TraefikTraffic(read_options(options, TraefikOptions))


def _haproxy(options: Options) -> Traffic:
    from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyTraffic

    return HaproxyTraffic(read_options(options, HaproxyOptions))


def _prometheus_text(options: Options) -> Metrics:
    from bridgehead.drivers.prometheus import TextMetrics, TextMetricsOptions

    return TextMetrics(read_options(options, TextMetricsOptions))


def _http_serving(options: Options) -> Serving:
    from bridgehead.drivers.httpserving import HttpServing, HttpServingOptions

    return HttpServing(read_options(options, HttpServingOptions))


def _localfs(options: Options) -> Blobs:
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions

    return LocalBlobs(read_options(options, LocalBlobsOptions))


def _http_blobs(options: Options) -> Blobs:
    from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions

    return HttpBlobs(read_options(options, HttpBlobsOptions))


SCHEDULERS: dict[str, Callable[[SiteId, Options], Scheduler]] = {"process": _process}
TRAININGS: dict[str, Callable[[SiteId, Options], TrainingControl]] = {"files": _files}
VAULTS: dict[str, Callable[[Options], Blobs]] = {"localfs": _localfs, "http": _http_blobs}
TRAFFICS: dict[str, Callable[[Options], Traffic]] = {"traefik": _traefik, "haproxy": _haproxy}
METRICS: dict[str, Callable[[Options], Metrics]] = {"prometheus-text": _prometheus_text}
SERVINGS: dict[str, Callable[[Options], Serving]] = {"http": _http_serving}


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
        schedulers={site: _made(SCHEDULERS, c["scheduler"], site) for site, c in sites.items() if "scheduler" in c},
        trainings={site: _made(TRAININGS, c["training"], site) for site, c in sites.items() if "training" in c},
        traffics={service: _made(TRAFFICS, c["traffic"]) for service, c in services.items() if "traffic" in c},
        servings={service: _made(SERVINGS, c["serving"]) for service, c in services.items() if "serving" in c},
        metrics=ServiceMetrics({service: _made(METRICS, c["metrics"]) for service, c in services.items() if "metrics" in c}),
        vaults=_vaults({site: c["vault"] for site, c in sites.items() if "vault" in c}),
    )


class DirectoryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a driver that needs only a folder."""

    directory: str


class ServiceMetrics:
    """Each service has its own source of counters."""

    def __init__(self, sources: Mapping[ServiceId, Metrics]) -> None:
        self._sources = sources

    def read(self, service: ServiceId, site: SiteId) -> Reading:
        """See ``ports.metrics``; a service without a source is no data, and no data never passes a gate."""
        source = self._sources.get(service)
        return source.read(service, site) if source is not None else Reading(counters={}, read_s=0.0)


def _made(registry: Mapping[str, Callable[..., Any]], connection: Options, *site: SiteId) -> Any:
    driver = connection.get("driver")
    if driver not in registry:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="connect a driver",
            subject=repr(driver),
            happened="there is no driver of that name for this port",
            remedy=f"Known: {', '.join(sorted(registry))}.",
        )
    return registry[driver](*site, {key: value for key, value in connection.items() if key != "driver"})


def _vaults(connections: Mapping[SiteId, Options]) -> Vaults:
    from bridgehead.vault import SiteVaults, Vault

    return SiteVaults({site: Vault.open(_made(VAULTS, connection)) for site, connection in connections.items()})
