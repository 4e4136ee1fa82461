"""How an estate looks in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bridgehead.app.wiring import driver_options
from bridgehead.cli.terminal import Terminal
from bridgehead.kernel.quantity import format_bytes, format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data
from bridgehead.model.power import Circuit, Wiring

_EQUIPMENT = ("sources", "circuits", "loops", "racks", "fabrics", "switches", "nodes", "stores", "acceptance")
_DIGITS = 3


def print_estate(estate: Estate, *, console: Console | None = None) -> None:
    """Print everything that the estate holds, in tables; a value that nobody gave is a dash."""
    console = console or Terminal()
    data = estate_data(estate, drivers=driver_options())
    derived = _derived(estate)
    console.print(Text(f"Estate {estate.name}", style="bold"))
    sites = data["sites"]
    _print(console, "sites", {(site,): {k: v for k, v in one.items() if k not in _EQUIPMENT} for site, one in sites.items()}, derived)
    for kind in _EQUIPMENT:
        _print(console, kind, {(site, name): item for site, one in sites.items() for name, item in one.get(kind, {}).items()}, derived)
    for kind in ("links", "workloads", "services"):
        _print(console, kind, {(name,): item for name, item in data.get(kind, {}).items()}, derived)


def _derived(estate: Estate) -> dict[tuple[str, ...], dict[str, str]]:
    """What can be computed from what is given, by kind and identity."""
    derived: dict[tuple[str, ...], dict[str, str]] = {}
    for site in estate.sites:
        derived["sites", site.id] = {"GPUs": str(site.gpus)}
        for circuit in site.circuits:
            derived["circuits", site.id, circuit.id] = _circuit(circuit)
    for workload in estate.workloads:
        if workload.checkpoint_per_gpu_bytes is not None and workload.total_checkpoint_bytes is not None:
            derived["workloads", workload.id] = {"in total": format_bytes(workload.total_checkpoint_bytes, digits=_DIGITS)}
    return derived


def _circuit(circuit: Circuit) -> dict[str, str]:
    dimension = Dimension.POWER if circuit.wiring is Wiring.DC else Dimension.APPARENT_POWER
    lasting = circuit.continuous_va
    return {
        "rating": format_quantity(circuit.rating_va, dimension, digits=4),
        "lasting": "unknown" if lasting is None else format_quantity(lasting, dimension, digits=4),
    }


def _print(
    console: Console, kind: str, items: Mapping[tuple[str, ...], dict[str, Any]], derived: Mapping[tuple[str, ...], dict[str, str]]
) -> None:
    if not items:
        return
    rows = {name: {key: _cell(value) for key, value in item.items()} | derived.get((kind, *name), {}) for name, item in items.items()}
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    table = Table(title=kind, title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    for heading in ("site", "id") if len(next(iter(rows))) == 2 else ("id",):
        table.add_column(heading, no_wrap=True)
    for column in columns:
        table.add_column(column.replace("_", " "))
    for name, row in rows.items():
        table.add_row(*map(Text, name), *(Text(row.get(column, "-")) for column in columns))
    console.print()
    console.print(table)


def _cell(value: Any) -> str:
    match value:
        case dict():
            return "\n".join(f"{key}: {_inline(part)}" for key, part in value.items())
        case bool():
            return "yes" if value else "no"
        case _:
            return _inline(value)


def _inline(value: Any) -> str:
    match value:
        case dict():
            return " ".join(_inline(part) for part in value.values())
        case list():
            return ", ".join(map(_inline, value))
        case _:
            return str(value)
