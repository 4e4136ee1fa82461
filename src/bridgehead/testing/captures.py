# ruff: noqa: E501 - lines of the tools that are imitated, which are as long as they are
"""Made captures of a cluster, for benchmarks and trials: ``python -m bridgehead.testing.captures DIR --nodes N``.

Each host has eight H100 and eight adapters on a rail each, racks of three hosts on two feeds of three phases, leaves of 32 ports. The texts are as long
and as wordy as those of real tools. Hosts are ``PREFIX00001`` and so on; the same arguments make the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.testing.capture_gpus import nvlink_status, smi_xml, topology

GPUS: Final = 8
NICS: Final = 8
HOSTS_A_RACK: Final = 3
HOSTS_A_LEAF: Final = 32
MEMORY_MIB: Final = 2063929
_AT_S: Final = 1796025600
MODEL: Final = "EXA-8H"


class Cluster(msgspec.Struct, frozen=True):
    """What is made."""

    nodes: int
    prefix: str = "gpu"
    site: str = "oslo"

    def host(self, number: int) -> str:
        """Name of a host, counted from 0."""
        return f"{self.prefix}{number + 1:05d}"


def files(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Path and text of every file: a folder for each host, and ``cluster`` for what is said of all."""
    for number in range(cluster.nodes):
        host = cluster.host(number)
        yield f"{host}/bridgehead-collect.txt", f"# bridgehead collect 1\nhost {host}\nat {_AT_S + number % 600}\ntool nvidia-smi-q ran\n"
        yield f"{host}/nvidia-smi-q.xml", smi_xml(number, GPUS)
        yield f"{host}/nvidia-smi-topo.txt", topology(GPUS, NICS)
        yield f"{host}/nvidia-smi-nvlink.txt", nvlink_status(number, GPUS)
        yield f"{host}/ibv-devinfo.txt", _devinfo(number)
        yield f"{host}/ibstat.txt", _ibstat(number)
        yield f"{host}/dmidecode.txt", _dmidecode(number)
    yield "cluster/scontrol-node.txt", "".join(_scontrol(cluster, number) for number in range(cluster.nodes))
    yield "cluster/ibnetdiscover.txt", _fabric(cluster)
    for name, rows in _netbox(cluster).items():
        yield f"netbox/{name}.json", msgspec.json.encode({"count": len(rows), "next": None, "previous": None, "results": rows}).decode()


def _guid(number: int, nic: int) -> int:
    return 0xE09D730300000000 + number * 16 + nic


def _colons(guid: int) -> str:
    text = f"{guid:016x}"
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))


def _devinfo(number: int) -> str:
    return "\n".join(
        f"hca_id:\tmlx5_{nic}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.39.1002\n\tnode_guid:\t\t\t{_colons(_guid(number, nic))}\n"
        f"\tsys_image_guid:\t\t\t{_colons(_guid(number, nic))}\n\tvendor_id:\t\t\t0x02c9\n\tvendor_part_id:\t\t\t4129\n\thw_ver:\t\t\t\t0x0\n"
        f"\tboard_id:\t\t\tMT_0000000838\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
        f"\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t4096 (5)\n\t\t\tsm_lid:\t\t\t1\n\t\t\tport_lid:\t\t{number * NICS + nic + 100}\n"
        f"\t\t\tport_lmc:\t\t0x00\n\t\t\tlink_layer:\t\tInfiniBand\n"
        for nic in range(NICS)
    )


def _ibstat(number: int) -> str:
    return "".join(
        f"CA 'mlx5_{nic}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n\tHardware version: 0\n"
        f"\tNode GUID: 0x{_guid(number, nic):016x}\n\tSystem image GUID: 0x{_guid(number, nic):016x}\n\tPort 1:\n\t\tState: Active\n"
        f"\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: {number * NICS + nic + 100}\n\t\tLMC: 0\n\t\tSM lid: 1\n"
        f"\t\tCapability mask: 0xa751e848\n\t\tPort GUID: 0x{_guid(number, nic):016x}\n\t\tLink layer: InfiniBand\n"
        for nic in range(NICS)
    )


