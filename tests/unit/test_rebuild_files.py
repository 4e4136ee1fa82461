"""Rebuild files: what they may say, how faults are told, and what installers are given (R15)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from bridgehead.kernel.errors import BridgeheadError
from bridgehead.model.rebuildfile import read_rebuild, rebuild_schema
from bridgehead.recovery.netboot import boot_script, build_of, node_files, token_of

TEXT = (Path(__file__).resolve().parents[2] / "examples" / "rebuild" / "rebuild.yaml").read_text()


def test_the_example_is_read_and_the_schema_takes_it() -> None:
    rebuild = read_rebuild(TEXT, file="rebuild.yaml")
    assert [node.id for node in rebuild.nodes] == ["gpu-001", "gpu-002"]
    jsonschema.validate(yaml.safe_load(TEXT), rebuild_schema())


@pytest.mark.parametrize(
    ("old", "new", "at", "field", "found"),
    [
        (
            'profile: h100, mac: "02:00:5e:10:00:02"',
            'profile: h200, mac: "02:00:5e:10:00:02"',
            "  gpu-002:",
            "nodes.gpu-002.profile",
            "h200",
        ),
        ("02:00:5e:10:00:02", "02:00:5e:10:00:01", "  gpu-002:", "nodes.gpu-002.mac", "'gpu-001' has 02:00:5e:10:00:01"),
        ("10.20.1.2/16", "10.20.1.1/16", "  gpu-002:", "nodes.gpu-002.address", "'gpu-001' has 10.20.1.1"),
        ("10.20.1.2/16", "10.20.1.2", "  gpu-002:", "nodes.gpu-002.address", "no address with a prefix"),
        ("10.20.1.2/16", "10.99.1.2/16", "  gpu-002:", "nodes.gpu-002.gateway", "10.20.0.254 is not in 10.99.0.0/16"),
        ("ubuntu-24.04/vmlinuz", "../vmlinuz", "kernel:", "images.ubuntu-24.04.kernel.path", "leads out"),
        ("driver: 550.54.15", "driver: ''", "gpus:", "profiles.h100.gpus", "GPUs without a driver"),
        ("disk: /dev/nvme0n1", "disk: nvme0n1; rm", "disk:", "profiles.h100.disk", "nvme0n1; rm"),
        ('bmc: "https://10.21.1.2"', 'bmc: "http://10.21.1.2"', "  gpu-002:", "nodes.gpu-002.bmc", "in the clear"),
        ("http://10.20.0.1:8080", "http://10.20.0.1:8080/", "server:", "server", "8080/"),
    ],
)
def test_each_fault_names_line_and_field(old: str, new: str, at: str, field: str, found: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new)
    with pytest.raises(BridgeheadError) as told:
        read_rebuild(text, file="rebuild.yaml")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if at in one)
    message = str(told.value.happened) + str(told.value)
    assert field in message
    assert found in message
    assert f"rebuild.yaml:{line}" in message


def test_the_build_is_of_all_that_makes_a_node_and_of_nothing_else() -> None:
    first = read_rebuild(TEXT, file="x")
    node = first.nodes[0]
    for old, new in (("550.54.15", "550.54.16"), ("AAAAC3", "AAAAC4"), ("10.20.1.1/16", "10.20.1.9/16"), ("12f2ed", "12f2ee")):
        other = read_rebuild(TEXT.replace(old, new), file="x")
        assert build_of(other, other.nodes[0]) != build_of(first, node), old
    same = read_rebuild(TEXT.replace("at_once: 20", "at_once: 3").replace("10.20.1.2/16", "10.20.1.8/16"), file="x")
    assert build_of(same, same.nodes[0]) == build_of(first, node)
    tokens = {token_of(b"s", one, build_of(first, one), order=order) for one in first.nodes for order in ("1", "2")}
    assert len(tokens) == 4


@pytest.mark.parametrize("address", [("10.20.1.1/16", "10.20.0.254"), ("fd00:20::1/64", "fd00:20::ff")])
def test_kickstart_checks_the_image_and_its_scripts_are_shell(address: tuple[str, str], tmp_path: Path) -> None:
    text = TEXT.replace("    disk:", "    installer: kickstart\n    disk:").replace(
        "address: 10.20.1.1/16, gateway: 10.20.0.254", f'address: "{address[0]}", gateway: "{address[1]}"'
    )
    text = text.replace('commands: ["systemctl enable --now slurmd"]', 'commands: ["echo \'50 %\' $HOME \\"a b\\""]')
    rebuild = read_rebuild(text, file="x")
    node = rebuild.nodes[0]
    answers = node_files(rebuild, node, token="t0ken")["ks.cfg"]
    root = rebuild.images[0].root
    assert f"liveimg --url=http://10.20.0.1:8080/images/{root.path} --checksum={root.sha256}" in answers
    assert "ignoredisk --only-use=nvme0n1" in answers
    assert 'ExecStart=/bin/sh -c "echo \'50 %%\' $$HOME \\"a b\\""' in answers
    post = answers.partition("%post --erroronfail\n")[2].partition("%end")[0]
    (tmp_path / "post").write_text(post)
    subprocess.run(["sh", "-n", str(tmp_path / "post")], check=True)
    assert "t0ken" not in (tmp_path / "post").read_text().partition("<<'BRIDGEHEAD'")[2].partition("BRIDGEHEAD")[0]  # not of the reporter
    assert "inst.ks=http://10.20.0.1:8080/nodes/gpu-001/ks.cfg" in boot_script(rebuild, node)


def test_cloud_init_gets_strings_whatever_a_name_looks_like() -> None:
    text = TEXT.replace("gpu-001", '"0123"').replace("munge", "'on'")
    rebuild = read_rebuild(text, file="x")
    files = node_files(rebuild, rebuild.nodes[0], token="t0ken")
    whole = yaml.safe_load(files["user-data"])["autoinstall"]
    assert whole["user-data"]["hostname"] == "0123"
    assert "on" in whole["packages"]
    assert files["user-data"].startswith("#cloud-config\n")
    assert yaml.safe_load(files["meta-data"])["local-hostname"] == "0123"
    assert whole["storage"]["layout"]["match"] == {"path": "/dev/nvme0n1"}
    assert whole["network"]["ethernets"]["boot0"]["addresses"] == ["10.20.1.1/16"]
