"""Rebuild file: from which images and by which profile each node is rebuilt when nothing of it can be trusted any more (R15)."""

from __future__ import annotations

import enum
import ipaddress
from typing import Annotated

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.quantity import Seconds, Share
from bridgehead.kernel.shape import Keyed, Ref
from bridgehead.model.equipment import NodeId
from bridgehead.model.fabric import AtLeastOne, Count

Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Mac = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
Url = Annotated[str, msgspec.Meta(pattern="^https?://[^ \"'<>]+[^/ \"'<>]$")]


class Installer(enum.StrEnum):
    """What reads a node's answers once its kernel runs."""

    CLOUD_INIT = "cloud-init"
    """Ubuntu's autoinstall, and images that hold cloud-init: NoCloud over HTTP."""
    KICKSTART = "kickstart"
    """Anaconda: RHEL, Rocky, Alma, Fedora."""


class ImageFile(msgspec.Struct, frozen=True):
    """One file of an image.

    Attributes:
        path: below the folder of images.
        sha256: of its content; what does not match is never served.
    """

    path: str
    sha256: Hash


class Image(msgspec.Struct, frozen=True):
    """What a node boots and installs.

    Attributes:
        id: its name.
        kernel: what the firmware's iPXE starts.
        initrd: the first file system.
        root: the system that is installed; an installer that brings its own needs none.
        arguments: added to the kernel's command line.
    """

    id: Name
    kernel: ImageFile
    initrd: ImageFile
    root: ImageFile | None = None
    arguments: str = ""


class Profile(msgspec.Struct, frozen=True):
    """How nodes of one kind are built: what differs between GPU models stands here, so that nodes name only a profile.

    Attributes:
        id: its name.
        image: what they boot.
        installer: what reads their answers.
        disk: that is overwritten, as ``/dev/nvme0n1``.
        gpu_model: their GPUs, as nvidia-smi calls them.
        gpus: how many each must show when it is back.
        driver: version of the GPU driver that is installed, and must be seen.
        packages: installed besides.
        commands: run once at the end, before the node reports.
    """

    id: Name
    image: Annotated[str, Ref(("image",))]
    disk: Annotated[str, msgspec.Meta(pattern="^/dev/[A-Za-z0-9/_.-]+$")]
    installer: Installer = Installer.CLOUD_INIT
    gpu_model: str = ""
    gpus: Count = 0
    driver: str = ""
    packages: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class NodeBuild(msgspec.Struct, frozen=True):
    """One node.

    Attributes:
        id: its host name.
        profile: how it is built.
        mac: address of the adapter that boots, in lower case with colons.
        address: its address with the length of the prefix, as ``10.0.1.17/22``.
        gateway: the way out; without it none is set.
        resolvers: name servers.
        bmc: where its Redfish service is; without it a person switches it on, and the run waits for that.
        system: its path below ``/redfish/v1/Systems``; without it the only one there.
    """

    id: NodeId
    profile: Annotated[str, Ref(("profile",))]
    mac: Mac
    address: str
    gateway: str = ""
    resolvers: tuple[str, ...] = ()
    bmc: Url | None = None
    system: str = ""


class Controllers(msgspec.Struct, frozen=True):
    """How the nodes' controllers (BMCs) are spoken to. Secrets are in files, which are read for each request.

    Attributes:
        user: a user's name there.
        password_file: the user's password.
        ca_file: certificates (PEM) that are trusted in place of the system's.
        timeout_s: for each wait on one of them.
    """

    user: str = ""
    password_file: str = ""
    ca_file: str = ""
    timeout_s: Annotated[Seconds, msgspec.Meta(gt=0)] = 20.0


class Rebuild(msgspec.Struct, frozen=True):
    """How the nodes of a site are rebuilt.

    Attributes:
        name: its name.
        site: where they are.
        server: where they find their files, as they reach it: `bridgehead netboot serve`.
        images: what they boot.
        profiles: kinds of nodes.
        nodes: which.
        controllers: how their controllers are spoken to.
        keys: public ssh keys of those who may enter as root.
        at_once: how many are built at the same time: the line of the server is shared.
        node_s: how long one may take until it has reported.
        tries: how often one is begun.
        needed: share of the nodes that must be back; those that are not are named.
        deadline_s: for all of them.
    """

    name: str = msgspec.field(name="rebuild")
    site: SiteId
    server: Url
    images: Annotated[tuple[Image, ...], Keyed("image")]
    profiles: Annotated[tuple[Profile, ...], Keyed("profile")]
    nodes: Annotated[tuple[NodeBuild, ...], Keyed("node")]
    controllers: Controllers = Controllers()
    keys: tuple[str, ...] = ()
    at_once: AtLeastOne = 20
    node_s: Annotated[Seconds, msgspec.Meta(gt=0)] = 1800.0
    tries: AtLeastOne = 2
    needed: Annotated[Share, msgspec.Meta(gt=0, le=1)] = 1.0
    deadline_s: Annotated[Seconds, msgspec.Meta(gt=0)] = 7200.0

    def profile(self, node: NodeBuild) -> Profile:
        """How a node is built. Readers have made sure that it exists."""
        return next(one for one in self.profiles if one.id == node.profile)

    def image(self, profile: Profile) -> Image:
        """What its nodes boot. Readers have made sure that it exists."""
        return next(one for one in self.images if one.id == profile.image)


def interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    """An address with its prefix; None when it is none, or the prefix is missing."""
    try:
        return ipaddress.ip_interface(text) if "/" in text else None
    except ValueError:
        return None
