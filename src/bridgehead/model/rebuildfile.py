"""Rebuild files: YAML to ``Rebuild``, with checks that need more than one field. Every fault is located (R15)."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from bridgehead.kernel.decode import Decoder
from bridgehead.kernel.document import read_document
from bridgehead.kernel.located import Path
from bridgehead.kernel.schema import json_schema
from bridgehead.model.rebuild import ImageFile, Installer, NodeBuild, Rebuild, interface

_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)")


def read_rebuild(text: str, *, file: str) -> Rebuild:
    """Read a rebuild file. Raises BadFile (BAD_INPUT) with every fault, each with line, column and field."""

    def check(rebuild: Rebuild, decoder: Decoder) -> None:
        _check_images(rebuild, decoder)
        _check_profiles(rebuild, decoder)
        for node in rebuild.nodes:
            _check_node(node, decoder)
            _check_controller(node, rebuild, decoder)
        _check_twice(rebuild, decoder)

    return read_document(text, Rebuild, file=file, what="rebuild file", check=check)[0]


def rebuild_schema() -> dict[str, Any]:
    """JSON Schema of rebuild files, for editors."""
    return json_schema(Rebuild, title="Bridgehead rebuild")


def _check_images(rebuild: Rebuild, decoder: Decoder) -> None:
    by_path: dict[str, str] = {}
    for image in rebuild.images:
        here: Path = ("images", image.id)
        parts: list[tuple[str, ImageFile]] = [("kernel", image.kernel), ("initrd", image.initrd)]
        parts += [("root", image.root)] if image.root is not None else []
        for field, part in parts:
            if {"", ".", ".."} & set(part.path.split("/")) or not part.path.isprintable() or " " in part.path:
                decoder.fault_at(
                    (*here, field, "path"), f"'{part.path}' leads out", "expected a path below the folder of images, without spaces"
                )
            if by_path.setdefault(part.path, part.sha256) != part.sha256:
                decoder.fault_at((*here, field, "sha256"), f"'{part.path}' has two hashes", "expected one hash for each file")


def _check_profiles(rebuild: Rebuild, decoder: Decoder) -> None:
    for profile in rebuild.profiles:
        here: Path = ("profiles", profile.id)
        if profile.gpus and not profile.gpu_model:
            decoder.fault_at(
                (*here, "gpus"), "GPUs without a model", "expected 'gpu_model', so that it can be seen that they are the right ones"
            )
        if profile.gpus and not profile.driver:
            decoder.fault_at((*here, "gpus"), "GPUs without a driver", "expected 'driver', the version that must be seen")
        image = next((one for one in rebuild.images if one.id == profile.image), None)
        if image is not None and image.root is None and profile.installer is Installer.KICKSTART:
            decoder.fault_at(
                (*here, "image"), f"image '{image.id}' has no root", "expected 'root', the system that kickstart installs (liveimg)"
            )


def _check_node(node: NodeBuild, decoder: Decoder) -> None:
    here: Path = ("nodes", node.id)
    own = interface(node.address)
    if own is None:
        decoder.fault_at((*here, "address"), f"'{node.address}' is no address with a prefix", "expected one such as 10.0.1.17/22")
    for field, texts in (("gateway", [node.gateway] if node.gateway else []), ("resolvers", node.resolvers)):
        for text in texts:
            try:
                there = ipaddress.ip_address(text)
            except ValueError:
                decoder.fault_at((*here, field), f"'{text}' is no address", "expected one such as 10.0.0.1")
                continue
            if field == "gateway" and own is not None and there not in own.network:
                decoder.fault_at((*here, field), f"{text} is not in {own.network}", "expected a gateway in the node's own network")


def _check_controller(node: NodeBuild, rebuild: Rebuild, decoder: Decoder) -> None:
    plain = node.bmc is not None and node.bmc.startswith("http://")
    if plain and rebuild.controllers.user and not _LOOPBACK.match(node.bmc or ""):
        found = "the password of its controller would go over the network in the clear"
        decoder.fault_at(("nodes", node.id, "bmc"), found, "expected https://")


def _check_twice(rebuild: Rebuild, decoder: Decoder) -> None:
    seen: dict[tuple[str, str], str] = {}
    for node in rebuild.nodes:
        for field, value in (("mac", node.mac), ("address", node.address.partition("/")[0])):
            other = seen.setdefault((field, value), node.id)
            if other != node.id:
                decoder.fault_at(("nodes", node.id, field), f"'{other}' has {value}, too", f"expected another {field} for each node")
