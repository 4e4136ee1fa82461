"""Plans: would the recovery plan of each workload still work today? (R4, R10; J10, J14)

Re-evaluated at every look. What an estate or recovery file declares is compared with what it was when the plan last held, so that an alarm
says what changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.finding import FindingStatus, Origin, Severity
from bridgehead.recovery.watch.capacity import fits, rooms
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.scene import COMPUTES, Code, Draft, Protected, Scene, shown_s

CREDENTIAL: Final = Code(
    "WCH-CREDENTIAL",
    "Will the certificates and tokens of the connections still be good?",
    "expiry - now > 14 days",
    ("R18",),
    "renew it",
)
VERSIONS: Final = Code(
    "WCH-VERSIONS",
    "Are driver, CUDA and NCCL at the recovery site not older than at home?",
    "for driver, cuda and nccl: oldest version there >= newest at home",
    ("R4", "R10"),
    "bring the nodes there to the versions that the job was built with",
    Severity.WARNING,
)
GRACE: Final = Code(
    "WCH-GRACE",
    "Is the shortest grace period at home long enough for a last save?",
    "measured save <= smallest period of the chain; bytes / rate of writing is the least that it takes, and can only fail (J10)",
    ("M5.2",),
    "raise that period, or ask for the checkpoint before the drain",
    Severity.WARNING,
)
GPU: Final = Code(
    "WCH-GPU",
    "Does the recovery site have the GPUs that the job was written for, and as many?",
    "a node there whose model has all words of gpu_model; fewer ranks than at home need a reshard (J14)",
    ("R4", "R15"),
    "test it on that generation, or choose another recovery site; process images never go over to another GPU",
)
NEEDS: Final = Code(
    "WCH-NEEDS",
    "Is the data that it needs at the recovery site?",
    "a receipt of the recovery site for each of its data sets",
    ("R4", "M9.1"),
    "save the data set under its id, and replicate it",
)
FENCE: Final = Code(
    "WCH-FENCE",
    "Do the vaults agree on who may write?",
    "the epoch in force is the same at home and at the recovery site, and its holder is home",
    ("R8",),
    "finish the move or the recovery that was begun; nothing that the other side writes counts",
)
_COMPONENTS: Final = ("driver", "cuda", "nccl")


def credentials(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-CREDENTIAL of each that is known to end."""
    for one in scene.credentials:
        draft = Draft(CREDENTIAL, one.name)
        draft.dated(scene.now_s)
        if one.expires_s is None:
            yield draft.unknown(f"when it ends cannot be read: {one.happened}", measurement=f"make {one.name} readable")
            continue
        left_s = one.expires_s - scene.now_s
        draft.given("expires", one.expires_s, "s", one.name)
        if left_s <= 0:
            yield draft.fails(f"it ended {shown_s(-left_s)} ago ({one.used_for})")
        else:
            soon = left_s < scene.terms.credential_lead_s
            text = f"it ends in {shown_s(left_s)} ({one.used_for})"
            yield draft.made(FindingStatus.PASS, text, foreseen=soon, breaks_s=one.expires_s)


