"""Parsers: the only list of them. Adding one is one file in ``discovery/parsers`` and one line here, sorted by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from bridgehead.discovery.parsing import Parser

MODULES: Final = (
    "bridgehead_collect",
    "dcgm_exporter",
    "dcgmi_diag",
    "dcgmi_discovery",
    "dcgmi_dmon",
    "dcgmi_nvlink",
    "df",
    "dmidecode",
    "ethtool",
    "fabric_manager_log",
    "flint",
    "frr_config",
    "gpu_trace",
    "hardware_info",
    "iblinkinfo",
    "ibnetdiscover",
    "ibnetdiscover_ports",
    "ibstat",
    "ibswinfo",
    "ibv_devinfo",
    "imbue_health_checks",
    "ip_link",
    "iperf3",
    "ipmitool",
    "kernel_log",
    "kubernetes",
    "lldpctl",
    "lldpctl_xml",
    "lsblk",
    "lspci",
    "mlnx_qos",
    "mlxfwmanager",
    "mounts",
    "nccl_tests",
    "netbox",
    "netq_compute_nodes",
    "netq_topology",
    "nhc_conf",
    "nvidia_smi_csv",
    "nvidia_smi_error",
    "nvidia_smi_nvlink",
    "nvidia_smi_q",
    "nvidia_smi_table",
    "nvidia_smi_topo",
    "nvidia_smi_topo_p2p",
    "nvidia_smi_xml",
    "nvue_config",
    "perfquery",
    "perftest",
    "redfish",
    "scontrol",
    "scontrol_config",
    "slurm_exporter",
    "slurm_json",
    "slurm_tables",
    "slurm_topology",
    "sonic_config_db",
    "topograph_model",
    "ufm_events",
)
"""Modules of ``bridgehead.discovery.parsers``; each has a ``PARSER``."""


@cache
def parsers() -> tuple[Parser, ...]:
    """All parsers, sorted by tool."""
    found: list[Parser] = [import_module(f"bridgehead.discovery.parsers.{name}").PARSER for name in MODULES]
    return tuple(sorted(found, key=lambda parser: parser.tool))
