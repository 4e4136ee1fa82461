"""DCGM exporter: the page of metrics of a node's GPUs in the text format of Prometheus (M2).

- Instances of a divided GPU belong to it: each has its own series, and what only the card has is stated once (D10).
- Numbers by which DCGM means "no value" are UNKNOWN (D11).
- The page says its host, but in a pod that can be the pod's name: then the folder's name counts.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.captures import same_host
from bridgehead.discovery.dcgm import BY_NAME, FIELDS, state_value
from bridgehead.discovery.nvidia import MAX_LINE_CHARS, head_lines, state_bus_id, state_serial, state_uuid, unfinished_line, word
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "dcgm-exporter"
_SAMPLE: Final = re.compile(r"([A-Za-z_:][\w:]{0,200})\{([^\n]*)\}[ \t]{1,20}(\S{1,60})(?:[ \t]{1,20}-?\d{1,20})?[ \t]{0,20}", re.ASCII)
_LABEL: Final = re.compile(r'[ \t]{0,20}([A-Za-z_]\w{0,200})="((?:[^"\\]|\\.)*)"[ \t]{0,20}(?:,|$)', re.ASCII)
_OWN: Final = re.compile(r"DCGM_(?:FI|EXP)_\w{1,120}", re.ASCII)
_INDEX: Final = re.compile(r"\d{1,4}", re.ASCII)
# The names that Kubernetes gives to pods: the exporter's own, or five of these signs at the end.
_POD: Final = re.compile(r".{0,200}(?:exporter.{0,100}|-[bcdfghjklmnpqrstvwxz2456789]{5})")
_IDENTITY: Final = {
    "modelName": "model",
    "DCGM_FI_DEV_NAME": "model",
    "DCGM_FI_DEV_VBIOS_VERSION": "vbios-version",
    "UUID": "uuid",
    "pci_bus_id": "pci-bus-id",
    "DCGM_FI_DEV_SERIAL": "serial",
}


class _Page(msgspec.Struct):
    """What is gathered while the lines go by: who was described already, and the instances of each GPU."""

    described: set[tuple[str, str, str]] = msgspec.field(default_factory=set)
    values: set[tuple[str, str, str]] = msgspec.field(default_factory=set)
    instances: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)


def recognises(head: bytes) -> bool:
    """A metric of DCGM, or what is said about one."""
    return any(
        _OWN.match(line.partition("{")[0]) if line.startswith("DCGM_") else line.startswith(("# HELP DCGM_FI_", "# TYPE DCGM_FI_"))
        for line in head_lines(head)
    )


def parse(capture: Capture) -> Parsed:
    """Facts of each GPU, and of instances, switches and CPUs that have series of their own."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    page = _Page()
    foreign: list[int] = []
    strange: list[int] = []
    for number, raw in enumerate(capture.lines, 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        sample = _SAMPLE.fullmatch(text) if len(text) <= MAX_LINE_CHARS else None
        labels = _labels(sample[2]) if sample else None
        if number == cut:
            say.skip(number, f"the output may be cut in this line: {text[:80]!r}")
        elif sample is None or labels is None:
            strange.append(number)
        elif _OWN.fullmatch(sample[1]) is None or not (part := _part(labels)):
            foreign.append(number)
        else:
            node = f"node:{_host(labels, capture.host) or '?'}"
            _state_sample(say, page, (node, part), labels, sample, number)
    for subject, found in page.instances.items():
        line = min(found.values())
        if cut:
            say.unknown(subject, "mig-instances", line=line, note=f"at least {len(found)}: the page is cut")
        else:
            say.known(subject, "mig-instances", len(found), line=line)
    if foreign:
        say.skip(foreign[0], f"{len(foreign)} series that are not DCGM's, or name no GPU, switch or CPU")
    if strange:
        say.skip(strange[0], f"{len(strange)} lines are no samples with labels")
    return say.done()


def _labels(text: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None:
            return None if text[position:].strip() else found
        found[label[1]] = label[2]
        position = label.end()
    return found


def _part(labels: dict[str, str]) -> str:
    """The part of the node that the series is about; empty where no label tells."""
    part = ""
    for label, kind in (("gpu", "gpu"), ("nvswitch", "nvswitch"), ("cpu", "cpu")):
        if _INDEX.fullmatch(labels.get(label, "")):
            part = f"{kind}:{int(labels[label])}"
            break
    else:
        if labels.get("UUID", "").startswith("GPU-"):
            part = f"gpu:{labels['UUID'][:60]}"
    for label, kind in (("cpucore", "core"), ("nvlink", "nvlink")):
        if part and _INDEX.fullmatch(labels.get(label, "")):
            return f"{part}/{kind}:{int(labels[label])}"
    return part


def _host(labels: dict[str, str], folder: str) -> str:
    printed = (labels.get("Hostname") or labels.get("hostname") or "").strip().replace("/", "%2F")[:255]
    if not printed or (folder and (same_host(printed, folder) or _POD.fullmatch(printed))):
        return folder
    return printed


def _state_sample(say: Statements, page: _Page, owner: tuple[str, str], labels: dict[str, str], sample: re.Match[str], line: int) -> None:
    node, part = owner
    subject = f"{node}/{part}"
    if part.startswith("gpu:"):
        _state_identity(say, page, node, f"{node}/{part.partition('/')[0]}", labels, line)
    name = sample[1].removeprefix("DCGM_FI_")
    field = BY_NAME.get(name) if part.startswith("gpu:") and "/" not in part else None
    instance = labels.get("GPU_I_ID", "")
    if _INDEX.fullmatch(instance) and part.startswith("gpu:"):
        found = page.instances.setdefault(subject, {})
        place = f"{subject}/gpu-instance:{int(instance)}"
        if instance not in found:
            found[instance] = line
            word(say, place, "profile", labels.get("GPU_I_PROFILE", ""), line=line)
        subject = subject if field is not None and field.of_card else place
    if (subject, name, sample[3]) not in page.values:
        page.values.add((subject, name, sample[3]))
        state_value(say, subject, field, name, sample[3], line=line)


def _state_identity(say: Statements, page: _Page, node: str, subject: str, labels: dict[str, str], line: int) -> None:
    """What labels say of the GPU and its driver: once, however many series repeat it."""
    for label, value in labels.items():
        if (owner := node if label == "DCGM_FI_DRIVER_VERSION" else subject if label in _IDENTITY else "") == "":
            continue
        if (owner, label, value) in page.described:
            continue
        page.described.add((owner, label, value))
        match label:
            case "UUID":
                state_uuid(say, owner, value, line=line)
            case "pci_bus_id":
                state_bus_id(say, owner, value, line=line)
            case "DCGM_FI_DEV_SERIAL":
                state_serial(say, owner, value, line=line)
            case _:
                word(say, owner, "driver-version" if owner == node else _IDENTITY[label], value, line=line)


_MEANINGS: Final = {
    "model": "name of the product",
    "vbios-version": "version of the video BIOS",
    "uuid": "the one name that no other GPU has",
    "pci-bus-id": "PCI address as domain:bus:device.function",
    "serial": "serial number of the board; unknown where it is a placeholder",
}
_OTHERS: Final = (
    "gpu:*", "gpu:*/gpu-instance:*", "gpu:*/nvlink:*", "gpu:*/nvlink:*/gpu-instance:*", "nvswitch:*", "nvswitch:*/nvlink:*", "cpu:*",
    "cpu:*/core:*",
)  # fmt: skip
PARSER = Parser(
    tool=_TOOL,
    command="curl http://localhost:9400/metrics",
    recognises=recognises,
    marks=(b"dcgm_",),
    parse=parse,
    yields=(
        Yield("node:*", "driver-version", "", "version of the driver"),
        *(Yield("node:*/gpu:*", attribute, "", meaning) for attribute, meaning in _MEANINGS.items()),
        Yield("node:*/gpu:*", "mig-instances", "", "instances of a divided GPU"),
        Yield("node:*/gpu:*/gpu-instance:*", "profile", "", "size of the instance, such as 2g.20gb"),
        *(Yield("node:*/gpu:*", field.attribute, field.unit, field.meaning) for field in FIELDS),
        *(
            Yield("node:*/gpu:*/gpu-instance:*", field.attribute, field.unit, f"the same of an instance: {field.meaning}")
            for field in FIELDS
            if not field.of_card
        ),
        *(Yield(f"node:*/{part}", "dcgm-seen:*", "", "any other field, by DCGM's name") for part in _OTHERS),
    ),
)
