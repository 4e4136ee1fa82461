"""Netboot: the files by which a node builds itself anew: iPXE scripts, and cloud-init's or kickstart's answers. Pure (R15).

A node's *build* is the hash of all that makes it: it is the cloud-init instance id, is written to the node's disk at the end of the
installation, and comes back in the node's report. A node that reports another build was not built by this.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from bridgehead.kernel.hashing import document_hash
from bridgehead.model.rebuild import Image, Installer, NodeBuild, Profile, Rebuild, interface

TOKEN_HEADER: Final = "X-Bridgehead-Token"
LOCAL: Final = """\
#!ipxe
# There is no order for this machine, or it is installed: it starts from its disk.
sanboot --no-describe --drive 0x80 || exit
"""
_BUILD_FILE: Final = "/etc/bridgehead-build"
_TOKEN_FILE: Final = "/etc/bridgehead-token"
"""A header for curl, which reads it from there: arguments can be seen by everybody on the node."""
_REPORTER: Final = "/usr/local/sbin/bridgehead-report"
_REPORT: Final = """\
#!/bin/sh
# Tells the server of this rebuild what this node is now. Written by Bridgehead.
set -eu
gpus=0 driver='' model=''
if command -v nvidia-smi >/dev/null; then
    list=$(nvidia-smi --query-gpu=driver_version,name --format=csv,noheader)
    gpus=$(printf '%s\\n' "$list" | grep -c .)
    driver=$(printf '%s\\n' "$list" | sed -n '1s/, .*//p')
    model=$(printf '%s\\n' "$list" | sed 's/^[^,]*, //' | sort -u | paste -sd + -)
fi
printf '{"build":"%s","gpus":%s,"driver":"%s","gpu_model":"%s"}' "$(cat @BUILD_FILE@)" "$gpus" "$driver" "$model" |
    curl -fsS --retry 120 --retry-delay 5 --retry-all-errors -H 'Content-Type: application/json' -H @@TOKEN_FILE@ --data-binary @- @URL@