def versions(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-VERSIONS of each workload with GPUs and a recovery site."""
    for one in _with_gpus(scene):
        draft = Draft(VERSIONS, f"{one.id}@{one.refuge}", workload=one.id, site=str(one.refuge))
        draft.dated(scene.declared_s)
        older, missing = [], []
        for component in _COMPONENTS:
            here, there = _versions(scene, one.home, component), _versions(scene, one.refuge, component)
            draft.given(f"{component} at home", ", ".join(here) or None, "", f"sites.{one.home}.nodes.firmware.{component}")
            source = f"sites.{one.refuge}.nodes.firmware.{component}"
            draft.given(f"{component} there", ", ".join(there) or None, "", source)
            if here and there and _numbers(there[0]) < _numbers(here[-1]):
                older.append(f"{component} {there[0]} there, {here[-1]} at home")
            elif not _told(scene, one.home, component) or not _told(scene, one.refuge, component):
                missing.append(component)
        if older:
            yield draft.fails("; ".join(older))
        elif missing:
            ask = "read the versions of the nodes of both sites (`bridgehead discover`)"
            yield draft.unknown(f"{', '.join(missing)}: not known of every node of both sites", measurement=ask)
        else:
            yield draft.passes("none of them is older there")


def graces(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-GRACE of each workload that saves while it runs."""
    for one in scene.protected:
        if one.workload.kind not in COMPUTES:
            continue
        draft = Draft(GRACE, one.id, workload=one.id, site=one.home)
        draft.dated(scene.declared_s)
        save_s, measured = _save_s(scene, one)
        draft.given("save", save_s, "s", f"workloads.{one.id}.save")
        for grace in one.workload.graces:
            draft.given(grace.id, grace.lasts_s, "s", f"workloads.{one.id}.graces.{grace.id}")
        shortest = min(one.workload.graces, key=lambda grace: grace.lasts_s, default=None)
        if shortest is None or save_s is None:
            lacking = "its grace periods are" if shortest is None else "the time of a save is"
            yield draft.unknown(f"{lacking} not known", measurement="measure a save, and give the chain of grace periods")
            continue
        takes = shown_s(save_s) if measured else f"at least {shown_s(save_s)} (by the rate of its store)"
        text = f"a save takes {takes}, {shortest.id} allows {shown_s(shortest.lasts_s)}"
        if save_s > shortest.lasts_s:
            yield draft.fails(text, value=save_s, limit=shortest.lasts_s, unit="s")
        elif measured:
            yield draft.passes(text, value=save_s, limit=shortest.lasts_s, unit="s")
        else:
            yield draft.unknown(text, measurement="measure a save (save)")


def gpus(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-GPU of each workload with GPUs and a recovery site: generation, and whether it must be resharded."""
    found = rooms(scene)
    for one in _with_gpus(scene):
        site = next((site for site in scene.estate.sites if site.id == one.refuge), None)
        draft = Draft(GPU, f"{one.id}@{one.refuge}", workload=one.id, site=str(one.refuge))
        draft.dated(scene.declared_s)
        models = sorted({node.gpu_model for node in site.nodes if node.gpus}) if site is not None else []
        wanted, need = one.workload.gpu_model, one.workload.gpus
        draft.given("GPU model", wanted or None, "", f"workloads.{one.id}.gpu_model")
        draft.take(
            "models there", ", ".join(filter(None, models)) or None, "", f"sites.{one.refuge}.nodes.gpu_model", origin=Origin.DECLARED
        )
        if not models or "" in models or not wanted:
            lacking = "which GPU it needs" if models and "" not in models else f"which GPUs {one.refuge} has"
            yield draft.unknown(f"{lacking} is not known", measurement="say which GPU the job needs, and list the nodes of both sites")
        elif not any(fits(wanted, model) for model in models):
            yield draft.fails(f"it needs {wanted}, {one.refuge} has {', '.join(models)}")
        else:
            free = found[one.id].free
            fewer = free is not None and free < need
            reshard = f"; with {free} of {need} GPUs its checkpoint must be resharded" if fewer else "; no reshard is needed"
            yield draft.passes(f"{wanted} is there{reshard}")


def needs(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-NEEDS of each workload that names data sets and has a recovery site."""
    for one in scene.protected:
        if one.refuge is None or not one.workload.datasets:
            continue
        draft = Draft(NEEDS, f"{one.id}@{one.refuge}", workload=one.id, site=one.refuge)
        draft.given("data sets", ", ".join(one.workload.datasets), "", f"workloads.{one.id}.datasets")
        homes = {dataset.id: dataset.site for dataset in scene.estate.datasets}
        missing, blind = [], ""
        for name in one.workload.datasets:
            seen = scene.vault(name, one.refuge)
            known = scene.known(seen)
            draft.measured(seen)
            if homes.get(name) == one.refuge or (known is not None and known.copies):
                continue
            if known is None:
                blind = seen.blind or "nobody has looked"
            missing.append(name)
        if not missing:
            yield draft.passes(f"{', '.join(one.workload.datasets)}: there")
        elif blind:
            yield draft.unknown(f"whether {one.refuge} has {', '.join(missing)} is not known: {blind}", measurement="reach its vault")
        else:
            yield draft.fails(f"{one.refuge} has no proved copy of {', '.join(missing)}")


def fences(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-FENCE of each workload that has a vault at both sites."""
    for one in scene.protected:
        if one.refuge is None or one.workload.kind is WorkloadKind.SERVICE:
            continue
        draft = Draft(FENCE, one.id, workload=one.id, site=one.home)
        found = []
        for site in (one.home, one.refuge):
            seen = scene.vault(one.kept, site)
            draft.measured(seen)
            known = scene.known(seen)
            if known is None:
                yield draft.unseen(f"the vault of {site}", seen, now_s=scene.now_s)
                break
            found.append(known)
        if len(found) < 2:
            continue
        here, there = found
        newest = max(found, key=lambda known: known.epoch)
        if newest.epoch and not newest.holder:
            yield draft.unknown(f"whom epoch {newest.epoch} belongs to is not known", measurement="read the newest fence in its vault")
            continue
        if newest.holder and newest.holder != one.home and one.workload.kind in COMPUTES:  # what serves writes nothing
            yield draft.fails(f"epoch {newest.epoch} belongs to {newest.holder}: nothing that {one.home} writes counts")
        elif here.epoch != there.epoch:
            yield draft.fails(f"epoch {here.epoch} is in force at {one.home}, epoch {there.epoch} at {one.refuge}")
        else:
            yield draft.passes(f"epoch {here.epoch} is in force at both" + (f", held by {here.holder}" if here.holder else ""))


def _with_gpus(scene: Scene) -> list[Protected]:
    return [one for one in scene.protected if one.refuge is not None and one.workload.gpus]


def _told(scene: Scene, site: SiteId | None, component: str) -> bool:
    """Whether every node with GPUs says its version in numbers, and there is one."""
    nodes = [node for one in scene.estate.sites if one.id == site for node in one.nodes if node.gpus]
    return bool(nodes) and all(_numbers(node.firmware.get(component, "")) for node in nodes)


def _versions(scene: Scene, site: SiteId | None, component: str) -> list[str]:
    """Of nodes with GPUs, the oldest first."""
    found = {
        node.firmware[component]
        for one in scene.estate.sites
        if one.id == site
        for node in one.nodes
        if node.gpus and node.firmware.get(component)
    }
    return sorted(found, key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))


def _save_s(scene: Scene, one: Protected) -> tuple[float | None, bool]:
    """As measured; else bytes by the rate of writing of its store, which is the least that it can take. And which of the two it is."""
    work = one.workload
    if work.save_s is not None:
        return work.save_s, True
    size = work.total_checkpoint_bytes
    rates = [store.write_bps for site in scene.estate.sites if site.id == one.home for store in site.stores if store.id == work.store]
    return (size * 8 / rates[0] if size and rates and rates[0] else None), False