def _dmidecode(number: int) -> str:
    memory = "".join(
        f"Handle 0x{0x1100 + slot:04X}, DMI type 17, 92 bytes\nMemory Device\n\tArray Handle: 0x1000\n\tTotal Width: 80 bits\n\tData Width: 64 bits\n"
        f"\tSize: 64 GB\n\tForm Factor: DIMM\n\tSet: None\n\tLocator: DIMM_{slot}\n\tBank Locator: _Node{slot // 16}_\n\tType: DDR5\n"
        f"\tType Detail: Synchronous Registered (Buffered)\n\tSpeed: 4800 MT/s\n\tManufacturer: Example\n\tSerial Number: {number:05d}{slot:03d}\n"
        f"\tPart Number: EX64G48\n\tRank: 2\n\tConfigured Memory Speed: 4800 MT/s\n\n"
        for slot in range(32)
    )
    return (
        "# dmidecode 3.3\nGetting SMBIOS data from sysfs.\nSMBIOS 3.4.0 present.\n\nHandle 0x0000, DMI type 0, 26 bytes\nBIOS Information\n"
        "\tVendor: Example\n\tVersion: 2.1.8\n\tRelease Date: 03/18/2024\n\tROM Size: 32 MB\n\n"
        "Handle 0x0001, DMI type 1, 27 bytes\nSystem Information\n"
        f"\tManufacturer: Example\n\tProduct Name: {MODEL}\n\tVersion: 01\n\tSerial Number: EX{number:07d}\n\tFamily: Not Specified\n\n"
        "Handle 0x1000, DMI type 16, 23 bytes\nPhysical Memory Array\n\tLocation: System Board Or Motherboard\n\tUse: System Memory\n"
        f"\tError Correction Type: Multi-bit ECC\n\tMaximum Capacity: 4 TB\n\tError Information Handle: Not Provided\n"
        f"\tNumber Of Devices: 32\n\n{memory}"
        "Handle 0xFEFF, DMI type 127, 4 bytes\nEnd Of Table\n\n"
    )


def _scontrol(cluster: Cluster, number: int) -> str:
    host = cluster.host(number)
    return (
        f"NodeName={host} Arch=x86_64 CoresPerSocket=52 CPUAlloc=0 CPUEfctv=208 CPUTot=208 CPULoad=0.31 AvailableFeatures=h100 "
        f"ActiveFeatures=h100 Gres=gpu:h100:{GPUS}(S:0-1) NodeAddr={host} NodeHostName={host} Version=23.11.4 OS=Linux 5.15.0-107-generic "
        f"#117-Ubuntu SMP Fri Apr 26 12:26:49 UTC 2024 RealMemory={MEMORY_MIB} AllocMem=0 FreeMem=2010000 Sockets=2 Boards=1 State=IDLE "
        f"ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main BootTime=2026-11-01T08:00:00 "
        f"CfgTRES=cpu=208,mem={MEMORY_MIB}M,billing=208,gres/gpu={GPUS} AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0\n"
    )


class _Switch(msgspec.Struct, frozen=True):
    """GUID, name and LID."""

    guid: int
    name: str
    lid: int

    @property
    def key(self) -> str:
        """As a scan names it."""
        return f"S-{self.guid:016x}"

    @property
    def words(self) -> str:
        """What it calls itself."""
        return f'"MF0;{self.name}:MQM9700/U1"'


