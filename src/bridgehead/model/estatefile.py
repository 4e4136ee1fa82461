"""Estate files: YAML to ``Estate`` and back, with checks that need more than one field. Every fault is located."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from bridgehead.kernel.decode import BAD, Codec, Decoder
from bridgehead.kernel.document import dump, read_node, to_file
from bridgehead.kernel.located import Mapping as MappingNode
from bridgehead.kernel.located import Mark, Node, Path, Scalar, compose, node_of
from bridgehead.kernel.phrase import found, nearest
from bridgehead.kernel.schema import json_schema, struct_schema
from bridgehead.kernel.shape import shape_of
from bridgehead.model.estate import Connection, Estate, Service, Workload

DriverTypes = Mapping[str, Mapping[str, Callable[[], type[msgspec.Struct]]]]
"""Port ("scheduler", "traffic" ...) to driver to a function that imports the struct of the driver's options."""


def read_estate(text: str, *, file: str, drivers: DriverTypes | None = None, objectives: Collection[str] | None = None) -> Estate:
    """Read an estate file. Raises BadFile (BAD_INPUT) with every fault.

    Args:
        drivers: the known drivers; options of connections are checked against them. None leaves connections as they are.
        objectives: the ids that a policy defines; None leaves ``objective`` unchecked.
    """

    return read_estate_with_places(text, file=file, drivers=drivers, objectives=objectives)[0]


def read_estate_data(data: Mapping[str, Any], *, file: str, drivers: DriverTypes | None = None) -> Estate:
    """As ``read_estate``, of plain values as ``estate_data`` gives them. The places of faults say nothing, their paths do."""
    return _read(node_of(data), file=file, drivers=drivers, objectives=None)[0]


def read_estate_with_places(
    text: str, *, file: str, drivers: DriverTypes | None = None, objectives: Collection[str] | None = None
) -> tuple[Estate, Mapping[Path, Mark]]:
    """As ``read_estate``, and where each part stands in the file."""
    return _read(compose(text, file=file, what="estate"), file=file, drivers=drivers, objectives=objectives)


def _read(
    node: Node | None, *, file: str, drivers: DriverTypes | None, objectives: Collection[str] | None
) -> tuple[Estate, Mapping[Path, Mark]]:
    def check(estate: Estate, decoder: Decoder) -> None:
        _check_links(estate, decoder)
        _check_sites(estate, decoder)
        _check_workloads(estate, decoder)
        _check_needs(estate, decoder)
        if objectives is not None:
            _check_objectives(estate, decoder, objectives)

    return read_node(node, Estate, file=file, what="estate", codecs=_codecs(drivers), check=check)


def write_estate(estate: Estate, *, drivers: DriverTypes | None = None) -> str:
    """YAML that ``read_estate`` with the same drivers reads as an equal estate."""
    return dump(estate_data(estate, drivers=drivers))


def estate_data(estate: Estate, *, drivers: DriverTypes | None = None) -> dict[str, Any]:
    """The estate as files write it: mappings by id, quantities with units."""
    data: dict[str, Any] = to_file(estate, shape_of(Estate), codecs=_codecs(drivers))
    return data


def estate_schema(drivers: DriverTypes) -> dict[str, Any]:
    """JSON Schema of estate files, for editors."""
    options = [(name, load()) for port in drivers.values() for name, load in sorted(port.items())]
    connection = {"type": "object", "required": ["driver"], "anyOf": [_driver_schema(name, kind) for name, kind in options]}
    return json_schema(Estate, title="Bridgehead estate", codecs=_codecs(drivers)) | {"$defs": {"connection": connection}}


def _codecs(drivers: DriverTypes | None) -> dict[type, Codec]:
    return {Connection: _ConnectionCodec(drivers)}


class _ConnectionCodec:
    """A connection: the port is its key, ``driver`` decides which options there are."""

    def __init__(self, drivers: DriverTypes | None) -> None:
        self._drivers = drivers

    def decode(self, decoder: Decoder, node: Node, path: Path) -> Any:
        """Read ``driver`` and the options of that driver."""
        if not isinstance(node, MappingNode):
            return decoder.fault(node.mark, path, found(node), "expected a mapping with driver and its options")
        driver = node.get("driver")
        if driver is None:
            return decoder.fault(node.mark, (*path, "driver"), "the key 'driver' is missing", "expected the name of a driver")
        if not isinstance(driver, Scalar):
            return decoder.fault(driver.mark, (*path, "driver"), found(driver), "expected the name of a driver")
        rest = MappingNode(tuple(entry for entry in node.entries if entry[0].text != "driver"), node.mark)
        if self._drivers is None:
            return Connection(driver.text, decoder.read(rest, shape_of(dict), path))
        known = self._drivers[path[-1]]
        if driver.text not in known:
            return decoder.fault(
                driver.mark, (*path, "driver"), f"there is no {path[-1]} driver '{driver.text}'", nearest(driver.text, known)
            )
        options = decoder.plain_struct(rest, known[driver.text](), path)
        return BAD if options is BAD else Connection(driver.text, options)

    def encode(self, value: Any) -> Any:
        """One flat mapping; options with units when the drivers are known."""
        types = [] if self._drivers is None else [port[value.driver]() for port in self._drivers.values() if value.driver in port]
        kind = next((kind for kind in types if _fits(value.options, kind)), None)
        return {"driver": value.driver} | (value.options if kind is None else to_file(value.options, shape_of(kind)))

    def schema(self) -> dict[str, Any]:
        """One alternative for each driver, whatever the port; it is long and occurs often, so it stands at one place."""
        return {"$ref": "#/$defs/connection"}


