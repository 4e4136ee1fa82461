"""Site map: what the same thing is called at each site, so that a job of one becomes a job of the other (issue 6; M5.2, M6, P13).

It stands in a policy file under ``mapping``. Each table has rows: a name for the thing, and the word for it at each site. A row reads in
both directions. An empty word says that the site has no such thing and needs none: what asks for it is left out there. A word that no row
covers is never guessed; it is reported.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.quantity import Seconds
from bridgehead.kernel.shape import Keyed

if TYPE_CHECKING:
    # Values of this module travel in runbooks: whoever drives a run needs no reader of files.
    from bridgehead.kernel.decode import Decoder

Row = dict[SiteId, str]
Table = dict[str, Row]
IN_VAULT: Final = "vault"
"""In place of the file of a manifest: that of the newest snapshot at the site."""
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class Kind(enum.StrEnum):
    """What a word in a job script stands for; the value is the table of the mapping that has its rows."""

    PATH = "paths"
    PARTITION = "partitions"
    ACCOUNT = "accounts"
    QOS = "qos"
    CONSTRAINT = "constraints"
    GRES = "gres"
    RESERVATION = "reservations"
    NAME = "names"
    """Nodes, clusters, licenses, environments of conda."""
    MODULE = "modules"
    ENDPOINT = "endpoints"
    VARIABLE = "environment"
    IMAGE = "images"
    DATASET = "datasets"

    @property
    def noun(self) -> str:
        """One of them, for messages."""
        return _NOUNS.get(self, self.value.removesuffix("s"))


_NOUNS: Final = {Kind.QOS: "QoS", Kind.GRES: "gres", Kind.VARIABLE: "variable", Kind.NAME: "name", Kind.DATASET: "data set"}


class ImagePlaces(msgspec.Struct, frozen=True):
    """A container image.

    Attributes:
        at: how jobs of each site name it: a reference in a registry, ``oci:FOLDER``, or a file. Best with its digest, ``...@sha256:...``.
        digests: at sites whose reference has none: ``sha256:...`` of the manifest, or of the file.
        cuda: the version of CUDA that is in it; without it, what the image says of itself.
        nccl: the version of NCCL that is in it; without it, what the image says of itself.
    """

    id: str
    at: Row
    digests: Row = {}
    cuda: str = ""
    nccl: str = ""

    def digest(self, site: SiteId) -> str:
        """The digest by which ``site`` must have it; "" when nobody gave one."""
        found = DIGEST.search(self.at.get(site, ""))
        return found[0] if found else self.digests.get(site, "")


class DatasetPlaces(msgspec.Struct, frozen=True):
    """Data that jobs read.

    Attributes:
        at: its folder at each site.
        manifest: the file with the hash of each of its files, from the policy file's folder: as ``sha256sum`` writes it, or the
            ``.bridgehead/data.json`` of a snapshot. The word ``vault`` stands for that of the workload's newest snapshot at the site.
        limit_s: how long reading all of it may take.
    """

    id: str
    at: Row
    manifest: str = ""
    limit_s: Annotated[Seconds, msgspec.Meta(gt=0)] = 3600.0


class SiteLook(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a site is looked at by a preflight.

    Attributes:
        site: which.
        on_node: words before a command that run it on a node with GPUs, such as ``[srun, --partition=gpu, --gres=gpu:1, --immediate=60]``;
            without them drivers and modules are looked for where commands run, and in the estate.
        python: Python 3.8 or later there; it reads data and images; manifests with BLAKE3 need blake3 there.
        plain_http: registries, as ``host:port``, that are spoken with without TLS.
    """

    site: SiteId
    on_node: tuple[str, ...] = ()
    python: str = "python3"
    plain_http: tuple[str, ...] = ()


