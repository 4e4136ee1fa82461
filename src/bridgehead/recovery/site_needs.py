"""Site needs: what a job needs at a site, from its mapped script and from what its site's entry in the recovery file names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from bridgehead.model.recovery import SiteJob
from bridgehead.model.site_map import DatasetPlaces, Kind, SiteMap
from bridgehead.model.site_needs import DataNeed, ImageNeed, Need
from bridgehead.recovery import script_words as sw
from bridgehead.recovery.script_references import Use
from bridgehead.recovery.site_mapping import Mapped
from bridgehead.recovery.site_rules import Rules
from bridgehead.recovery.slurm_words import gpus_asked


class Shape(msgspec.Struct, frozen=True):
    """How large a job is, as its ``#SBATCH`` lines say; 0 where they ask for none.

    Attributes:
        unsized: why not all of it can be worked out; then the numbers are the least that it may be. "" when all is known.
    """

    nodes: int = 1
    gpus_per_node: int = 0
    gpus: int = 0
    unsized: str = ""


def needs_of_script(mapped: Mapped, mapping: SiteMap) -> tuple[Need, ...]:
    """What the mapped script needs there; images are not among them (``images_of_script``)."""
    found = []
    for one in mapped.needs:
        where, expected = f"{mapped.file}:{one.line}", ""
        if one.kind is Kind.IMAGE:
            continue
        if one.kind is Kind.VARIABLE and one.use is Use.ASKED:
            expected = mapping.environment.get(one.word, {}).get(mapped.target, "")
        found.append(Need(one.kind, one.word, one.use.value, where, one.holder, expected))
    return tuple(found)


def images_of_script(mapped: Mapped, mapping: SiteMap) -> tuple[ImageNeed, ...]:
    """The images of the mapped script, with what the mapping says of them."""
    rules = Rules(mapping, source=mapped.source, target=mapped.target)
    found = []
    for one in mapped.needs:
        if one.kind is Kind.IMAGE:
            row = rules.image_row(one.word)
            own = re.search(r"sha256:[0-9a-f]{64}", one.word)
            digest = row.digest(mapped.target) if row is not None else own[0] if own else ""
            said = ("", "") if row is None else (row.cuda, row.nccl)
            found.append(ImageNeed(one.word, f"{mapped.file}:{one.line}", digest, *said))
    return tuple(found)


def shape_of_script(mapped: Mapped) -> Shape:
    """Nodes and GPUs that it asks for, as Slurm counts them: of an option that is given twice, the last counts (man sbatch)."""
    last = {one.name: one for one in mapped.script.options}
    said = {name: one.value for name, one in last.items()}
    unsized = ["it is a job of several components"] if re.search(r"^#SBATCH\s+(?:het|pack)job\b", mapped.text, re.MULTILINE) else []
    asked: dict[str, int] = {}
    for name, option in last.items():
        counts = [count for _, count in gpus_asked(option) if count != 0]
        if len(counts) == 1 and counts[0] is not None:
            asked[name] = counts[0]
        elif counts:
            unsized.append(f"--{name}={option.value} is not one type and one number")
    tasks, each = _number(said, "ntasks"), _number(said, "ntasks-per-node")
    shared, per_task = _number(said, "ntasks-per-gpu"), max(asked.get("gpus-per-task", 0), asked.get("tres-per-task", 0))
    by_socket = asked.get("gpus-per-socket", 0) * (_number(said, "sockets-per-node") or 0)
    per_node = max(asked.get("gres", 0), asked.get("gpus-per-node", 0), per_task * (each or 0), by_socket)
    total = max(asked.get("gpus", 0), per_task * (tasks or 0))
    if tasks and shared and not asked:
        total = -(-tasks // shared)
    nodes = _nodes(said, asked, per_node)
    if not {"ntasks", "ntasks-per-node", "gpus"} & set(said):
        per_node = max(per_node, per_task)  # Slurm starts one task on each node
    if nodes == 1 and "nodes" in said:
        per_node = max(per_node, total)
    if nodes is None and (per_node or not total or "nodes" in said):
        unsized.append("its lines do not settle how many nodes it needs")
    if (asked or shared) and not (per_node or total):
        unsized.append(f"its lines do not settle what {', '.join(f'--{name}' for name in asked) or '--ntasks-per-gpu'} comes to")
    least = int(bool(unsized) and any(count != 0 for one in last.values() for _, count in gpus_asked(one)))
    return Shape(nodes or 1, per_node, max(total, per_node * (nodes or 1), least), "; ".join(unsized))


def _number(said: Mapping[str, str], name: str) -> int | None:
    """The number that an option has; None without one."""
    value = said.get(name, "")
    return int(value) if value.isdecimal() else None


def _nodes(said: Mapping[str, str], asked: Mapping[str, int], per_node: int) -> int | None:
    """How many nodes it starts with; None when that is left to Slurm, or cannot be read."""
    tasks, each = _number(said, "ntasks"), _number(said, "ntasks-per-node")
    by_tasks = -(-tasks // each) if tasks and each else 0
    if "nodes" in said:
        found = re.fullmatch(r"(\d+)(-\d+)?", said["nodes"])
        return None if found is None else max(int(found[1]), by_tasks if found[2] else 0, 1)
    if {"nodelist", "nodefile"} & set(said) or ("ntasks" in said and tasks is None) or ("ntasks-per-node" in said and each is None):
        return None
    if by_tasks:
        return by_tasks
    if per_node and asked.get("gpus"):
        return -(-asked["gpus"] // per_node)
    return 1 if "gpus" not in asked and tasks in (None, 1) else None


def needs_of_job(job: SiteJob, *, where: str) -> Iterator[Need]:
    """The paths that a job's command, folder and environment name. What it would make itself is not told apart: all must be there."""
    if job.command[0].startswith("/"):
        yield Need(Kind.PATH, job.command[0], Use.READ.value, f"{where}.command")
    for word in job.command[1:]:
        for found in sw.paths(word):
            yield Need(Kind.PATH, found.text, Use.READ.value, f"{where}.command")
    if job.workdir:
        yield Need(Kind.PATH, job.workdir, Use.READ.value, f"{where}.workdir")
    for name, value in job.env.items():
        for found in sw.paths(value):
            yield Need(Kind.PATH, found.text, Use.READ.value, f"{where}.env.{name}", holder=name)


def datasets_of(mapped: Mapped | None, mapping: SiteMap, *, named: Iterable[str]) -> list[DatasetPlaces]:
    """The data sets that a workload names, or that its mapped script has a path in; one that the mapping lacks has no place."""
    known = {one.id: one for one in mapping.datasets}
    found = {name: known.get(name, DatasetPlaces(name, {})) for name in named}
    if mapped is not None:
        words = [one.word for one in mapped.needs if one.kind is Kind.PATH]
        for one in mapping.datasets:
            place = one.at.get(mapped.target, "")
            if place and any(sw.below(word, place) for word in words):
                found[one.id] = one
    return list(found.values())


def merged(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Each word of a kind once, the first place counts; what is read and made elsewhere in the script is made."""
    found: dict[tuple[Kind, str], Need] = {}
    rank = [Use.READ.value, Use.SET.value, Use.ASKED.value, Use.WRITTEN.value, Use.MADE.value]
    for one in needs:
        key = (one.kind, one.word)
        if key not in found or rank.index(one.use) > rank.index(found[key].use):
            found[key] = one
    return tuple(found.values())


def data_need(one: DatasetPlaces, place: str, *, manifest: str, manifest_hash: str) -> DataNeed:
    """The need of a data set at a place."""
    return DataNeed(one.id, place, manifest, manifest_hash, one.limit_s)