def _fabric(cluster: Cluster) -> str:
    """Leaves of each rail with as many ways up as down, and spines of 64 ports that they share."""
    leaves_a_rail = -(-cluster.nodes // HOSTS_A_LEAF)
    leaves = [
        _Switch(0x2C5EAB0300000000 + rail * 4096 + leaf, f"leaf-{rail}-{leaf}", rail * 500 + leaf + 20000)
        for rail in range(NICS) for leaf in range(leaves_a_rail)
    ]  # fmt: skip
    spines = [_Switch(0x2C5EAB0400000000 + spine, f"spine-{spine}", spine + 30000) for spine in range(-(-len(leaves) * HOSTS_A_LEAF // 64))]
    ports: dict[int, list[str]] = {switch.guid: [] for switch in (*leaves, *spines)}
    for place, leaf in enumerate(leaves):
        rail, first = place // leaves_a_rail, place % leaves_a_rail * HOSTS_A_LEAF
        for port, number in enumerate(range(first, min(first + HOSTS_A_LEAF, cluster.nodes)), 1):
            card = _guid(number, rail)
            ports[leaf.guid].append(
                f'[{port}]\t"H-{card:016x}"[1]({card:016x}) \t\t# "{cluster.host(number)} mlx5_{rail}" lid {number * NICS + rail + 100} 4xNDR\n'
            )
        for way in range(HOSTS_A_LEAF):
            spine = spines[(place * HOSTS_A_LEAF + way) % len(spines)]
            up, down = HOSTS_A_LEAF + 1 + way, len(ports[spine.guid]) + 1
            ports[leaf.guid].append(f'[{up}]\t"{spine.key}"[{down}]\t\t# {spine.words} lid {spine.lid} 4xNDR\n')
            ports[spine.guid].append(f'[{down}]\t"{leaf.key}"[{up}]\t\t# {leaf.words} lid {leaf.lid} 4xNDR\n')
    parts = ["#\n# Topology file: generated on Mon Nov 30 09:00:00 2026\n#\n"]
    for switch in (*leaves, *spines):
        guid = f"{switch.guid:016x}"
        parts.append(
            f"\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{guid}\nswitchguid=0x{guid}({guid})\n"
            f'Switch\t65 "{switch.key}"\t\t# {switch.words} enhanced port 0 lid {switch.lid} lmc 0\n'
        )
        parts += ports[switch.guid]
    parts += _cards(cluster, leaves, leaves_a_rail)
    return "".join(parts)


def _cards(cluster: Cluster, leaves: list[_Switch], leaves_a_rail: int) -> Iterator[str]:
    for number in range(cluster.nodes):
        for rail in range(NICS):
            card, leaf = _guid(number, rail), leaves[rail * leaves_a_rail + number // HOSTS_A_LEAF]
            yield (
                f"\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0x{card:016x}\ncaguid=0x{card:016x}\n"
                f'Ca\t1 "H-{card:016x}"\t\t# "{cluster.host(number)} mlx5_{rail}"\n'
                f'[1]({card:016x}) \t"{leaf.key}"[{number % HOSTS_A_LEAF + 1}]\t\t# lid {number * NICS + rail + 100} lmc 0 '
                f"{leaf.words} lid {leaf.lid} 4xNDR\n"
            )


def _netbox(cluster: Cluster) -> dict[str, list[dict[str, Any]]]:
    """Pages of the API: racks, feeds A and B, devices."""
    site = {"id": 1, "url": "https://netbox.example/api/dcim/sites/1/", "name": cluster.site, "slug": cluster.site}
    count = -(-cluster.nodes // HOSTS_A_RACK)
    racks = [
        {"id": rack + 1, "url": f"https://netbox.example/api/dcim/racks/{rack + 1}/", "name": f"R{rack + 1:04d}", "site": site,
         "status": {"value": "active", "label": "Active"}, "u_height": 48, "weight": 160.0, "max_weight": 1500,
         "weight_unit": {"value": "kg", "label": "Kilograms"}}
        for rack in range(count)
    ]  # fmt: skip
    panels = [
        {"id": n + 1, "url": f"https://netbox.example/api/dcim/power-panels/{n + 1}/", "name": f"panel-{name}", "site": site}
        for n, name in enumerate("ab")
    ]
    feeds = [
        {"id": rack * 2 + n + 1, "url": f"https://netbox.example/api/dcim/power-feeds/{rack * 2 + n + 1}/", "name": f"R{rack + 1:04d}-{name}",
         "power_panel": {"id": n + 1, "name": f"panel-{name}"}, "rack": {"id": rack + 1, "name": f"R{rack + 1:04d}"},
         "status": {"value": "active", "label": "Active"}, "type": {"value": ("primary", "redundant")[n], "label": "x"},
         "supply": {"value": "ac", "label": "AC"}, "phase": {"value": "three-phase", "label": "Three phase"}, "voltage": 230, "amperage": 63,
         "max_utilization": 80}
        for rack in range(count) for n, name in enumerate("ab")
    ]  # fmt: skip
    kind = {"id": 1, "manufacturer": {"id": 1, "name": "Example", "slug": "example"}, "model": MODEL, "slug": "example-exa-8h"}
    devices = [
        {"id": number + 1, "url": f"https://netbox.example/api/dcim/devices/{number + 1}/", "name": cluster.host(number), "device_type": kind,
         "role": {"id": 1, "name": "gpu-node", "slug": "gpu-node"}, "site": site, "serial": f"EX{number:07d}",
         "rack": {"id": number // HOSTS_A_RACK + 1, "name": f"R{number // HOSTS_A_RACK + 1:04d}"}, "position": number % HOSTS_A_RACK * 8 + 3,
         "face": {"value": "front", "label": "Front"}, "status": {"value": "active", "label": "Active"}}
        for number in range(cluster.nodes)
    ]  # fmt: skip
    return {"racks": racks, "power-panels": panels, "power-feeds": feeds, "devices": devices}


def write(folder: Path, cluster: Cluster) -> int:
    """Write all files below ``folder``; their size in bytes."""
    total = 0
    for path, text in files(cluster):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        place.write_bytes(data)
        total += len(data)
    return total


def main(arguments: list[str]) -> int:
    """Write captures of a cluster."""
    options = argparse.ArgumentParser(prog="captures", description="Write made output of tools for a cluster of hosts with 8 GPUs each.")
    options.add_argument("folder", type=Path)
    options.add_argument("--nodes", type=int, default=1250)
    options.add_argument("--prefix", default="gpu")
    options.add_argument("--site", default="oslo")
    given = options.parse_args(arguments)
    size = write(given.folder, Cluster(given.nodes, given.prefix, given.site))
    print(f"{given.nodes} hosts, {size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
