"""Reports of NVIDIA's bare-metal manager (NCX): what its agent found in a host, and what its explorer found at a BMC (M2, P23).

A product that names one GPU while its GPUs say another is a conflict: somebody changed parts, or a label is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.infiniband import guid
from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.nvidia import amount, state_bus_id, state_serial, word
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import Field, Kind, Table, json_documents, path_part, plain_number, take

_N: Final = Kind.NUMBER
_AGENT: Final = (re.compile(rb'"dmi_data"\s*:\s*\{'), re.compile(rb'"(?:infiniband_interfaces|network_interfaces|cpu_info|gpus)"\s*:\s*\['))
_EXPLORER: Final = (re.compile(rb'"EndpointType"\s*:\s*"'), re.compile(rb'"(?:Systems|Chassis|Managers)"\s*:\s*\['))
_FAMILY: Final = re.compile(
    r"(?:GB300|GB200|GH200|B300|B200|H200|H100|H800|H20|A100|A800|A30|L40S|L40|L4|V100|MI3\d\dX)(?![0-9])", re.ASCII
)
_INTERFACE: Final = re.compile(r".*/([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/(?:net|infiniband)/([\w.@-]{1,40})", re.ASCII)
_DMI: Final = (
    Field("dmi_data.sys_vendor", "manufacturer", "maker"),
    Field("dmi_data.product_serial", "serial", "serial number"),
    Field("dmi_data.board_serial", "board-serial", "serial number of the main board"),
    Field("dmi_data.chassis_serial", "chassis-serial", "serial number of the chassis"),
    Field("dmi_data.bios_version", "bios-version", "version of the BIOS"),
    Field("dmi_data.bios_date", "bios-date", "date of the BIOS, as printed"),
    Field("machine_type", "architecture", "of the processors"),
)
_PLATFORM: Final = (
    Field("chassis_serial", "chassis-serial", "of the rack"),
    Field("slot_number", "slot-number", "slot in the chassis", kind=_N),
    Field("tray_index", "tray-index", "tray in the chassis", kind=_N),
    Field("host_id", "host-id", "host in the tray", kind=_N),
    Field("module_id", "module-id", "place on the board", kind=_N),
    Field("fabric_guid", "fabric-guid", "its address in the NVLink fabric"),
)
_GPU_WORDS: Final = (
    ("vbios_version", "vbios-version", "version of the video BIOS"),
    ("inforom_version", "inforom-version", "version of the InfoROM"),
)
_MADE_BY: Final = (
    Field("Manufacturer", "manufacturer", "maker"),
    Field("Model", "model", "model"),
    Field("SerialNumber", "serial", "serial number"),
    Field("PartNumber", "part-number", "part number"),
    Field("FirmwareVersion", "firmware-version", "version of the firmware"),
    Field("Status.Health", "health-seen", "OK, Warning or Critical"),
)
_TOOL: Final = "ncx-hardware"


def recognises(head: bytes) -> bool:
    """The keys that either report has."""
    return b'"@odata' not in head and any(all(one.search(head) for one in both) for both in (_AGENT, _EXPLORER))


def parse(capture: Capture) -> Parsed:
    """Either report, and several of them in a list."""
    say = Statements(_TOOL, capture)
    for document in json_documents(capture):
        if isinstance(document, Unreadable):
            say.skip(document.line, document.reason)
            continue
        for one in document if isinstance(document, list) else [document]:
            if isinstance(one, Table) and "EndpointType" in one:
                _explorer(say, one, capture.host)
            elif isinstance(one, Table) and "dmi_data" in one:
                _agent(say, one)
            else:
                say.skip(one.line if isinstance(one, Table) else 1, "a document of another kind")
    return say.done()


def _agent(say: Statements, report: Table) -> None:
    node = say.node
    take(say, node, report, _DMI)
    for cpu in report.tables("cpu_info")[:1]:
        take(say, node, cpu, _CPU)
    sizes = [plain_number(one.get("size_mb")) for one in report.tables("memory_devices")]
    if sizes:
        line = report.at("memory_devices")
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            say.known(node, "memory-installed", sum(known) * 2**20, line=line, unit="B")
        else:
            say.unknown(node, "memory-installed", line=line, unit="B", note=f"of {len(sizes)} modules only {len(known)} say their size")
    _gpus(say, node, report)
    _disks(say, node, report)
    for key in ("network_interfaces", "infiniband_interfaces"):
        for one in report.tables(key):
            _interface(say, node, one)


def _gpus(say: Statements, node: str, report: Table) -> None:
    gpus = report.tables("gpus")
    product, line = report.table("dmi_data").text("product_name"), report.table("dmi_data").at("product_name")
    families = {found[0] for one in gpus if (found := _FAMILY.search(one.text("name")))}
    label = _FAMILY.search(product)
    wrong = (
        sorted({one.text("name") for one in gpus}) if label and families and not any(_alike(label[0], name) for name in families) else []
    )
    note = f"the product is {product!r}, while its GPUs are {', '.join(wrong)}" if wrong else ""
    if product and wrong:
        say.conflict(node, "model", product, line=line, note=note)
    elif product:
        say.word(node, "model", product, line=line)
    if "gpus" in report:
        say.known(node, "gpu-count", len(gpus), line=report.at("gpus"))
    for version in sorted({one.text("driver_version") for one in gpus if one.text("driver_version")}):
        say.known(
            node, "driver-version", version, line=next(one.at("driver_version") for one in gpus if one.text("driver_version") == version)
        )
    for index, one in enumerate(gpus):
        subject = f"{node}/gpu:{index}"
        if wrong:
            say.conflict(subject, "model", one.text("name"), line=one.at("name"), note=note)
        else:
            word(say, subject, "model", one.text("name"), line=one.at("name"))
        for key, attribute, _ in _GPU_WORDS:
            if key in one:
                word(say, subject, attribute, one.text(key), line=one.at(key))
        for key, attribute, unit in (("total_memory", "memory-total", "B"), ("frequency", "clock", "Hz")):
            if key in one:
                amount(say, subject, attribute, one.text(key), line=one.at(key), unit=unit)
        if "serial" in one:
            state_serial(say, subject, one.text("serial"), line=one.at("serial"))
        if "pci_bus_id" in one:
            state_bus_id(say, subject, one.text("pci_bus_id"), line=one.at("pci_bus_id"))
        take(say, subject, one.table("platform_info"), _PLATFORM)


def _alike(label: str, name: str) -> bool:
    """A GB200 board carries B200 GPUs, and both names are in use for the GPU."""
    return label == name or label.removeprefix("G") == name.removeprefix("G")


def _disks(say: Statements, node: str, report: Table) -> None:
    """Disks by serial number; partitions carry the number of their disk."""
    listed = [*report.tables("nvme_devices"), *(one for one in report.tables("block_devices") if one.text("device_type") == "disk")]
    seen: set[str] = set()
    for one in listed:
        serial = one.text("serial")
        if not serial or serial in seen:
            continue
        seen.add(serial)
        subject = f"{node}/disk:{path_part(serial)}"
        take(say, subject, one, _DISK)
    parts = {one.text("serial") for one in report.tables("block_devices") if one.text("serial")} - seen
    if parts:
        say.skip(report.at("block_devices"), f"{len(parts)} disks of which only partitions are listed ({', '.join(sorted(parts)[:4])})")


def _interface(say: Statements, node: str, one: Table) -> None:
    properties = one.table("pci_properties")
    found = _INTERFACE.fullmatch(properties.text("path"))
    name = found[2] if found else one.text("mac_address") or one.text("guid") or "?"
    subject = f"{node}/nic:{path_part(name)}"
    if one.text("mac_address"):
        say.known(subject, "mac-address", one.text("mac_address").lower(), line=one.at("mac_address"))
    if one.text("guid"):
        address = guid(one.text("guid"))
        if address is None:
            say.unknown(subject, "guid", line=one.at("guid"), note=f"the tool printed {one.text('guid')[:40]!r}")
        else:
            say.known(subject, "guid", address, line=one.at("guid"))
    if found:
        say.known(subject, "pci-bus-id", found[1], line=properties.at("path"))
    take(say, subject, properties, _NIC)


def _explorer(say: Statements, report: Table, host: str) -> None:
    systems, chassis = report.tables("Systems"), report.tables("Chassis")
    serial = next((one.text("SerialNumber") for one in (*systems, *chassis) if one.text("SerialNumber")), "?")
    machine = report.text("MachineId")
    owner = f"node:{host or path_part(machine)}" if host or machine else f"chassis:{path_part(serial)}"
    if report.get("LastExplorationError") is not None:
        say.skip(report.at("LastExplorationError"), f"the exploration failed: {report['LastExplorationError']!r:.200}")
    take(say, owner, report, (Field("EndpointType", "endpoint-type", ""),))
    for system in systems[:1]:
        take(say, owner, system, _MADE_BY)
        for device in system.tables("PcieDevices"):
            name = device.text("Id") or device.text("Name") or "?"
            take(say, f"{owner}/pcie-device:{path_part(name)}", device, _MADE_BY)
        _ethernet(say, owner, system, "nic")
    for one in chassis:
        for adapter in one.tables("NetworkAdapters"):
            take(say, f"{owner}/adapter:{path_part(adapter.text('Id'))}", adapter, _MADE_BY)
    for manager in report.tables("Managers"):
        _ethernet(say, owner, manager, "bmc-nic")


def _ethernet(say: Statements, owner: str, holder: Table, kind: str) -> None:
    for one in holder.tables("EthernetInterfaces"):
        subject = f"{owner}/{kind}:{path_part(one.text('Id'))}"
        if one.text("MacAddress"):
            say.known(subject, "mac-address", one.text("MacAddress").lower(), line=one.at("MacAddress"))
        take(say, subject, one, _ETHERNET)


_CPU: Final = (
    Field("model", "cpu-model", "model of its processors"),
    Field("sockets", "cpu-sockets", "number of processors", kind=_N),
    Field("threads", "cpu-threads", "threads of all processors", kind=_N),
)
_DISK: Final = (
    Field("model", "model", "model"),
    Field("serial", "serial", "serial number"),
    Field("firmware_rev", "firmware-version", "version of the firmware"),
    Field("revision", "firmware-version", "version of the firmware"),
)
_NIC: Final = (
    Field("numa_node", "numa-node", "NUMA node", kind=_N),
    Field("numaNode", "numa-node", "NUMA node", kind=_N),
    Field("description", "description", "name of the adapter"),
)
_ETHERNET: Final = (
    Field("Description", "description", "place of the port"),
    Field("InterfaceEnabled", "enabled-seen", "whether it is switched on", kind=Kind.FLAG),
)
_OF_INTERFACE: Final = (
    ("mac-address", "address of the port"),
    ("guid", "GUID of the device"),
    ("pci-bus-id", "PCI address as domain:bus:device.function"),
)
_SAID: Final = (
    *(("node:*", field) for field in (*_DMI, *_CPU)),
    *(("node:*/gpu:*", field) for field in _PLATFORM),
    *(("node:*/disk:*", field) for field in _DISK),
    *(
        (f"{owner}{part}", field)
        for owner in ("node:*", "chassis:*")
        for part in ("", "/pcie-device:*", "/adapter:*")
        for field in _MADE_BY
    ),
    *((f"{owner}/{kind}:*", field) for owner in ("node:*", "chassis:*") for kind in ("nic", "bmc-nic") for field in (*_NIC, *_ETHERNET)),
)
_YIELDS: Final = (
    Yield("node:*", "model", "", "model; a conflict where its name and its GPUs contradict each other"),
    Yield("node:*", "gpu-count", "", "GPUs that the driver has"),
    Yield("node:*", "driver-version", "", "version of the driver"),
    Yield("node:*", "memory-installed", "B", "main memory that is plugged in"),
    Yield("node:*/gpu:*", "model", "", "name of the product; a conflict as above"),
    Yield("node:*/gpu:*", "memory-total", "B", "memory"),
    Yield("node:*/gpu:*", "clock", "Hz", "highest clock"),
    Yield("node:*/gpu:*", "serial", "", "serial number of the board; unknown where it is a placeholder"),
    Yield("node:*/gpu:*", "pci-bus-id", "", "PCI address as domain:bus:device.function"),
    *(Yield("node:*/gpu:*", attribute, "", meaning) for _, attribute, meaning in _GPU_WORDS),
    *(
        Yield(f"{owner}/{kind}:*", *what[:1], "", what[1])
        for owner in ("node:*", "chassis:*")
        for kind in ("nic", "bmc-nic")
        for what in _OF_INTERFACE
    ),
    *(Yield(owner, "endpoint-type", "", "Bmc or other") for owner in ("node:*", "chassis:*")),
    *(Yield(subject, field.attribute, field.unit, field.meaning) for subject, field in _SAID),
)
PARSER = Parser(
    tool=_TOOL,
    command="the report of a machine in NVIDIA's bare-metal manager, as JSON",
    recognises=recognises,
    marks=(b'"dmi_data"', b'"endpointtype"'),
    parse=parse,
    yields=tuple({(one.subject, one.attribute): one for one in reversed(_YIELDS)}.values())[::-1],
)
