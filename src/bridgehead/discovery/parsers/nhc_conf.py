"""Configuration of Node Health Check, with the checks of Azure: what each host is expected to be (M5.1, P5).

Subjects are ``expected:MASK``, and below it those of hosts: what is expected of ``node:*/nic:mlx5_0`` is ``expected:*/nic:mlx5_0``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bridgehead.discovery.nvidia import unfinished_line
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import path_part

_LINE: Final = re.compile(r"\s*(\*|!?\{[^}\n]{1,400}\}|!?/[^/\n]{1,400}/|[\w.\[\],*?!:-]{1,400})\s*\|\|\s*(.{1,2000})")
_CHECK: Final = re.compile(r"(check_\w{1,80})(?:\s+(.*))?", re.ASCII)
_COMMENT: Final = re.compile(r"\s#.*")
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kKMGTP]?)B?", re.ASCII)
_POWERS: Final = {"": 2**10, "k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_LOOKED_AT: Final = 100
_TOOL: Final = "nhc-conf"


class _Argument(msgspec.Struct, frozen=True):
    """What an argument of a check means."""

    attribute: str
    meaning: str
    unit: str = ""
    scale: float = 1


_COUNTS: Final[dict[str, tuple[_Argument, ...]]] = {
    "check_hw_cpuinfo": (
        _Argument("cpu-sockets", "number of processors"),
        _Argument("cpu-cores", "cores of all processors"),
        _Argument("cpu-threads", "threads of all processors"),
    ),
    "check_gpu_count": (_Argument("gpu-count", "GPUs that the driver has"),),
    "check_nvme_count": (_Argument("nvme-count", "NVMe disks"),),
    "check_gpu_bw": (
        _Argument("gpu-host-bandwidth-min", "least bandwidth between a GPU and the host", "B/s", 1e9),
        _Argument("gpu-peer-bandwidth-min", "least bandwidth between two GPUs", "B/s", 1e9),
    ),
    "check_ib_bw_gdr": (_Argument("rdma-gpu-bandwidth-min", "least bandwidth of an adapter from GPU memory", "bit/s", 1e9),),
    "check_ib_bw_non_gdr": (_Argument("rdma-host-bandwidth-min", "least bandwidth of an adapter from host memory", "bit/s", 1e9),),
}


def recognises(head: bytes) -> bool:
    """Lines of a mask, two bars and a check."""
    lines = [line for line in head.decode("utf-8-sig", "replace").splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found = [match for line in lines[:_LOOKED_AT] if (match := _LINE.fullmatch(line))]
    return 2 * len(found) > len(lines[:_LOOKED_AT]) and any(match[2].startswith("check_") for match in found)


def parse(capture: Capture) -> Parsed:
    """Each check that has an amount gives facts; each other one that it is made, with its arguments."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    others: list[int] = []
    adapters: Counter[str] = Counter()
    first: dict[str, int] = {}
    for number, line in enumerate(capture.lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(_COMMENT.sub("", line))
        check = _CHECK.fullmatch(found[2].strip()) if found else None
        if number == cut:
            say.skip(number, "the last line has no end and may be cut off")
        elif found is None or check is None:
            others.append(number)
        else:
            subject = f"expected:{path_part(found[1])}"
            arguments = (check[2] or "").replace('"', "").replace("'", "").split()
            _state(say, subject, check[1], arguments, number)
            if check[1] == "check_hw_ib" and len(arguments) > 1:
                adapters[subject] += 1
                first.setdefault(subject, number)
    for subject, count in adapters.items():
        say.known(subject, "infiniband-device-count", count, line=first[subject])
    if others:
        say.skip(others[0], f"{len(others)} lines that are no checks")
    return say.done()


def _state(say: Statements, subject: str, check: str, arguments: Sequence[str], line: int) -> None:
    if check in _COUNTS and arguments:
        for meaning, value in zip(_COUNTS[check], arguments, strict=False):
            say.number(subject, meaning.attribute, value, line=line, unit=meaning.unit, scale=meaning.scale)
    elif check in _READERS and arguments:
        _READERS[check](say, subject, arguments, line)
    else:
        name = " ".join(arguments)
        say.known(subject, f"check:{check}", name or True, line=line)


def _memory(attribute: str) -> Callable[[Statements, str, Sequence[str], int], None]:
    def read(say: Statements, subject: str, arguments: Sequence[str], line: int) -> None:
        for which, printed in zip(("min", "max"), arguments, strict=False):
            found = _SIZE.fullmatch(printed)
            if found:
                say.number(subject, f"{attribute}-{which}", found[1], line=line, unit="B", scale=_POWERS[found[2]])
            else:
                say.unknown(subject, f"{attribute}-{which}", line=line, unit="B", note=f"the file says {printed!r}")
        if len(arguments) > 2:
            share = arguments[2]
            say.number(
                subject, f"{attribute}-tolerance", share.removesuffix("%"), line=line, unit="1", scale=0.01 if share.endswith("%") else 1
            )

    return read


def _adapter(say: Statements, subject: str, arguments: Sequence[str], line: int) -> None:
    """Rate in Gb/s, and device and port."""
    if len(arguments) < 2:
        say.number(subject, "rate-min", arguments[0], line=line, unit="bit/s", scale=1e9)
        return
    device, _, port = arguments[1].partition(":")
    nic = f"{subject}/nic:{path_part(device)}"
    say.number(nic, "rate", arguments[0], line=line, unit="bit/s", scale=1e9)
    if port:
        say.number(nic, "port", port, line=line)


def _ethernet(say: Statements, subject: str, arguments: Sequence[str], line: int) -> None:
    say.known(f"{subject}/nic:{path_part(arguments[0])}", "present", True, line=line)


def _all_reduce(say: Statements, subject: str, arguments: Sequence[str], line: int) -> None:
    """Bus bandwidth in GB/s, runs, message size, and a file with the topology."""
    found = _SIZE.fullmatch(arguments[2]) if len(arguments) > 2 else None
    size = number_in(found[1], scale=_POWERS[found[2]]) if found and found[2] else None
    attribute = "nccl-all-reduce-bus-bandwidth-min" + (f":{size}" if size is not None else "")
    say.number(subject, attribute, arguments[0], line=line, unit="B/s", scale=1e9)


_READERS: Final[dict[str, Callable[[Statements, str, Sequence[str], int], None]]] = {
    "check_hw_physmem": _memory("memory"),
    "check_hw_swap": _memory("swap"),
    "check_hw_ib": _adapter,
    "check_hw_eth": _ethernet,
    "check_nccl_allreduce": _all_reduce,
}
PARSER = Parser(
    tool=_TOOL,
    command="cat /etc/nhc/nhc.conf",
    recognises=recognises,
    marks=(b"||",),
    parse=parse,
    yields=(
        *(Yield("expected:*", one.attribute, one.unit, one.meaning) for arguments in _COUNTS.values() for one in arguments),
        *(
            Yield("expected:*", f"{of}-{which}", "B", f"{words} of {of}")
            for of in ("memory", "swap")
            for which, words in (("min", "least amount"), ("max", "largest amount"))
        ),
        *(Yield("expected:*", f"{of}-tolerance", "1", f"how far the amount of {of} may be off") for of in ("memory", "swap")),
        Yield("expected:*", "infiniband-device-count", "", "InfiniBand ports that are expected"),
        Yield("expected:*", "rate-min", "bit/s", "least rate of all InfiniBand ports"),
        Yield("expected:*/nic:*", "rate", "bit/s", "rate of the link"),
        Yield("expected:*/nic:*", "port", "", "number of the port"),
        Yield("expected:*/nic:*", "present", "", "true where the interface is expected"),
        Yield("expected:*", "nccl-all-reduce-bus-bandwidth-min", "B/s", "least bus bandwidth of an all-reduce"),
        Yield("expected:*", "nccl-all-reduce-bus-bandwidth-min:*", "B/s", "the same at a message size in bytes"),
        Yield("expected:*", "check:*", "", "any other check that is made: its arguments, or true"),
    ),
)
