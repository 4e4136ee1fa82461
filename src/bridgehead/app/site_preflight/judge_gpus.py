"""Judges GPUs, drivers, CUDA and NCCL at the target against what the job asks for and what its home has (J14; rules section 10)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.app.site_preflight import checks
from bridgehead.app.site_preflight.judge_slurm import case_of, nodes_for
from bridgehead.app.site_preflight.place import Place
from bridgehead.app.site_preflight.slurm import Cluster, gpus_of
from bridgehead.assess.generations import fits
from bridgehead.assess.version import older, plain
from bridgehead.kernel.errors import PortError
from bridgehead.model.finding import Finding, Origin
from bridgehead.model.site_map import Kind
from bridgehead.model.site_needs import NodeClass, SiteNeeds
from bridgehead.recovery.script_references import UNLOADED

_LEAST_DRIVER: Final = {
    **{"11.0": "450.51.05", "11.8": "520.61.05", "12.0": "525.60.13", "12.1": "530.30.02", "12.2": "535.54.03", "12.3": "545.23.06"},
    **{"12.4": "550.54.14", "12.5": "555.42.02", "12.6": "560.28.03", "12.8": "570.26", "12.9": "575.51.03", "13.0": "580.65.06"},
}
"""The driver that came with each CUDA on Linux (release notes of the CUDA Toolkit, table of toolkit and driver versions)."""
_LEAST_OF_MAJOR: Final = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}
"""The oldest driver on which any CUDA of a major version runs in part (CUDA minor version compatibility)."""
_SIZE: Final = "write --nodes and --gpus-per-node into the script"
_READ: Final = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader, on a node with GPUs there"


class Software(msgspec.Struct, frozen=True):
    """Versions that the job brings with it, and with what; "" when nobody knows."""

    cuda: str = ""
    cuda_from: str = ""
    nccl: str = ""
    nccl_from: str = ""


def judge_gpus(needs: SiteNeeds, cluster: Cluster, place: Place, images: dict[str, dict[str, str]]) -> Iterator[Finding]:
    """All of it; nothing for a job without GPUs.

    Args:
        images: what each image said of itself when it was looked at: ``cuda`` and ``nccl`` by its word.
    """
    if not (needs.gpus or needs.gpus_per_node or needs.gpu_model or needs.words(Kind.GRES)):
        return
    yield _count(needs, cluster)
    there = [*_seen(needs, place), *needs.there]
    yield from _model(needs, there)
    brought = _software(needs, images)
    yield _driver(needs, there, brought)
    yield _nccl(needs, there, brought)


def _count(needs: SiteNeeds, cluster: Cluster) -> Finding:
    kinds = [one.word.partition(":")[2] for one in needs.words(Kind.GRES) if one.word.partition(":")[0] == "gpu"]
    kind, each = kinds[0] if kinds else "", needs.gpus_per_node or 1
    words = f"{each} {kind or 'GPUs'}"
    where = next((one.where for one in needs.words(Kind.GRES)), "")
    case = case_of(checks.GPUS, needs, f"gpus:{kind or 'any'}", where)
    nodes = nodes_for(needs, cluster)
    if nodes is None:
        return _declared(needs, kind, each, cluster.missing())
    each_has = [gpus_of(one) for one in nodes]
    enough = [has for has in each_has if (has.get(kind, 0) if kind else sum(has.values())) >= each]
    seen = sorted({f"{count} {name or 'GPUs'}" for has in each_has for name, count in has.items()})
    case.take("GPUs of usable nodes", ", ".join(seen) or "none", "", "scontrol show node", origin=Origin.MEASURED)
    has = f"there: {', '.join(seen) or 'no GPUs'}"
    text = f"{len(enough)} usable nodes have {words}; the job needs {needs.nodes} ({has})"
    remedy = "bring nodes back into service, correct the row of gres, or make the job smaller"
    have, least = len(enough), needs.nodes
    if needs.gpus and not needs.gpus_per_node:
        best = sorted((one.get(kind, 0) if kind else sum(one.values()) for one in each_has), reverse=True)
        have, least = sum(best[: needs.nodes] if needs.nodes > 1 else best), needs.gpus
        text = f"{f'the best {needs.nodes}' if needs.nodes > 1 else 'all'} usable nodes have {have} {kind or 'GPUs'}; the job needs {least}"
    if needs.unsized:
        case.take("size of the job", None, "", "its #SBATCH lines")
        text = f"{text}, or more: {needs.unsized}"
    return case.at_least(have, least, "", text, remedy=remedy, measurement=_SIZE if needs.unsized else "")


def _declared(needs: SiteNeeds, kind: str, each: int, why: str) -> Finding:
    """Without Slurm's word: what the estate says can show that there are too few, never that there are enough in service."""
    case = case_of(checks.GPUS, needs, f"gpus:{kind or 'any'}")
    fitting = [one for one in needs.there if one.gpus >= each and (not kind or fits(kind, one.gpu_model))]
    have = sum(one.nodes for one in fitting)
    if needs.there and have < needs.nodes:
        text = f"the estate has {have} nodes with {each} {kind or 'GPUs'} there; the job needs {needs.nodes}"
        return case.at_least(have, needs.nodes, "", text, remedy="correct the estate, or make the job smaller")
    return case.unknown(f"nobody knows which nodes are in service: {why}", measurement="scontrol -o show node")


