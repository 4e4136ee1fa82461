"""Site needs: what a job needs at a site, from its mapped script and from what its site's entry in the recovery file names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from bridgehead.model.recovery import SiteJob
from bridgehead.model.site_map import DatasetPlaces, Kind, SiteMap
from bridgehead.model.site_needs import DataNeed, ImageNeed, Need
from bridgehead.recovery import script_words as sw
from bridgehead.recovery.script_references import Use
from bridgehead.recovery.site_mapping import Mapped
from bridgehead.recovery.site_rules import Rules


class Shape(msgspec.Struct, frozen=True):
    """How large a job is, as its ``#SBATCH`` lines say; 0 where they do not."""

    nodes: int = 1
    gpus_per_node: int = 0
    gpus: int = 0


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
    """Nodes and GPUs that it asks for."""
    nodes, per_node, total = 1, 0, 0
    for option in mapped.script.options:
        number = re.match(r"\d+", option.value)
        if option.name == "nodes" and number:
            nodes = int(number[0])
    named = [option.name for option in mapped.script.options if option.name in ("gres", "gpus", "gpus-per-node", "gpus-per-task")]
    for name, (_, count) in zip([name for name in named], mapped.script.gpus, strict=False):
        if name == "gpus":
            total = count
        elif name in ("gres", "gpus-per-node"):
            per_node = max(per_node, count)
    return Shape(nodes, per_node, total or per_node * nodes)


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
