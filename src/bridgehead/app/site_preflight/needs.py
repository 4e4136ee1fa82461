"""Needs: what a protected workload needs at a site, put together from recovery file, mapping, batch script and estate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bridgehead.app.recovery_files import load_recovery
from bridgehead.app.site_preflight.manifests import hash_of_manifest
from bridgehead.app.site_scripts import load_site_map, mapped_script
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import JobName, SiteId, WorkloadId
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Estate
from bridgehead.model.recovery import Protected, Recovery
from bridgehead.model.site_map import IN_VAULT, Kind, SiteMap
from bridgehead.model.site_needs import DataNeed, Need, NodeClass, SiteNeeds
from bridgehead.recovery.site_mapping import Mapped
from bridgehead.recovery.site_needs import (
    Shape,
    data_need,
    datasets_of,
    images_of_script,
    merged,
    needs_of_job,
    needs_of_script,
    shape_of_script,
)


class Files(msgspec.Struct, frozen=True):
    """What needs are read from.

    Attributes:
        file: the recovery file; other files are looked up from its folder.
    """

    file: Path
    recovery: Recovery
    estate: Estate
    mapping: SiteMap


def read_files(recovery: Path, estate: Estate) -> Files:
    """Raises BAD_INPUT with every fault of recovery file or mapping. Without a mapping, only what stands in the estate is asked for."""
    file = load_recovery(recovery, estate=estate)
    mapping = load_site_map(recovery.parent / file.mapping) if file.mapping else SiteMap()
    return Files(recovery, file, estate, mapping)


def needs_of(files: Files, workload: WorkloadId, *, target: SiteId | None = None) -> SiteNeeds:
    """What ``workload`` needs to run at ``target``, by default its refuge.

    Raises BAD_INPUT for a script that cannot be read, BAD_USAGE for an unknown name.
    """
    one = _protected(files, workload, target)
    target = target or one.refuge
    source = one.refuge if target == one.home else one.home
    mapped = _mapped(files, one, target)
    shape = shape_of_script(mapped) if mapped is not None else Shape()
    asked = list(needs_of_script(mapped, files.mapping)) if mapped is not None else []
    asked += needs_of_job(one.job(target), where=f"{files.file}: workloads.{one.id}.jobs.{target}")
    wanted = list(_of_request(files.estate, one, target))
    asked += [need for need, _ in wanted]
    for _, size in wanted:
        shape = size if shape == Shape() else shape
    declared = next((it for it in files.estate.workloads if it.id == workload), None)
    names = (*one.datasets, *(declared.datasets if declared is not None else ()))
    return SiteNeeds(
        workload=workload,
        source=source,
        target=target,
        look=files.mapping.look(target),
        uncovered=tuple(map(str, mapped.uncovered)) if mapped is not None else (),
        script=mapped.text if mapped is not None else "",
        needs=merged(asked),
        images=images_of_script(mapped, files.mapping) if mapped is not None else (),
        datasets=tuple(_datasets(files, mapped, names, target)),
        nodes=shape.nodes,
        gpus_per_node=shape.gpus_per_node,
        gpus=shape.gpus or one.gpus or (declared.gpus if declared is not None else 0),
        unsized=shape.unsized,
        gpu_model=declared.gpu_model if declared is not None else "",
        here=_classes(files.estate, source),
        there=_classes(files.estate, target),
    )


def _protected(files: Files, workload: WorkloadId, target: SiteId | None) -> Protected:
    known = {one.id: one for one in files.recovery.workloads}
    one = known.get(workload)
    if one is None:
        happened, remedy = "the recovery file does not protect it", f"Name one of {', '.join(known)}."
    elif target not in (None, one.home, one.refuge):
        happened, remedy = f"{target} is neither its home nor its refuge", f"Name {one.home} or {one.refuge}."
    else:
        return one
    raise BridgeheadError(ErrorCode.BAD_USAGE, tried="look whether a site is ready", subject=workload, happened=happened, remedy=remedy)


def _mapped(files: Files, one: Protected, target: SiteId) -> Mapped | None:
    """Its script at the target: mapped from its home, or the home's own."""
    if not one.script:
        return None
    return mapped_script(files.file.parent / one.script, files.mapping, source=one.home, target=target)


def _datasets(files: Files, mapped: Mapped | None, names: tuple[str, ...], target: SiteId) -> Iterator[DataNeed]:
    policy = files.file.parent / files.recovery.mapping
    for one in datasets_of(mapped, files.mapping, named=names):
        if one.manifest == IN_VAULT:
            yield data_need(one, one.at.get(target, ""), manifest=IN_VAULT, manifest_hash="")
            continue
        manifest = (policy.parent / one.manifest).absolute() if one.manifest else None
        yield data_need(
            one,
            one.at.get(target, ""),
            manifest=str(manifest or ""),
            manifest_hash=hash_of_manifest(manifest) if manifest is not None else "",
        )


def _of_request(estate: Estate, one: Protected, target: SiteId) -> Iterator[tuple[Need, Shape]]:
    """What the options of a Slurm connection ask for jobs of this name."""
    connection = next((site.connections.scheduler for site in estate.sites if site.id == target), None)
    if connection is None or connection.driver != "slurm":
        return
    from bridgehead.app.wiring import read_options
    from bridgehead.drivers.slurm.options import SlurmOptions

    name = one.job(target).name or JobName(one.id)
    request = read_options(connection.options, SlurmOptions).request(name)
    shape = Shape(request.nodes, request.gpus_per_node, request.gpus_per_node * request.nodes)
    where = f"sites.{target}.connections.scheduler.jobs"
    gres = f"gpu:{request.gpu_type}" if request.gpu_type else "gpu" if request.gpus_per_node else ""
    words = [(Kind.PARTITION, request.partition), (Kind.ACCOUNT, request.account), (Kind.QOS, request.qos)]
    words += [(Kind.RESERVATION, request.reservation), (Kind.CONSTRAINT, request.constraint), (Kind.GRES, gres)]
    yield from ((Need(kind, word, "read", where), shape) for kind, word in words if word)


def _classes(estate: Estate, site: SiteId) -> tuple[NodeClass, ...]:
    """The GPU nodes of a site, those that are alike together."""
    nodes = [node for one in estate.sites if one.id == site for node in one.nodes if node.gpus]
    counts = Counter(map(_alike, nodes))
    first = {_alike(node): node.id for node in reversed(nodes)}
    return tuple(NodeClass(count, first[key], *key) for key, count in sorted(counts.items()))


def _alike(node: Node) -> tuple[str, int, str, str, str]:
    firmware = node.firmware
    return (node.gpu_model, node.gpus, firmware.get("driver", ""), firmware.get("cuda", ""), firmware.get("nccl", ""))


def needs_of_move(recovery: Path, estate: Estate, workloads: Iterable[WorkloadId], target: SiteId) -> tuple[SiteNeeds, ...]:
    """What the workloads of a move need at ``target``; nothing where the recovery file names no mapping. Raises as ``needs_of``."""
    files = read_files(recovery, estate)
    return tuple(needs_of(files, one, target=target) for one in workloads) if files.recovery.mapping else ()