def _seen(needs: SiteNeeds, place: Place) -> list[NodeClass]:
    """Models and drivers of the node that a look leads to, a class for each; nothing when there is no such look."""
    if not needs.look.on_node:
        return []
    try:
        result = place.run([*needs.look.on_node, "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], timeout_s=120.0)
    except PortError:
        return []
    rows = Counter(tuple(line.split(", ")) for line in result.text.splitlines() if line.count(", ") == 1)
    if result.exit_code:
        return []
    known = {one.nccl for one in needs.there}
    nccl = known.pop() if len(known) == 1 else ""
    return [NodeClass(1, "a node that was looked at", model, gpus, driver, "", nccl) for (model, driver), gpus in sorted(rows.items())]


def _model(needs: SiteNeeds, there: list[NodeClass]) -> Iterator[Finding]:
    if not needs.gpu_model:
        return
    case = case_of(checks.MODEL, needs, f"model:{needs.gpu_model}")
    models = sorted({one.gpu_model for one in there if one.gpus})
    if not models or "" in models:
        yield case.unknown("the GPU models there are not all known", measurement=_READ)
    else:
        suited = [name for name in models if fits(needs.gpu_model, name)]
        text = f"it needs {needs.gpu_model}; there are {', '.join(models)}"
        yield case.holds(bool(suited), text, remedy="expect other numbers bit for bit and other speed; check memory and parallel layout")


def _software(needs: SiteNeeds, images: dict[str, dict[str, str]]) -> Software:
    """CUDA and NCCL, each declared with the image, said by the image, or of a module; the first image counts, then the last module."""
    found: dict[str, tuple[str, str]] = {}
    for one in needs.images:
        said = images.get(one.word, {})
        for name, version in (("cuda", one.cuda or said.get("cuda")), ("nccl", one.nccl or said.get("nccl"))):
            if version:
                found.setdefault(name, (version, f"image {one.word}"))
    for need in reversed([one for one in needs.words(Kind.MODULE) if one.holder not in UNLOADED]):
        match = re.search(r"(cuda|nccl)[^/]*/v?(\d+(?:\.\d+)+)", need.word, re.IGNORECASE)
        if match is not None:
            found.setdefault(match[1].lower(), (match[2], f"module {need.word}"))
    return Software(*found.get("cuda", ("", "")), *found.get("nccl", ("", "")))


def _driver(needs: SiteNeeds, there: list[NodeClass], brought: Software) -> Finding:
    case = case_of(checks.DRIVER, needs, "driver")
    has = sorted({one.driver for one in there if one.gpus})
    had = sorted({one.driver for one in needs.here if one.gpus and one.driver})
    case.take("drivers there", ", ".join(filter(None, has)) or None, "", f"sites.{needs.target}.nodes.*.firmware.driver")
    case.take("drivers at home", ", ".join(had) or None, "", f"sites.{needs.source}.nodes.*.firmware.driver")
    case.take("CUDA of the job", brought.cuda or None, "", "mapping.images.*.cuda")
    for after in filter(None, has):
        for before in had:
            if older(after, before):
                text = f"driver {after} is older than {before} at {needs.source}, with which checkpoints are written"
                return case.holds(False, text, remedy=f"bring the driver to {before} or later")
        verdict = runs_cuda(after, brought.cuda)
        if verdict is False:
            text = f"driver {after} cannot run CUDA {brought.cuda} of {brought.cuda_from}"
            return case.holds(
                False, text, remedy=f"bring the driver to {least_driver(brought.cuda) or 'a newer one'}, or use an older CUDA"
            )
    vague = any(older(after, before) is None for after in has for before in had)
    if not has or "" in has or not had or vague or not brought.cuda:
        return case.unknown("drivers of both sites, and the CUDA of the job, are not all known and comparable", measurement=_READ)
    unsure = [after for after in has if runs_cuda(after, brought.cuda) is None]
    if unsure:
        text = f"driver {unsure[0]} runs CUDA {brought.cuda} only by minor version compatibility, without what is compiled at run time"
        return case.unknown(text, measurement="run the job's image on one node there")
    return case.holds(True, f"driver {', '.join(has)} runs CUDA {brought.cuda}, and is no older than {', '.join(had)}", remedy="")


def least_driver(cuda: str) -> str:
    """The driver that a version of CUDA came with; of one that is not in the table, that of the next after it. "" when none is known."""
    wanted = ".".join(cuda.split(".")[:2])
    later = [one for one in _LEAST_DRIVER if older(one, wanted) is False]
    return _LEAST_DRIVER[later[0]] if later else ""


def runs_cuda(driver: str, cuda: str) -> bool | None:
    """Whether a driver runs a version of CUDA; None when it does so in part, or nobody can tell."""
    least, oldest = least_driver(cuda) if cuda else "", _LEAST_OF_MAJOR.get(cuda.split(".")[0], "")
    if least and older(driver, least) is False:
        return True
    if oldest and older(driver, oldest):
        return False
    return None


def _nccl(needs: SiteNeeds, there: list[NodeClass], brought: Software) -> Finding:
    case = case_of(checks.NCCL, needs, "nccl")
    if brought.nccl:
        case.take("NCCL of the job", brought.nccl, "", brought.nccl_from)
        return case.holds(True, f"NCCL {brought.nccl} comes with {brought.nccl_from}: all ranks have the same", remedy="")
    has = {plain(one.nccl) for one in there if one.gpus}
    had = {plain(one.nccl) for one in needs.here if one.gpus}
    if len(has - {""}) > 1:
        text = f"nodes there have NCCL {', '.join(sorted(has - {''}))}: ranks of one job must have one version"
        return case.holds(False, text, remedy="bring all nodes to one NCCL, or take it from the image")
    if not has or "" in has or not had or "" in had:
        return case.unknown("which NCCL the job uses is not known at both sites", measurement="strings libnccl.so.2 | grep 'NCCL version'")
    after, before = has.pop(), max(had)
    compared = [older(after, one) for one in had]
    text = f"NCCL {after} there, {before} at {needs.source}"
    if None in compared:
        return case.unknown(f"{text}: nobody can tell which is older", measurement="write both as numbers with dots in the estate")
    return case.holds(True not in compared, text, remedy=f"bring NCCL to {before} or later, or take it from the image")