class SiteMap(msgspec.Struct, frozen=True):
    """How the job scripts of one site become those of another.

    Attributes:
        paths: folders and files; the longest row that a path lies below counts.
        partitions: of Slurm.
        accounts: that jobs are charged to.
        qos: of Slurm.
        constraints: features of nodes.
        gres: generic resources with their type, as ``gpu:h100``.
        reservations: of Slurm.
        names: nodes, clusters, licenses, environments of conda.
        modules: of Lmod or Environment Modules, with version.
        endpoints: ``host``, ``host:port``, or the beginning of a URL.
        environment: by name of variable: its value at each site.
        images: container images.
        datasets: data that jobs read; their folders are rows of paths too.
        same: words that mean the same at all sites.
        inside: folders that are in the container only; they are neither mapped nor looked for.
        sites: how each is looked at.
    """

    paths: Table = {}
    partitions: Table = {}
    accounts: Table = {}
    qos: Table = {}
    constraints: Table = {}
    gres: Table = {}
    reservations: Table = {}
    names: Table = {}
    modules: Table = {}
    endpoints: Table = {}
    environment: Table = {}
    images: Annotated[tuple[ImagePlaces, ...], Keyed("image")] = ()
    datasets: Annotated[tuple[DatasetPlaces, ...], Keyed("mapped dataset")] = ()
    same: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    sites: Annotated[tuple[SiteLook, ...], Keyed("mapped site", field="site")] = ()

    def rows(self, kind: Kind) -> Iterator[tuple[str, Row]]:
        """(name as ``paths.data``, row) of a table. Data sets are paths too."""
        if kind is Kind.IMAGE:
            yield from ((f"images.{one.id}", one.at) for one in self.images)
            return
        if kind in (Kind.DATASET, Kind.PATH):
            yield from ((f"datasets.{one.id}", one.at) for one in self.datasets)
        if kind is not Kind.DATASET:
            table: Table = getattr(self, kind.value)
            yield from ((f"{kind.value}.{name}", row) for name, row in table.items())

    def look(self, site: SiteId) -> SiteLook:
        """How ``site`` is looked at."""
        return next((one for one in self.sites if one.site == site), SiteLook(site))


def check_site_map(mapping: SiteMap, decoder: Decoder, *, sites: frozenset[str] | None) -> None:
    """Report what the types cannot say: unknown sites, paths that are not absolute, digests that are none.

    Args:
        sites: the sites of the estate; None leaves them unchecked.
    """
    for kind in Kind:
        for name, row in mapping.rows(kind) if kind is not Kind.PATH else ():
            _check_row(kind, name, row, decoder, sites)
    for name, row in mapping.paths.items():
        _check_row(Kind.PATH, f"paths.{name}", row, decoder, sites)
    for image in mapping.images:
        for site, digest in image.digests.items():
            if not DIGEST.fullmatch(digest):
                path = ("mapping", "images", image.id, "digests", site)
                decoder.fault_at(path, f"'{digest}' is no digest", "expected sha256: and 64 hexadecimal digits")


def _check_row(kind: Kind, name: str, row: Row, decoder: Decoder, sites: frozenset[str] | None) -> None:
    path = ("mapping", *name.split(".", 1), *(("at",) if kind in (Kind.IMAGE, Kind.DATASET) else ()))
    if len(row) < 2:
        decoder.fault_at(path, "it names fewer than two sites", "expected the word for it at each site; '' where there is none")
    for site, word in row.items():
        if sites is not None and site not in sites:
            decoder.fault_at((*path, site), f"the estate has no site '{site}'", f"expected one of {', '.join(sorted(sites))}")
        if kind in (Kind.PATH, Kind.DATASET) and word and not word.startswith("/"):
            decoder.fault_at((*path, site), f"'{word}' is no absolute path", "expected a path that begins with '/'")
        if kind is Kind.GRES and word and not re.fullmatch(r"\w+(:[\w.-]+)?", word):
            decoder.fault_at((*path, site), f"'{word}' is no gres", "expected a name and a type, as 'gpu:h100', without a number")
