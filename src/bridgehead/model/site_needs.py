"""What a workload needs at a site, as a preflight proves it before anything is stopped (issue 6; J14, M5.1, P13). Plain values only."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.site_map import Kind, SiteLook


class Need(msgspec.Struct, frozen=True, omit_defaults=True):
    """One word of the job that must mean something there.

    Attributes:
        use: ``read`` must be there, ``written`` into a folder that must be there, ``made`` with the folders around it, ``set`` by the
            job, ``asked`` of the site's environment.
        where: ``file:line``, or the field that names it.
        holder: the option or variable that it is the value of.
        expected: of a variable that is asked for: its value, where the mapping says.
    """

    kind: Kind
    word: str
    use: str
    where: str
    holder: str = ""
    expected: str = ""


class ImageNeed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A container image.

    Attributes:
        digest: "" when nobody gave one.
        cuda, nccl: that are in it, where somebody said so.
    """

    word: str
    where: str
    digest: str
    cuda: str = ""
    nccl: str = ""


class DataNeed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A data set.

    Attributes:
        place: its folder there; "" when the mapping names none.
        manifest: path of the manifest where the preflight runs; "" when there is none, ``vault`` for that of the newest snapshot.
        manifest_hash: BLAKE3 of the manifest when the need was written down.
        limit_s: how long reading all of it may take.
    """

    id: str
    place: str
    manifest: str = ""
    manifest_hash: str = ""
    limit_s: float = 3600.0


class NodeClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nodes with GPUs that are alike, as the estate has them.

    Attributes:
        nodes: how many.
        example: one of them.
        gpus: of each.
    """

    nodes: int
    example: str
    gpu_model: str
    gpus: int
    driver: str = ""
    cuda: str = ""
    nccl: str = ""


class SiteNeeds(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a workload needs at ``target``, and what its home has of it.

    Attributes:
        uncovered: what the mapping does not cover, each with file and line.
        script: the batch script as it would be submitted there; "" when there is none.
        nodes: that the job asks for.
        gpus_per_node: that it asks for; 0 when it asks for none, or only in all.
        gpus: in all; 0 when nobody said.
        unsized: why nodes and GPUs are not all known; then they are the least that it may need. "" when they are.
        gpu_model: that the estate says it needs; may be empty.
        here, there: GPU nodes of source and target.
        look: how the target is looked at.
    """

    workload: WorkloadId
    source: SiteId
    target: SiteId
    look: SiteLook
    uncovered: tuple[str, ...] = ()
    script: str = ""
    needs: tuple[Need, ...] = ()
    images: tuple[ImageNeed, ...] = ()
    datasets: tuple[DataNeed, ...] = ()
    nodes: int = 1
    gpus_per_node: int = 0
    gpus: int = 0
    unsized: str = ""
    gpu_model: str = ""
    here: tuple[NodeClass, ...] = ()
    there: tuple[NodeClass, ...] = ()

    def words(self, kind: Kind) -> tuple[Need, ...]:
        """What is needed of one kind."""
        return tuple(one for one in self.needs if one.kind is kind)
