"""lsblk and mounts: disks without loop devices, a volume once on however many disks, and servers behind shared files (M2, P23)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.discovery.parsers import lsblk, mounts
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    assert parser.recognises(text.encode())
    return parser.parse(Capture("f", text.encode(), "h1"))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def said(parsed: Parsed) -> set[tuple[str, str, object]]:
    return {(one.subject, one.attribute, one.value) for one in parsed.facts}


BLOCK = "storage/lsblk_3.json"


def test_lsblk_loop_devices_are_no_storage() -> None:
    assert len(json.loads(text_of(BLOCK))["blockdevices"]) == 16
    parsed = parse(lsblk.PARSER, text_of(BLOCK))
    assert value(parsed, "node:h1", "disk-count") == 9
    assert value(parsed, "node:h1", "nvme-count") == 8
    assert not [one for one in parsed.facts if "loop" in one.subject]
    assert "7 loop devices" in parsed.skipped[-1].reason


def test_lsblk_volume_on_eight_disks_is_one_volume() -> None:
    parsed = parse(lsblk.PARSER, text_of(BLOCK))
    volume = "node:h1/volume:sample_vg-sample_lv"
    disks = value(parsed, volume, "disks")
    assert isinstance(disks, tuple)
    assert len(disks) == 8
    assert value(parsed, volume, "size-rounded") == 7 * 2**40
    assert value(parsed, volume, "mount-points") == ("/var/lib/kubelet", "/var/lib/containerd", "/sample-data-disk")
    assert "8 places where containers see" in " ".join(one.reason for one in parsed.skipped)


def test_lsblk_rounded_sizes_are_not_sizes() -> None:
    parsed = parse(lsblk.PARSER, text_of(BLOCK))
    assert not [one for one in parsed.facts if one.attribute == "size"]
    assert value(parsed, "node:h1/disk:vda", "size-rounded") == 128 * 2**30
    comma = parse(lsblk.PARSER, text_of(BLOCK).replace('"128G"', '"128,5G"'))
    assert fact(comma, "node:h1/disk:vda", "size").status is Status.UNKNOWN


def test_lsblk_in_bytes_with_two_paths_and_an_old_version() -> None:
    rows = [
        {"name": "sda", "type": "disk", "size": "1920383410176", "rota": "0", "wwn": "0x5000c500a1", "tran": "sas", "model": "Acme S1 "},
        {"name": "sdb", "type": "disk", "size": "1920383410176", "rota": "0", "wwn": "0x5000c500a1", "tran": "sas", "mountpoint": None},
        {"name": "sdc", "type": "disk", "size": 18000207937536, "rota": True, "wwn": "0x5000c500b2", "mountpoint": "/data"},
        {"name": "zram0", "type": "disk", "size": 8589934592},
        {"name": "sr0", "type": "rom", "size": 1073741312},
        {"name": "sdd", "type": "disk", "size": 0},
    ]
    parsed = parse(lsblk.PARSER, json.dumps({"blockdevices": rows}, indent=3))
    count = fact(parsed, "node:h1", "disk-count")
    assert (count.value, count.note) == (2, "1 are second paths to the same disks")
    assert value(parsed, "node:h1/disk:sda", "size") == 1_920_383_410_176
    assert (value(parsed, "node:h1/disk:sda", "rotational"), value(parsed, "node:h1/disk:sdc", "rotational")) == (False, True)
    assert value(parsed, "node:h1/disk:sda", "model") == "Acme S1"
    assert value(parsed, "node:h1/disk:sdc", "mount-points") == ("/data",)
    assert "3 devices that are no disks" in parsed.skipped[-1].reason


def test_lsblk_that_is_cut_says_where() -> None:
    text = text_of(BLOCK)
    parsed = lsblk.PARSER.parse(Capture("f", text[: text.index("nvme1n1")].encode(), "h1"))
    assert parsed.facts == ()
    assert "broken" in parsed.skipped[0].reason


MOUNTS = "mounts/proc_mounts.txt"


@pytest.mark.parametrize(
    ("place", "servers"),
    [
        ("/home", ("nfs01.example.org",)),
        ("/lustre", ("192.0.2.21", "192.0.2.22")),
        ("/weka", ("weka01", "weka02")),
        ("/pool", ("[2001:db8::7]",)),
        ("/beegfs", None),
        ("/gpfs/scale1", None),
    ],
)
def test_P23_servers_behind_shared_files(place: str, servers: tuple[str, ...] | None) -> None:
    parsed = parse(mounts.PARSER, text_of(MOUNTS))
    assert value(parsed, "node:h1", f"mount-shared:{place}") is True
    found = fact(parsed, "node:h1", f"mount-servers:{place}")
    assert found.value == servers
    assert (found.status is Status.UNKNOWN) == (servers is None)


def test_mounts_local_and_what_is_none() -> None:
    parsed = parse(mounts.PARSER, text_of(MOUNTS))
    assert value(parsed, "node:h1", "mount-type:/local scratch") == "xfs"
    assert value(parsed, "node:h1", "mount-shared:/") is False
    assert not [one for one in parsed.facts if "/sys" in one.attribute or "kubelet" in one.attribute]
    assert [one.reason.split()[0] for one in parsed.skipped] == ["4", "1"]


def test_mounts_of_other_shared_kinds() -> None:
    text = (
        "//files01/projects /projects cifs rw,vers=3.1.1 0 0\n"
        "192.0.2.31:6789,192.0.2.32:6789:/vol /ceph ceph rw,name=admin 0 0\n"
        "user@.fs1=/ /ceph2 ceph rw,mon_addr=192.0.2.33:3300/192.0.2.34:3300 0 0\n"
        "admin@sftp01:/srv /srv fuse.sshfs rw 0 0\n"
    )
    parsed = parse(mounts.PARSER, text)
    assert value(parsed, "node:h1", "mount-servers:/projects") == ("files01",)
    assert value(parsed, "node:h1", "mount-servers:/ceph") == ("192.0.2.31:6789", "192.0.2.32:6789")
    assert value(parsed, "node:h1", "mount-servers:/ceph2") == ("192.0.2.33:3300", "192.0.2.34:3300")
    assert value(parsed, "node:h1", "mount-servers:/srv") == ("sftp01",)


def test_mounts_of_mount_and_findmnt_say_the_same() -> None:
    row = {"target": "/home", "source": "nfs01:/home", "fstype": "nfs4", "options": "rw,vers=4.2"}
    tree = {"filesystems": [{"target": "/", "source": "/dev/sda1", "fstype": "ext4", "options": "rw", "children": [row]}]}
    proc = parse(mounts.PARSER, "/dev/sda1 / ext4 rw 0 0\nnfs01:/home /home nfs4 rw,vers=4.2 0 0\n")
    mount = parse(mounts.PARSER, "/dev/sda1 on / type ext4 (rw)\nnfs01:/home on /home type nfs4 (rw,vers=4.2)\n")
    findmnt = parse(mounts.PARSER, json.dumps(tree, indent=3))
    assert said(proc) == said(mount) == said(findmnt)


def test_mounts_variants_and_cuts() -> None:
    text = text_of(MOUNTS)
    plain = said(parse(mounts.PARSER, text))
    assert said(parse(mounts.PARSER, text.replace("\n", "\r\n"))) == plain
    assert said(parse(mounts.PARSER, "$ cat /proc/mounts\n" + text)) == plain
    cut = parse(mounts.PARSER, text[: text.index(",addr=")])
    assert not [one for one in cut.facts if "/home" in one.attribute]
    assert not mounts.PARSER.recognises(b"UUID=11 / ext4 defaults 0 1\n# comment\n# comment\n")


def test_mounts_blanks_are_octal_and_what_is_no_octal_number_stands_as_it_is() -> None:
    parsed = parse(mounts.PARSER, "server:/a\\040b /mnt/a\\040b\\048\\109 nfs rw,addr=10.0.0.1 0 0\n")
    assert {one.attribute for one in parsed.facts if one.attribute.startswith("mount-source:")} == {"mount-source:/mnt/a b\\048\\109"}