"""


def build_of(rebuild: Rebuild, node: NodeBuild) -> str:
    """The hash of all that makes a node: its entry, its profile, its image, the keys and the server."""
    profile = rebuild.profile(node)
    whole = {"node": node, "profile": profile, "image": rebuild.image(profile), "keys": rebuild.keys, "server": rebuild.server}
    return document_hash(msgspec.to_builtins(whole))


def token_of(secret: bytes, node: NodeBuild, build: str, *, order: str) -> str:
    """By which a node shows that it installed itself on this very order: HMAC-SHA256 of its name, build and order.

    What ran on the node before has no token of a new order, so that it cannot say that it was replaced.
    """
    return hmac.new(secret, f"{node.id}\n{build}\n{order}".encode(), hashlib.sha256).hexdigest()


def boot_script(rebuild: Rebuild, node: NodeBuild) -> str:
    """What iPXE does for a node that is to be rebuilt."""
    profile = rebuild.profile(node)
    image = rebuild.image(profile)
    files = f"{rebuild.server}/images"
    kernel, initrd = f"{files}/{image.kernel.path}", f"{files}/{image.initrd.path}"
    arguments = " ".join(one for one in (_arguments(rebuild, node, profile, image), image.arguments) if one)
    head = f"#!ipxe\n# {node.id}: rebuilt as {profile.id} from {image.id}\n"
    return f"{head}kernel {kernel} initrd=initrd.magic {arguments}\ninitrd {initrd}\nboot\n"


def node_files(rebuild: Rebuild, node: NodeBuild, *, token: str) -> Mapping[str, str]:
    """Name to content of the answers that the installer of a node asks for."""
    build = build_of(rebuild, node)
    match rebuild.profile(node).installer:
        case Installer.CLOUD_INIT:
            return {
                "user-data": "#cloud-config\n" + yaml.safe_dump(_autoinstall(rebuild, node, build, token), sort_keys=False, width=1000),
                "meta-data": yaml.safe_dump({"instance-id": f"{node.id}-{build[:16]}", "local-hostname": node.id}, sort_keys=False),
                "vendor-data": "",
            }
        case Installer.KICKSTART:
            return {"ks.cfg": _kickstart(rebuild, node, build, token)}


def _arguments(rebuild: Rebuild, node: NodeBuild, profile: Profile, image: Image) -> str:
    own = interface(node.address)
    assert own is not None
    here = f"{rebuild.server}/nodes/{node.id}"
    gateway = node.gateway
    ip = f"[{own.ip}]" if own.version == 6 else str(own.ip)
    mask = own.network.prefixlen if own.version == 6 else own.netmask
    match profile.installer:
        case Installer.CLOUD_INIT:
            # klibc's form: client, server, gateway, netmask, host name, device, how. BOOTIF chooses the adapter.
            root = f" url={rebuild.server}/images/{image.root.path}" if image.root is not None else ""
            return f"autoinstall ip={ip}::{gateway}:{mask}:{node.id}::off BOOTIF=01-{node.mac.replace(':', '-')}{root} ds=nocloud;s={here}/"
        case Installer.KICKSTART:
            network = f"ip={ip}::{gateway}:{mask}:{node.id}:bootif:none bootdev=bootif ifname=bootif:{node.mac}"
            return f"{network} inst.ks={here}/ks.cfg inst.cmdline"


def _report_script(rebuild: Rebuild, node: NodeBuild) -> str:
    words = {"BUILD_FILE": _BUILD_FILE, "TOKEN_FILE": _TOKEN_FILE, "URL": f"{rebuild.server}/nodes/{node.id}/report"}
    text = _REPORT
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text


def _installed(rebuild: Rebuild, node: NodeBuild, token: str) -> str:
    """From then on the server lets the node start from its disk, so that it is never installed in a circle."""
    header = shlex.quote(f"{TOKEN_HEADER}: {token}")
    return f"curl -fsS --retry 120 --retry-delay 5 --retry-all-errors -X POST -H {header} {rebuild.server}/nodes/{node.id}/installed"


def _autoinstall(rebuild: Rebuild, node: NodeBuild, build: str, token: str) -> dict[str, Any]:
    """Ubuntu's autoinstall, with the first boot's cloud-init in it."""
    profile = rebuild.profile(node)
    network: dict[str, Any] = {"match": {"macaddress": node.mac}, "set-name": "boot0", "addresses": [node.address], "dhcp4": False}
    if node.gateway:
        network["routes"] = [{"to": "default", "via": node.gateway}]
    if node.resolvers:
        network["nameservers"] = {"addresses": list(node.resolvers)}
    return {
        "autoinstall": {
            "version": 1,
            "network": {"version": 2, "ethernets": {"boot0": network}},
            "storage": {"layout": {"name": "direct", "match": {"path": profile.disk}}},
            "ssh": {"install-server": True, "allow-pw": False},
            "packages": ["curl", *profile.packages],
            "late-commands": [_installed(rebuild, node, token)],
            "shutdown": "reboot",
            "user-data": {
                "hostname": node.id,
                "preserve_hostname": False,
                "disable_root": False,
                "users": [{"name": "root", "lock_passwd": True, "ssh_authorized_keys": list(rebuild.keys)}],
                "write_files": [
                    {"path": _TOKEN_FILE, "content": f"{TOKEN_HEADER}: {token}\n", "permissions": "0600"},
                    {"path": _BUILD_FILE, "content": build, "permissions": "0644"},
                    {"path": _REPORTER, "content": _report_script(rebuild, node), "permissions": "0700"},
                ],
                # One script that ends at the first fault: a node whose commands failed is not back.
                "runcmd": [["sh", "-ec", "\n".join([*profile.commands, _REPORTER])]],
            },
        }
    }


def _kickstart(rebuild: Rebuild, node: NodeBuild, build: str, token: str) -> str:
    """Anaconda's answers: the image is checked by its hash before anything of it is used."""
    profile = rebuild.profile(node)
    image, own = rebuild.image(profile), interface(node.address)
    assert image.root is not None
    assert own is not None
    if own.version == 6:
        network = f"--noipv4 --ipv6={node.address}" + (f" --ipv6gateway={node.gateway}" if node.gateway else "")
    else:
        network = f"--bootproto=static --ip={own.ip} --netmask={own.netmask}" + (f" --gateway={node.gateway}" if node.gateway else "")
    if node.resolvers:
        network += f" --nameserver={','.join(node.resolvers)}"
    disk = profile.disk.removeprefix("/dev/")
    lines = [
        "# Written by Bridgehead.",
        "text",
        "reboot",
        "lang C.UTF-8",
        "keyboard us",
        "timezone UTC --utc",
        "rootpw --lock",
        *(f'sshkey --username=root "{key}"' for key in rebuild.keys),
        f"network --device={node.mac} --hostname={node.id} --activate {network}",
        f"ignoredisk --only-use={disk}",
        f"clearpart --all --initlabel --drives={disk}",
        "autopart --type=plain --noswap",
        f"liveimg --url={rebuild.server}/images/{image.root.path} --checksum={image.root.sha256}",
        "",
        "%post --erroronfail",
        f"printf %s {build} > {_BUILD_FILE}",
        f"(umask 077; echo {shlex.quote(f'{TOKEN_HEADER}: {token}')} > {_TOKEN_FILE})",
        f"cat > {_REPORTER} <<'BRIDGEHEAD'",
        _report_script(rebuild, node).rstrip(),
        "BRIDGEHEAD",
        f"chmod 700 {_REPORTER}",
        *(["dnf -y install " + shlex.join(profile.packages)] if profile.packages else []),
        "cat > /etc/systemd/system/bridgehead-report.service <<'BRIDGEHEAD'",
        "[Unit]",
        "Description=Finish the rebuild of this node and report",
        "Wants=network-online.target",
        "After=network-online.target",
        "[Service]",
        "Type=oneshot",
        *(f"ExecStart=/bin/sh -c {json.dumps(one.replace('%', '%%').replace('$', '$$'))}" for one in profile.commands),
        f"ExecStart={_REPORTER}",
        "ExecStartPost=/bin/systemctl disable bridgehead-report.service",
        "[Install]",
        "WantedBy=multi-user.target",
        "BRIDGEHEAD",
        "systemctl enable bridgehead-report.service",
        _installed(rebuild, node, token),
        "%end",
    ]
    return "\n".join(lines) + "\n"
