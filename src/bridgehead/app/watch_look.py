"""Looking: one round of questions to the vaults, schedulers, trainers, backends and proxies of all sites (R6, R8; J01).

What counts as a sign of life of a site: its scheduler answers, a trainer there has written a new report, a backend there answers, or a
snapshot that was written there is new. That a directory can be read is none. Only where nothing else is connected does the vault's answer
count. An answer is a sign of now; what was written is one of when it was written, however late it is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from bridgehead.app.watch_probes import Probes, Unanswered
from bridgehead.app.watch_scope import WatchScope
from bridgehead.app.wiring import DRIVERS, connect, read_options
from bridgehead.kernel.errors import BridgeheadError, NotFound
from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobRunning
from bridgehead.ports.serving import ServingHealth
from bridgehead.ports.switchboard import Switchboard
from bridgehead.ports.training import TrainingProgress
from bridgehead.recovery.watch.facts import (
    CopyPoint,
    DrillPoint,
    Facts,
    JobFacts,
    Point,
    ServiceFacts,
    Sighted,
    TrainerFacts,
    VaultFacts,
    at,
)
from bridgehead.recovery.watch.liveness import Look
from bridgehead.recovery.watch.scene import COMPUTES
from bridgehead.vault import Vault
from bridgehead.vault.access import readings, speed_bytes_per_s
from bridgehead.vault.drills import last_drills
from bridgehead.vault.layout import snapshot_name

RECHECK_S: Final = 600.0
"""So often a vault is opened anew: what an open one has seen of its packs it takes for granted."""
_SHOWN: Final = 20
"""So many of the last snapshots are looked at: enough for the rhythm of saves."""


class Looked(msgspec.Struct, frozen=True):
    """What one round brought."""

    facts: Facts
    looks: tuple[Look, ...]
    witness: bool | None
    """Whether the witness, which is another place, answered; None: there is none."""


class Looker:
    """Looks at one estate again and again. Vaults are opened at the first look that can, and anew from time to time."""

    def __init__(self, scope: WatchScope, *, probes: Probes) -> None:
        self._scope = scope
        self._ports: dict[str, Switchboard] = {}
        self._probes = probes
        self._vaults: dict[SiteId, tuple[float, Vault]] = {}
        self._listed: dict[str, int] = {}
        """How many snapshots were listed where, while they were being read."""

    def vault(self, site: SiteId) -> Vault:
        """The vault of a site. Raises NotFound, port errors."""
        opened_s, opened = self._vaults.get(site, (-RECHECK_S, None))
        if opened is None or time.monotonic() - opened_s > RECHECK_S:
            opened = self._opened(site)
            self._vaults[site] = (time.monotonic(), opened)
        return opened

    def _opened(self, site: SiteId) -> Vault:
        connection = self._scope.connections["sites"].get(site, {}).get("vault")
        if connection is None:
            raise NotFound("no vault is connected there", tried="look at a vault", subject=site, remedy="Add it to the estate.")
        driver = DRIVERS["vault"][connection["driver"]]()
        options = {key: value for key, value in connection.items() if key != "driver"}
        from bridgehead.app.secrets import vault_credentials

        return Vault.open(driver.make(read_options(options, driver.options)), key=vault_credentials())

    def _connected(self, kind: str, owner: str) -> Switchboard:
        """The ports of one site or service. Each is connected by itself, so that one that cannot be does not hide the others."""
        if owner not in self._ports:
            ports = {name: options for name, options in self._scope.connections[kind][owner].items() if name != "vault"}
            self._ports[owner] = connect({"sites": {}, "services": {}, kind: {owner: ports}})
        return self._ports[owner]

    def look(self, before: Facts, *, now_s: float) -> Looked:
        """One round. ``before``: the facts of the last one."""
        answers = {name: self._explained(name, answer) for name, answer in self._probes.ask(self._questions()).items()}
        facts = Facts(
            vaults=_merged(before.vaults, answers, "vault ", now_s),
            trainers=_merged(before.trainers, answers, "trainer ", now_s, _trainer),
            services=_merged(before.services, answers, "backend ", now_s, _backend),
            traffic=_merged(before.traffic, answers, "traffic ", now_s),
            jobs=_merged(before.jobs, answers, "job ", now_s),
            witness=_merged({"": before.witness}, answers, "witness", now_s).get("", Sighted()),
        )
        sites = [site.id for site in self._scope.estate.sites if site.id != self._scope.witness]
        looks = tuple(self._sign(site, before, facts, answers, now_s) for site in sites)
        return Looked(facts, looks, witness=None if self._scope.witness is None else answers.get("witness") is True)

    def _questions(self) -> dict[str, Callable[[], Any]]:
        asked: dict[str, Callable[[], Any]] = {}
        with_vault = [site for site, ports in self._scope.connections["sites"].items() if "vault" in ports and site != self._scope.witness]
        kept = {one.kept for one in self._scope.protected} | {WorkloadId(one.id) for one in self._scope.estate.datasets}
        for site in with_vault:
            for workload in sorted(kept):
                asked[f"vault {at(workload, site)}"] = partial(self._vault_facts, workload, site)
        if self._scope.witness is not None:
            asked["witness"] = partial(self._witness, self._scope.witness)
        sites = self._scope.connections["sites"]
        for one in self._scope.protected:
            for name, job in one.jobs.items():
                site = SiteId(name)
                if "scheduler" in sites[site]:
                    asked[f"job {at(job, site)}"] = partial(self._job, site, job)
                if "training" in sites[site] and one.workload.kind in COMPUTES:
                    asked[f"trainer {at(one.id, site)}"] = partial(self._progress, site, job)
        for service, ports in self._scope.connections["services"].items():
            if "traffic" in ports:
                asked[f"traffic {service}"] = partial(self._weights, service)
            if "serving" in ports:
                for site in next(one.sites for one in self._scope.estate.services if one.id == service):
                    asked[f"backend {at(service, site)}"] = partial(self._health, service, site)
        return asked

    def _witness(self, site: SiteId) -> bool:
        self.vault(site).file  # noqa: B018  # opened
        any(self.vault(site).place.objects.blobs.list("fences/"))
        return True

    def _job(self, site: SiteId, job: JobName) -> JobFacts:
        match self._connected("sites", site).scheduler(site).observe(job):
            case JobRunning():
                return JobFacts("running")
            case JobEnded():
                return JobFacts("ended")
            case JobAbsent():
                return JobFacts("absent")

    def _progress(self, site: SiteId, job: JobName) -> TrainingProgress | None:
        control = self._connected("sites", site).training(site)
        try:
            return control.progress(job)
        except NotFound:
            return None

    def _weights(self, service: ServiceId) -> dict[SiteId, int]:
        return self._connected("services", service).traffic(service).read(service)

    def _health(self, service: ServiceId, site: SiteId) -> ServingHealth:
        return self._connected("services", service).serving(service).health(service, site)

    def _vault_facts(self, workload: WorkloadId, site: SiteId) -> VaultFacts:
        key = f"vault {at(workload, site)}"
        self._listed.pop(key, None)
        vault = self.vault(site)
        self._listed[key] = len(vault.names(workload))
        found = vault_facts(vault, workload, site=site)
        del self._listed[key]
        return found

    def _explained(self, name: str, answer: Any) -> Any:
        """Of a vault that does answer, and not in time, that it is slow, and what helps."""
        number = self._listed.get(name, 0)
        if not isinstance(answer, Unanswered) or not answer.late or number <= _SHOWN:
            return answer
        helps = "give it longer (`watch --timeout`), or keep fewer (`bridgehead vault retain`)"
        return Unanswered(f"{answer.happened}; it is slow: {number} snapshots: {helps}", late=True)

    def _sign(self, site: SiteId, before: Facts, facts: Facts, answers: Mapping[str, Any], now_s: float) -> Look:
        """What a round says of one site's life."""
        life: dict[str, float] = {}
        silence: list[str] = []
        asked = False
        for kind, what in (("job", "the scheduler"), ("backend", "a backend")):
            for name, answer in _of_site(answers, kind, site):
                asked = True
                if isinstance(answer, Unanswered):
                    silence.append(f"{what} does not answer ({answer.happened})")
                else:
                    life[f"{what} answered ({name})"] = now_s
        for name, answer in _of_site(answers, "trainer", site):
            asked = True
            known = before.trainers.get(at(name, site), Sighted())
            if isinstance(answer, Unanswered):
                silence.append(f"a trainer cannot be seen ({answer.happened})")
            elif answer is not None and known.value is not None and answer.reported_s != known.value.reported_s:
                life[f"trainer {name} reported"] = _made_s(answer.reported_s, known)
        life |= {f"a new snapshot of {site} is at {where}": made_s for where, made_s in _news(site, before, facts)}
        for _, answer in _of_site(answers, "vault", site):
            if isinstance(answer, Unanswered):
                silence.append(f"its vault cannot be read ({answer.happened})")
            elif not asked:
                life["its vault answered (nothing else is connected)"] = now_s
        silent = tuple(dict.fromkeys(silence)) or ("no sign of life",)
        return Look(site, now_s, life=tuple(life), silence=silent, alive_s=max(life.values(), default=None))


