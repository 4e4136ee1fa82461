"""Made output of NVIDIA's tools for one host with eight H100, as large and as wordy as real output (M2)."""

from __future__ import annotations

from typing import Final

DRIVER: Final = "550.90.07"
LEGEND: Final = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

"""
_ADDRESSES: Final = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")
Tree = dict[str, "Tree | str"]
"""Elements by name: text, or elements inside."""


def gpu_uuid(node: int, gpu: int) -> str:
    """The UUID of one GPU."""
    return f"GPU-{node:08x}-{gpu:04x}-4000-8000-{node * 16 + gpu:012x}"


def smi_xml(node: int, gpus: int) -> str:
    """``nvidia-smi -q -x``, with the long lists of clocks."""
    head = (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        f"\t<timestamp>Mon Nov 30 09:00:00 2026</timestamp>\n\t<driver_version>{DRIVER}</driver_version>\n"
        f"\t<cuda_version>12.4</cuda_version>\n\t<attached_gpus>{gpus}</attached_gpus>\n"
    )
    parts = [
        _GPU.replace("@ADDRESS@", _ADDRESSES[gpu % 8]).replace("@UUID@", gpu_uuid(node, gpu)).replace("@SERIAL@", f"16{node:07d}{gpu:04d}")
        .replace("@MINOR@", str(gpu)).replace("@MODULE@", str(gpu + 1)).replace("@TEMP@", str(30 + (node + gpu) % 25))
        for gpu in range(gpus)
    ]  # fmt: skip
    return head + "".join(parts) + "</nvidia_smi_log>\n"


def topology(gpus: int, nics: int) -> str:
    """``nvidia-smi topo -m``: all GPUs on NVSwitch, each NIC beside its GPU."""
    names = [f"GPU{gpu}" for gpu in range(gpus)] + [f"NIC{nic}" for nic in range(nics)]
    rows = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for row, name in enumerate(names):
        cells = [_relation(row, column, gpus) for column in range(len(names))]
        half = row * 2 // max(gpus, 1)
        place = [("0-51,104-155", "52-103,156-207")[half], str(half), "N/A"] if row < gpus else []
        rows.append("\t".join([name, *cells, *place]))
    return "\n".join(rows) + "\n" + LEGEND + "".join(f"  NIC{nic}: mlx5_{nic}\n" for nic in range(nics))


def _relation(row: int, column: int, gpus: int) -> str:
    if row == column:
        return " X "
    if row < gpus and column < gpus:
        return "NV18"
    one, other = (place if place < gpus else place - gpus for place in (row, column))
    if one == other:
        return "PXB"
    return "NODE" if one * 2 // max(gpus, 1) == other * 2 // max(gpus, 1) else "SYS"


def nvlink_status(node: int, gpus: int) -> str:
    """``nvidia-smi nvlink --status``: 18 links a GPU."""
    links = "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(18))
    return "".join(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: {gpu_uuid(node, gpu)})\n{links}" for gpu in range(gpus))


def _elements(tree: Tree, depth: int) -> str:
    lines = []
    for name, inside in tree.items():
        indent = "\t" * depth
        if isinstance(inside, dict):
            lines.append(f"{indent}<{name}>\n{_elements(inside, depth + 1)}{indent}</{name}>\n")
        else:
            lines.append(f"{indent}<{name}>{inside}</{name}>\n")
    return "".join(lines)


def _clocks() -> str:
    values = "".join(f"\t\t\t\t<supported_graphics_clock>{clock} MHz</supported_graphics_clock>\n" for clock in range(1980, 330, -15))
    each = "".join(
        f"\t\t\t<supported_mem_clock>\n\t\t\t\t<value>{memory} MHz</value>\n{values}\t\t\t</supported_mem_clock>\n"
        for memory in (2619, 1593)
    )
    return f"\t\t<supported_clocks>\n{each}\t\t</supported_clocks>\n"


_NO: Final = "N/A"
_SRAM: Final[Tree] = dict.fromkeys(
    ("sram_correctable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_correctable", "dram_uncorrectable"), "0"
)
_REASONS: Final[Tree] = dict.fromkeys(
    [f"clocks_event_reason_{name}" for name in ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
     "hw_thermal_slowdown",
     "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown", "display_clocks_setting")], "Not Active"
)  # fmt: skip
_MEMORY: Final[Tree] = {"total": "81559 MiB", "reserved": "551 MiB", "used": "0 MiB", "free": "81008 MiB"}
_POWER: Final[Tree] = {
    "power_state": "P0", "power_draw": "70.26 W", "current_power_limit": "700.00 W", "requested_power_limit": "700.00 W",
    "default_power_limit": "700.00 W", "min_power_limit": "200.00 W", "max_power_limit": "700.00 W",
}  # fmt: skip
_MODULE_POWER: Final[Tree] = dict.fromkeys(_POWER, _NO)
_TREE: Final[Tree] = {
    "product_name": "NVIDIA H100 80GB HBM3", "product_brand": "NVIDIA", "product_architecture": "Hopper", "display_mode": "Enabled",
    "display_active": "Disabled", "persistence_mode": "Enabled", "addressing_mode": "None",
    "mig_mode": {"current_mig": "Disabled", "pending_mig": "Disabled"}, "mig_devices": "None", "accounting_mode": "Disabled",
    "accounting_mode_buffer_size": "4000", "driver_model": {"current_dm": _NO, "pending_dm": _NO}, "serial": "@SERIAL@", "uuid": "@UUID@",
    "minor_number": "@MINOR@", "vbios_version": "96.00.89.00.01", "multigpu_board": "No", "board_id": "0x1b00",
    "board_part_number": "692-2G520-0200-000", "gpu_part_number": "2330-885-A1", "gpu_fru_part_number": _NO, "gpu_module_id": "@MODULE@",
    "inforom_version": {"img_version": "G520.0200.00.05", "oem_object": "2.1", "ecc_object": "7.16", "pwr_object": _NO},
    "inforom_bbx_flush": {"latest_timestamp": _NO, "latest_duration": _NO}, "gpu_operation_mode": {"current_gom": _NO, "pending_gom": _NO},
    "gpu_virtualization_mode": {"virtualization_mode": "None", "host_vgpu_mode": _NO, "vgpu_heterogeneous_mode": _NO},
    "gpu_reset_status": {"reset_required": "No", "drain_and_reset_recommended": "No"}, "gsp_firmware_version": DRIVER,
    "ibmnpu": {"relaxed_ordering_mode": _NO},
    "pci": {
        "pci_bus": "@ADDRESS@", "pci_device": "00", "pci_domain": "0000", "pci_base_class": "3", "pci_sub_class": "2",
        "pci_device_id": "233010DE", "pci_bus_id": "00000000:@ADDRESS@:00.0", "pci_sub_system_id": "16C110DE",
        "pci_gpu_link_info": {
            "pcie_gen": {"max_link_gen": "5", "current_link_gen": "5", "device_current_link_gen": "5", "max_device_link_gen": "5",
                         "max_host_link_gen": "5"},
            "link_widths": {"max_link_width": "16x", "current_link_width": "16x"},
        },
        "pci_bridge_chip": {"bridge_chip_type": _NO, "bridge_chip_fw": _NO}, "replay_counter": "0", "replay_rollover_counter": "0",
        "tx_util": "0 KB/s", "rx_util": "0 KB/s", "atomic_caps_inbound": _NO, "atomic_caps_outbound": _NO,
    },
    "fan_speed": _NO, "performance_state": "P0", "clocks_event_reasons": _REASONS, "sparse_operation_mode": _NO, "fb_memory_usage": _MEMORY,
    "bar1_memory_usage": {"total": "131072 MiB", "used": "1 MiB", "free": "131071 MiB"},
    "cc_protected_memory_usage": {"total": "0 MiB", "used": "0 MiB", "free": "0 MiB"}, "compute_mode": "Default",
    "utilization": dict.fromkeys(("gpu_util", "memory_util", "encoder_util", "decoder_util", "jpeg_util", "ofa_util"), "0 %"),
    "encoder_stats": {"session_count": "0", "average_fps": "0", "average_latency": "0"},
    "fbc_stats": {"session_count": "0", "average_fps": "0", "average_latency": "0"},
    "ecc_mode": {"current_ecc": "Enabled", "pending_ecc": "Enabled"},
    "ecc_errors": {
        "volatile": _SRAM, "aggregate": {**_SRAM, "sram_threshold_exceeded": "No"},
        "aggregate_uncorrectable_sram_sources": dict.fromkeys(("sram_l2", "sram_sm", "sram_microcontroller", "sram_pcie",
                                                              "sram_other"), "0"),
    },
    "retired_pages": {
        "multiple_single_bit_retirement": {"retired_count": _NO, "retired_pagelist": _NO},
        "double_bit_retirement": {"retired_count": _NO, "retired_pagelist": _NO}, "pending_blacklist": _NO, "pending_retirement": _NO,
    },
    "remapped_rows": {
        "remapped_row_corr": "0", "remapped_row_unc": "0", "remapped_row_pending": "No", "remapped_row_failure": "No",
        "row_remapper_histogram": {
            "row_remapper_histogram_max": "2560 bank(s)", "row_remapper_histogram_high": "0 bank(s)",
            "row_remapper_histogram_partial": "0 bank(s)", "row_remapper_histogram_low": "0 bank(s)",
            "row_remapper_histogram_none": "0 bank(s)",
        },
    },
    "temperature": {
        "gpu_temp": "@TEMP@ C", "gpu_temp_tlimit": "50 C", "gpu_temp_max_tlimit_threshold": "-8 C",
        "gpu_temp_slow_tlimit_threshold": "-2 C",
        "gpu_temp_max_gpu_tlimit_threshold": "0 C", "gpu_target_temperature": _NO, "memory_temp": "45 C",
        "gpu_temp_max_mem_tlimit_threshold": "0 C",
    },
    "supported_gpu_target_temp": {"gpu_target_temp_min": _NO, "gpu_target_temp_max": _NO},
    "gpu_power_readings": _POWER, "gpu_memory_power_readings": {"power_draw": "40.11 W"}, "module_power_readings": _MODULE_POWER,
    "clocks": {"graphics_clock": "345 MHz", "sm_clock": "345 MHz", "mem_clock": "2619 MHz", "video_clock": "765 MHz"},
    "applications_clocks": {"graphics_clock": "1980 MHz", "mem_clock": "2619 MHz"},
    "default_applications_clocks": {"graphics_clock": "1980 MHz", "mem_clock": "2619 MHz"}, "deferred_clocks": {"mem_clock": _NO},
    "max_clocks": {"graphics_clock": "1980 MHz", "sm_clock": "1980 MHz", "mem_clock": "2619 MHz", "video_clock": "1545 MHz"},
    "max_customer_boost_clocks": {"graphics_clock": "1980 MHz"}, "clock_policy": {"auto_boost": _NO, "auto_boost_default": _NO},
    "voltage": {"graphics_volt": "670.000 mV"},
    "fabric": {"state": "Completed", "status": "Success", "cliqueId": "0", "clusterUuid": "00000000-0000-0000-0000-000000000000",
               "health": {"bandwidth": _NO}},
}  # fmt: skip
_GPU: Final = f'\t<gpu id="00000000:@ADDRESS@:00.0">\n{_elements(_TREE, 2)}{_clocks()}\t\t<processes>\n\t\t</processes>\n\t</gpu>\n'
