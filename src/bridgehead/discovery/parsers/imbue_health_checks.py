"""Golden versions in ``config.json`` of imbue's cluster-health: what each host is expected to run (M5.1, P23).

Subjects are ``expected:*``, ``expected:*/gpu:*`` for every GPU and ``expected:*/nic:NAME`` for adapters.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import Field, Table, json_documents, path_part, take

_HEAD: Final = (re.compile(rb'"leaf_health_checks"\s*:'), re.compile(rb'"infiniband_error"\s*:\s*\{'), re.compile(rb'"ib_hcas"\s*:\s*\{'))
_OFED: Final = re.compile(r"MLNX_OFED_LINUX-([\d.]{1,20}-[\d.]{1,20})(?=\W|$).*", re.ASCII)
_VERSION: Final = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){1,5})", re.ASCII)
_HOST: Final = (
    Field("ubuntu.release", "os-version", "version of the operating system"),
    Field("docker.expected_warning_info.KernelVersion", "kernel-version", "version of the kernel"),
    Field("docker.expected_warning_info.ServerVersion", "docker-version", "version of Docker"),
    Field("docker.expected_warning_info.CgroupVersion", "cgroup-version", "version of control groups"),
    Field("docker.expected_error_info.Driver", "docker-storage-driver", "how Docker stores images"),
    Field("infiniband_status.network_type", "network-type", "generation of InfiniBand"),
)
_DRIVER: Final = (
    Field("CUDA Version", "cuda-version", "newest CUDA that the driver can run"),
    Field("Driver Version", "driver-version", "version of the driver"),
)
_GPU: Final = (
    Field("VBIOS Version", "vbios-version", "version of the video BIOS"),
    Field("GSP Firmware Version", "gsp-firmware-version", "version of the GSP firmware"),
    Field("Image Version", "inforom-version", "version of the InfoROM"),
)
_READ: Final = frozenset({"node_info", "ubuntu", "ib_hcas", "infiniband_error", "vbios", "docker", "flint", "infiniband_status"})
_ALL: Final = "expected:*"
_TOOL: Final = "imbue-health-checks"


def recognises(head: bytes) -> bool:
    """Two of the keys that only this file has."""
    return sum(one.search(head) is not None for one in _HEAD) >= 2


def parse(capture: Capture) -> Parsed:
    """Versions, adapters and hosts."""
    say = Statements(_TOOL, capture)
    for document in json_documents(capture):
        if isinstance(document, Unreadable):
            say.skip(document.line, document.reason)
        elif isinstance(document, Table):
            _config(say, document)
        else:
            say.skip(1, "it is no configuration")
    return say.done()


def _config(say: Statements, config: Table) -> None:
    take(say, _ALL, config, _HOST)
    vbios = config.table("vbios")
    take(say, _ALL, vbios, _DRIVER)
    take(say, f"{_ALL}/gpu:*", vbios, _GPU)
    nodes = config.table("node_info")
    if names := _words(nodes.get("nodes")):
        say.known(_ALL, "hosts", names, line=nodes.at("nodes"))
    _drivers(say, config.table("infiniband_error"))
    _flint(say, config.table("flint").table("expected_fields"))
    _adapters(say, config)
    for key in config:
        if key not in _READ:
            say.skip(config.at(key), f"{key!r}: nothing is read from it")


def _drivers(say: Statements, table: Table) -> None:
    versions = table.table("driver_versions")
    if printed := versions.text("Host Driver Version"):
        found = _OFED.fullmatch(printed)
        say.word(_ALL, "ofed-version", found[1] if found else printed, line=versions.at("Host Driver Version"))
    if printed := versions.text("Firmware on CA"):
        _firmware(say, printed, versions.at("Firmware on CA"))
    ports = table.table("hcas")
    if printed := ports.text("Port State"):
        say.word(f"{_ALL}/nic:*", "port-state", printed, line=ports.at("Port State"))


def _firmware(say: Statements, printed: str, line: int) -> None:
    """Written with a ``v`` in one place and without in another."""
    found = _VERSION.fullmatch(printed)
    say.word(f"{_ALL}/nic:*", "firmware-version", found[1] if found else printed, line=line)


def _flint(say: Statements, fields: Table) -> None:
    for key, value in fields.items():
        words = _words(value)
        if key == "FW Version" and len(words) == 1:
            _firmware(say, words[0], fields.at(key))
        elif words:
            name = "-".join(key.lower().split())
            say.known(f"{_ALL}/nic:*", f"flint:{name}", words, line=fields.at(key))


def _adapters(say: Statements, config: Table) -> None:
    """The devices are named in two places and counted in a third; which is right nobody can know when they differ."""
    hcas, status = config.table("ib_hcas"), config.table("infiniband_status")
    for device in hcas:
        if hcas.text(device):
            say.known(f"{_ALL}/nic:{path_part(device)}", "interface", hcas.text(device), line=hcas.at(device))
    names = _words(status.get("device_names")) or tuple(hcas)
    line = status.at("device_names") if "device_names" in status else config.at("ib_hcas")
    told = [f"{len(names)} devices are listed"] if names else []
    if hcas and set(hcas) != set(names):
        told.append(f"ib_hcas has {len(hcas)}: {', '.join(sorted(set(hcas) ^ set(names))[:8])} differ")
    count = number_in(status.text("active_devices"))
    if count is not None and names and count != len(names):
        told.append(f"active_devices is {count}")
    note = "; ".join(told)
    if len(told) > 1:
        say.conflict(_ALL, "infiniband-devices", names, line=line, note=note)
    elif names:
        say.known(_ALL, "infiniband-devices", names, line=line)
    if "active_devices" in status and len(told) > 1 and count is not None:
        say.conflict(_ALL, "infiniband-device-count", count, line=status.at("active_devices"), note=note)
    elif "active_devices" in status:
        say.number(_ALL, "infiniband-device-count", status.text("active_devices"), line=status.at("active_devices"))


def _words(value: Any) -> tuple[str, ...]:
    return tuple(word for word in value if isinstance(word, str) and word) if isinstance(value, list) else ()


PARSER = Parser(
    tool=_TOOL,
    command="cat health_checks/config.json",
    recognises=recognises,
    marks=(b'"leaf_health_checks"', b'"infiniband_error"'),
    parse=parse,
    yields=(
        *(Yield(_ALL, field.attribute, "", field.meaning) for field in (*_HOST, *_DRIVER)),
        Yield(_ALL, "hosts", "", "hosts that it is for"),
        Yield(_ALL, "ofed-version", "", "version of the InfiniBand drivers"),
        Yield(_ALL, "infiniband-devices", "", "names of the adapters; a conflict where two lists or a count differ"),
        Yield(_ALL, "infiniband-device-count", "", "how many are expected to be active"),
        *(Yield(f"{_ALL}/gpu:*", field.attribute, "", field.meaning) for field in _GPU),
        Yield(f"{_ALL}/nic:*", "firmware-version", "", "version of the firmware"),
        Yield(f"{_ALL}/nic:*", "port-state", "", "state, width and generation of the link"),
        Yield(f"{_ALL}/nic:*", "interface", "", "network interface of the device"),
        Yield(f"{_ALL}/nic:*", "flint:*", "", "any other field of flint that is compared"),
    ),
)
