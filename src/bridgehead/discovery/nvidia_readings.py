"""What ``nvidia-smi -q`` says of a GPU, as text and as XML: which of its many readings become facts, under which names (M2). Pure.

Both forms hold one tree; a path is written here as in the XML of whichever generation, with the text's labels brought into the same form
(``FB Memory Usage / Total`` is ``fb_memory_usage/total``). Generations differ: ``power_readings`` (v11) became ``gpu_power_readings``
(v12), ``power_draw`` became ``average_power_draw`` and ``instant_power_draw`` (v13); throttle reasons became event reasons.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from bridgehead.discovery.nvidia import amount, has_no_value, printed_note, state_bus_id, state_serial, state_uuid, word
from bridgehead.discovery.parsing import Statements, Yield


class Kind(enum.Enum):
    """How the value is read."""

    WORD = "word"
    CHOICE = "choice"
    """A word of which ``None`` is one."""
    COUNT = "count"
    AMOUNT = "amount"
    BUS = "bus"
    UUID = "uuid"
    SERIAL = "serial"


class Reading(msgspec.Struct, frozen=True):
    """One reading of a GPU, the paths where generations keep it, and what it means."""

    attribute: str
    kind: Kind
    unit: str
    paths: tuple[str, ...]
    meaning: str


_COUNTERS: Final = tuple(
    Reading(f"ecc-{memory}-{what}-{span}-seen", Kind.COUNT, "", paths, f"{what} errors of {memory.upper()} memory, {meaning}")
    for span, meaning in (("volatile", "since the driver was loaded"), ("aggregate", "over the life of the GPU"))
    for memory, what, paths in (
        ("sram", "correctable", (f"ecc_errors/{span}/sram_correctable",)),
        ("sram", "uncorrectable", (f"ecc_errors/{span}/sram_uncorrectable",)),
        ("sram", "uncorrectable-parity", (f"ecc_errors/{span}/sram_uncorrectable_parity",)),
        ("sram", "uncorrectable-secded", (f"ecc_errors/{span}/sram_uncorrectable_secded", f"ecc_errors/{span}/sram_uncorrectable_sec_ded")),
        ("dram", "correctable", (f"ecc_errors/{span}/dram_correctable",)),
        ("dram", "uncorrectable", (f"ecc_errors/{span}/dram_uncorrectable",)),
    )
)
_POWER: Final = ("gpu_power_readings", "power_readings")


def _power(attribute: str, names: tuple[str, ...], meaning: str) -> Reading:
    return Reading(attribute, Kind.AMOUNT, "W", tuple(f"{place}/{name}" for place in _POWER for name in names), meaning)


_LINK: Final = ("pci/pci_gpu_link_info", "pci/gpu_link_info")
_PARTS: Final = (("pcie_gen", "pcie_generation"), ("link_widths", "link_width"))


def _pcie(attribute: str, part: int, names: tuple[str, ...], kind: Kind, meaning: str) -> Reading:
    paths = tuple(f"{place}/{section}/{name}" for place in _LINK for section in _PARTS[part] for name in names)
    return Reading(attribute, kind, "", paths, meaning)


READINGS: Final[tuple[Reading, ...]] = (
    Reading("model", Kind.WORD, "", ("product_name",), "name of the product"),
    Reading("architecture", Kind.WORD, "", ("product_architecture",), "generation of the GPU"),
    Reading("uuid", Kind.UUID, "", ("uuid", "gpu_uuid"), "the one name that no other GPU has"),
    Reading("serial", Kind.SERIAL, "", ("serial", "serial_number"), "serial number of the board; unknown where it is a placeholder"),
    Reading("pci-bus-id", Kind.BUS, "", ("pci/pci_bus_id", "pci/bus_id"), "PCI address as domain:bus:device.function"),
    Reading("pci-device-id", Kind.WORD, "", ("pci/pci_device_id", "pci/device_id"), "device and vendor number"),
    Reading("minor-number", Kind.COUNT, "", ("minor_number",), "number of the device file"),
    Reading(
        "module-id",
        Kind.WORD,
        "",
        ("gpu_module_id", "module_id", "platforminfo/module_id", "platform_info/module_id"),
        "place on the board",
    ),
    Reading("chassis-serial", Kind.WORD, "", ("platforminfo/chassis_serial_number", "platform_info/chassis_serial_number"), "of the rack"),
    Reading("slot-number", Kind.WORD, "", ("platforminfo/slot_number", "platform_info/slot_number"), "slot in the chassis"),
    Reading("tray-index", Kind.WORD, "", ("platforminfo/tray_index", "platform_info/tray_index"), "tray in the chassis"),
    Reading("part-number", Kind.WORD, "", ("gpu_part_number",), "part number of the GPU"),
    Reading("board-part-number", Kind.WORD, "", ("board_part_number",), "part number of the board"),
    Reading("vbios-version", Kind.WORD, "", ("vbios_version",), "version of the video BIOS"),
    Reading("inforom-version", Kind.WORD, "", ("inforom_version/img_version", "inforom_version/image_version"), "version of the InfoROM"),
    Reading("gsp-firmware-version", Kind.WORD, "", ("gsp_firmware_version",), "version of the GSP firmware"),
    Reading("persistence-mode", Kind.WORD, "", ("persistence_mode",), "whether the driver stays loaded"),
    Reading("mig-mode", Kind.WORD, "", ("mig_mode/current_mig", "mig_mode/current"), "whether the GPU is divided into instances"),
    Reading("mig-mode-pending", Kind.WORD, "", ("mig_mode/pending_mig", "mig_mode/pending"), "the same, after the next reset"),
    Reading("ecc-mode", Kind.WORD, "", ("ecc_mode/current_ecc", "ecc_mode/current"), "whether memory errors are corrected"),
    Reading("ecc-mode-pending", Kind.WORD, "", ("ecc_mode/pending_ecc", "ecc_mode/pending"), "the same, after the next reset"),
    Reading("compute-mode", Kind.WORD, "", ("compute_mode",), "who may use the GPU at once"),
    Reading(
        "virtualization-mode",
        Kind.CHOICE,
        "",
        ("gpu_virtualization_mode/virtualization_mode",),
        "None, or how a virtual machine has the GPU",
    ),
    Reading("reset-required", Kind.WORD, "", ("gpu_reset_status/reset_required",), "whether the GPU must be reset"),
    Reading("drain-recommended", Kind.WORD, "", ("gpu_reset_status/drain_and_reset_recommended",), "whether work shall leave it first"),
    Reading("recovery-action", Kind.CHOICE, "", ("gpu_recovery_action",), "None, or what the driver wants done"),
    _pcie("pcie-generation-max", 0, ("max_link_gen", "max"), Kind.COUNT, "highest PCIe generation of card and slot"),
    _pcie(
        "pcie-generation-seen", 0, ("current_link_gen", "current"), Kind.COUNT, "PCIe generation now; lower while idle, which is no fault"
    ),
    _pcie("pcie-width-max", 1, ("max_link_width", "max"), Kind.AMOUNT, "most PCIe lanes of card and slot"),
    _pcie("pcie-width-seen", 1, ("current_link_width", "current"), Kind.AMOUNT, "PCIe lanes now"),
    Reading("pcie-replays-seen", Kind.COUNT, "", ("pci/replay_counter", "pci/replays_since_reset"), "PCIe replays since the reset"),
    Reading("performance-state-seen", Kind.WORD, "", ("performance_state",), "P0 fastest to P15"),
    Reading("memory-total", Kind.AMOUNT, "B", ("fb_memory_usage/total",), "memory of the GPU"),
    Reading("memory-reserved-seen", Kind.AMOUNT, "B", ("fb_memory_usage/reserved",), "memory that the driver keeps"),
    Reading("memory-used", Kind.AMOUNT, "B", ("fb_memory_usage/used",), "memory in use"),
    Reading("memory-free", Kind.AMOUNT, "B", ("fb_memory_usage/free",), "memory that is free"),
    Reading("utilization", Kind.AMOUNT, "%", ("utilization/gpu_util", "utilization/gpu"), "share of time with work"),
    Reading("memory-utilization", Kind.AMOUNT, "%", ("utilization/memory_util", "utilization/memory"), "share of time with memory traffic"),
    *_COUNTERS,
    Reading(
        "retired-pages-single-bit-seen",
        Kind.COUNT,
        "",
        ("retired_pages/multiple_single_bit_retirement/retired_count", "retired_pages/single_bit_ecc"),
        "memory pages taken out after correctable errors",
    ),
    Reading(
        "retired-pages-double-bit-seen",
        Kind.COUNT,
        "",
        ("retired_pages/double_bit_retirement/retired_count", "retired_pages/double_bit_ecc"),
        "memory pages taken out after uncorrectable errors",
    ),
    Reading(
        "retired-pages-pending",
        Kind.WORD,
        "",
        ("retired_pages/pending_retirement", "retired_pages/pending_blacklist", "retired_pages/pending_page_blacklist"),
        "Yes: pages wait for a restart to be taken out",
    ),
    Reading(
        "remapped-rows-correctable-seen",
        Kind.COUNT,
        "",
        ("remapped_rows/remapped_row_corr", "remapped_rows/correctable_error"),
        "rows replaced after correctable errors",
    ),
    Reading(
        "remapped-rows-uncorrectable-seen",
        Kind.COUNT,
        "",
        ("remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error"),
        "rows replaced after uncorrectable errors",
    ),
    Reading(
        "remapped-rows-pending",
        Kind.WORD,
        "",
        ("remapped_rows/remapped_row_pending", "remapped_rows/pending"),
        "Yes: rows wait for a reset to be replaced",
    ),
    Reading(
        "remapped-rows-failure",
        Kind.WORD,
        "",
        ("remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred"),
        "Yes: no spare row was left, the GPU must be replaced",
    ),
    Reading("temperature", Kind.AMOUNT, "degC", ("temperature/gpu_temp", "temperature/gpu_current_temp"), "of the chip"),
    Reading("memory-temperature", Kind.AMOUNT, "degC", ("temperature/memory_temp", "temperature/memory_current_temp"), "of the memory"),
    _power("power-draw", ("power_draw", "average_power_draw"), "draw now, or its average where the tool tells both"),
    _power("power-draw-instant", ("instant_power_draw", "instantaneous_power_draw"), "draw at this moment"),
    _power("power-limit", ("enforced_power_limit", "current_power_limit", "power_limit"), "limit in force"),
    _power("power-limit-default", ("default_power_limit",), "limit that the card has of itself"),
    _power("power-limit-min", ("min_power_limit",), "lowest limit that can be set"),
    _power("power-limit-max", ("max_power_limit",), "highest limit that can be set"),
    Reading(
        "power-state-seen",
        Kind.WORD,
        "",
        tuple(f"{place}/power_state" for place in _POWER),
        "the performance state, as older tools have it",
    ),
    Reading("sm-clock-max", Kind.AMOUNT, "Hz", ("max_clocks/sm_clock", "max_clocks/sm"), "highest clock"),
    Reading("fabric-state", Kind.WORD, "", ("fabric/state",), "whether the GPU has joined its NVLink fabric"),
    Reading("fabric-status", Kind.WORD, "", ("fabric/status",), "with which result"),
    Reading("fabric-clique-id", Kind.WORD, "", ("fabric/cliqueid", "fabric/clique_id"), "part of the fabric"),
    Reading("fabric-cluster-uuid", Kind.WORD, "", ("fabric/clusteruuid", "fabric/cluster_uuid"), "the fabric; zeros where none was given"),
    Reading("fabric-health", Kind.WORD, "", ("fabric/health/summary",), "summary of its health"),
    Reading("fabric-bandwidth", Kind.WORD, "", ("fabric/health/bandwidth",), "Full or Degraded"),
)
BY_PATH: Final[dict[str, Reading]] = {path: reading for reading in READINGS for path in reading.paths}
NODE_WORDS: Final = {"driver_version": "driver-version", "cuda_version": "cuda-version", "timestamp": "captured-local-time-seen"}
"""Readings above the GPUs."""
MIG_READINGS: Final[dict[str, tuple[str, Kind, str]]] = {
    "gpu_instance_id": ("gpu-instance-id", Kind.COUNT, ""),
    "compute_instance_id": ("compute-instance-id", Kind.COUNT, ""),
    "fb_memory_usage/total": ("memory-total", Kind.AMOUNT, "B"),
    "device_attributes/shared/multiprocessor_count": ("multiprocessor-count", Kind.COUNT, ""),
    "device_attributes/shared_attributes/multiprocessor_count": ("multiprocessor-count", Kind.COUNT, ""),
}
"""Readings of an instance of a divided GPU."""
READING_YIELDS: Final = (
    Yield("node:*", "gpu-count", "", "GPUs that the driver says are attached; a conflict where another number is described"),
    Yield("node:*", "driver-version", "", "version of the driver"),
    Yield("node:*", "cuda-version", "", "newest CUDA that the driver can run"),
    Yield("node:*", "captured-local-time-seen", "", "when, in the host's own unknown time zone"),
    *(Yield("node:*/gpu:*", reading.attribute, reading.unit, reading.meaning) for reading in READINGS),
    Yield("node:*/gpu:*", "fabric-ready", "", "true when state, status, clique and cluster are all right"),
    Yield("node:*/gpu:*", "mig-instances", "", "instances of a divided GPU"),
    *(
        Yield("node:*/gpu:*/mig:*", name, unit, "of an instance")
        for name, unit in dict.fromkeys((name, unit) for name, _, unit in MIG_READINGS.values())
    ),
)


def state_reading(say: Statements, subject: str, reading: tuple[str, Kind, str], text: str, *, line: int) -> None:
    """State one reading: its attribute, kind and unit."""
    attribute, kind, unit = reading
    match kind:
        case Kind.WORD:
            word(say, subject, attribute, text, line=line)
        case Kind.CHOICE if text.strip().lower() == "none":
            say.known(subject, attribute, text.strip(), line=line)
        case Kind.CHOICE:
            word(say, subject, attribute, text, line=line)
        case Kind.COUNT:
            say.number(subject, attribute, text, line=line)
        case Kind.AMOUNT:
            amount(say, subject, attribute, text, line=line, unit=unit)
        case Kind.BUS:
            state_bus_id(say, subject, text, line=line)
        case Kind.UUID:
            state_uuid(say, subject, text, line=line)
        case Kind.SERIAL:
            state_serial(say, subject, text, line=line)


def fabric_ready(state: str, status: str, clique: str, cluster: str) -> bool | None:
    """Whether a GPU is part of its fabric (D15): Completed alone says nothing.

    False for a bad state or status. None, which passes nowhere, where one of the four is missing or the cluster is all zeros.
    """
    if has_no_value(state):
        return None
    if state.strip().lower() != "completed" or (not has_no_value(status) and status.strip().lower() != "success"):
        return False
    whole = not any(has_no_value(text) for text in (status, clique, cluster)) and cluster.strip("0- ") != ""
    return True if whole else None


def fabric_note(state: str, status: str, clique: str, cluster: str) -> str:
    """Why ``fabric_ready`` is unknown."""
    return f"{printed_note(f'{state}, {status}, clique {clique}, cluster {cluster}')}: the four together do not tell"