def _driver_schema(name: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    schema = struct_schema(kind)
    schema["properties"] = {"driver": {"const": name}} | schema["properties"]
    return schema


def _fits(options: dict[str, Any], kind: type[msgspec.Struct]) -> bool:
    try:
        msgspec.convert(options, kind)
    except msgspec.ValidationError:
        return False
    return True


def _check_links(estate: Estate, decoder: Decoder) -> None:
    for link in estate.links:
        if link.between[0] == link.between[1]:
            path = ("links", link.id, "between")
            decoder.fault_at(path, f"the link joins '{link.between[0]}' with itself", "expected two different sites")


def _check_sites(estate: Estate, decoder: Decoder) -> None:
    for site in estate.sites:
        for store in site.stores:
            if store.used_bytes is not None and store.used_bytes > store.size_bytes:
                used = ("sites", site.id, "stores", store.id, "used")
                decoder.fault_at(used, "more is used than the store holds", "expected at most its 'size'")
        for node in site.nodes:
            if bool(node.gpus) != bool(node.gpu_model):
                given, missing = ("gpu_model", "gpus") if node.gpu_model else ("gpus", "gpu_model")
                path = ("sites", site.id, "nodes", node.id, given)
                decoder.fault_at(path, f"'{given}' without '{missing}'", "expected both or none")


def _check_workloads(estate: Estate, decoder: Decoder) -> None:
    services: set[str] = {service.id for service in estate.services}
    for workload in estate.workloads:
        path = ("workloads", workload.id)
        if workload.id in services:
            decoder.fault_at(path, f"a service is called '{workload.id}' too", "expected different ids, since 'needs' may name either")
        if workload.min_gpus is not None and workload.min_gpus > workload.gpus:
            decoder.fault_at(
                (*path, "min_gpus"), f"it uses {workload.gpus} GPUs and needs {workload.min_gpus}", "expected at most its 'gpus'"
            )
        if workload.checkpoint_bytes is not None and workload.checkpoint_per_gpu_bytes is not None:
            decoder.fault_at(
                (*path, "checkpoint_per_gpu"),
                "found 'checkpoint' and 'checkpoint_per_gpu' together",
                "expected one: the total, or for each GPU",
            )
    for service in estate.services:
        if len(set(service.sites)) < len(service.sites):
            decoder.fault_at(("services", service.id, "sites"), "a site is named twice", "expected each site once")


def _check_needs(estate: Estate, decoder: Decoder) -> None:
    """Report each dependency cycle once, at its first member in the file."""
    things: list[tuple[str, Workload | Service]] = [
        *(("workloads", workload) for workload in estate.workloads), *(("services", service) for service in estate.services)
    ]  # fmt: skip
    needs: dict[str, tuple[str, ...]] = {thing.id: thing.needs for _, thing in things}
    reported: set[str] = set()
    for kind, thing in things:
        ring = _ring(thing.id, needs)
        if ring and not reported & set(ring):
            reported |= set(ring)
            way = " needs ".join(f"'{name}'" for name in [*ring, thing.id])
            decoder.fault_at((kind, thing.id, "needs"), f"it waits for itself: {way}", "expected needs without a cycle")


def _ring(start: str, needs: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The shortest way from ``start`` along needs back to it; empty when there is none."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        for need in needs.get(way[-1], ()):
            if need == start:
                return way
            if need not in seen:
                seen.add(need)
                ways.append([*way, need])
    return []


def _check_objectives(estate: Estate, decoder: Decoder, objectives: Collection[str]) -> None:
    named: list[tuple[str, str, str | None]] = [("workloads", one.id, one.objective) for one in estate.workloads]
    named += [("services", one.id, one.objective) for one in estate.services]
    for kind, name, objective in named:
        if objective is not None and objective not in objectives:
            decoder.fault_at((kind, name, "objective"), f"the policy has no objective '{objective}'", nearest(objective, objectives))