def _of_site(answers: Mapping[str, Any], kind: str, site: SiteId) -> list[tuple[str, Any]]:
    found = []
    for name, answer in answers.items():
        word, _, rest = name.partition(" ")
        what, _, where = rest.rpartition("@")
        if word == kind and where == site:
            found.append((what, answer))
    return found


def _made_s(written_s: float, known: Sighted[Any]) -> float:
    """When a site made what is new at a place where it writes itself: when it says so, and not before the place was seen without it: the
    clock of the site may be behind."""
    return written_s if known.seen_s is None else max(written_s, known.seen_s)


def _news(site: SiteId, before: Facts, facts: Facts) -> list[tuple[str, float]]:
    """Vaults in which a snapshot that this site wrote is newer than what was known there, and when it was made. Copies may come late."""
    found = []
    for key, now in facts.vaults.items():
        known = before.vaults.get(key)
        if now.value is None or known is None or known.value is None:
            continue
        had = {point.id for point in known.value.points}
        newest_s = max((point.created_s for point in known.value.points), default=0.0)
        created = [one.created_s for one in now.value.points if one.site == site and one.id not in had and one.created_s > newest_s]
        if created:
            found.append((key, _made_s(max(created), known) if key.endswith(f"@{site}") else max(created)))
    return found


def _backend(answer: ServingHealth) -> ServiceFacts:
    return ServiceFacts(answer.warm, answer.snapshot)


def _trainer(answer: TrainingProgress) -> TrainerFacts:
    return TrainerFacts(answer.state, answer.step, answer.epoch, answer.reported_s, answer.step_ended_s)


def _merged(
    before: Mapping[str, Sighted[Any]],
    answers: Mapping[str, Any],
    prefix: str,
    now_s: float,
    read: Callable[[Any], Any] = lambda answer: answer,
) -> dict[str, Sighted[Any]]:
    found = {}
    for name, answer in answers.items():
        if not name.startswith(prefix):
            continue
        key = name.removeprefix(prefix)
        seen: Sighted[Any] = before.get(key, Sighted())
        if isinstance(answer, Unanswered):
            found[key] = seen.unseen(answer.happened)
        elif answer is None:
            found[key] = Sighted(None, None, "it has not reported yet")
        else:
            found[key] = seen.seen(read(answer), at_s=now_s)
    return found


def vault_facts(vault: Vault, workload: WorkloadId, *, site: SiteId) -> VaultFacts:
    """What one vault holds of a workload, from records alone. Raises Damaged, port errors."""
    survey = vault.survey(workload)
    points = tuple(_point(info) for info in survey.usable[:_SHOWN])
    own = (site, SiteId(f"vault-{vault.file.id[:8]}"))  # as runbooks name it, and as `vault replicate` does by itself
    receipted = {snapshot: holder for holder, snapshot in vault.receipt_names() if holder in own}
    proved = [(point, receipted[point.id]) for point in points if point.id in receipted]
    copies = tuple(CopyPoint(point, vault.read_receipt(point.id, site=holder).verified_s) for point, holder in proved)
    newest = max(((one.epoch, one.step) for one in survey.usable), default=(-1, -1))
    torn = [one for one in survey.passed_over if one.info is not None and one.info.counts and (one.info.epoch, one.info.step) > newest]
    objects = vault.place.objects
    speeds = readings(objects)
    return VaultFacts(
        points=points,
        copies=copies,
        usable=len(survey.usable),
        passed_over=torn[0].reason if torn else "",
        epoch=survey.fence.epoch if survey.fence is not None else 0,
        holder=survey.fence.holder if survey.fence is not None else "",
        drill=_drill(vault, workload),
        bytes_per_s=speed_bytes_per_s(objects),
        speed_s=max((one.at_s for one in speeds), default=None),
    )


def _point(info: SnapshotInfo) -> Point:
    return Point(info.id, info.step, info.epoch, info.created_s, info.raw_bytes, info.site)


def _drill(vault: Vault, workload: WorkloadId) -> DrillPoint | None:
    own = [drill for drill in last_drills(vault.place.objects).values() if _workload_of(drill.snapshot) == workload]
    last = max(own, key=lambda drill: drill.at_s, default=None)
    return DrillPoint(last.snapshot, last.at_s, last.took_s, last.passed, last.happened) if last is not None else None


def _workload_of(snapshot: SnapshotId) -> str:
    try:
        return snapshot_name(snapshot).workload
    except BridgeheadError:
        return ""
