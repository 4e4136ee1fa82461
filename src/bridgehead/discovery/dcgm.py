"""What the outputs of DCGM have in common: values that mean "no value", and fields that other tools know as well. Pure.

Source of the sentinels: ``dcgm_structs.h`` of DCGM, the BLANK, NOT_FOUND, NOT_SUPPORTED and NOT_PERMISSIONED values of 32-bit and 64-bit
integers and of floats (case D11); and minus one as an unsigned number.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.nvidia import printed_note
from bridgehead.discovery.parsing import Statements, number_in

_BLANKS: Final = (
    range(0x7FFFFFF0, 0x7FFFFFF4),
    range(0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF4),
    range(1 << 47, (1 << 47) + 4),
    range(0xFFFFFFFF, 0x100000000),
    range(0xFFFFFFFFFFFFFFFF, 0x10000000000000000),
)
# A float cannot hold the 64-bit values: who passes them on through one prints these.
_ROUNDED: Final = (float(1 << 63), float(1 << 64))


class Field(msgspec.Struct, frozen=True):
    """A field that has a name of its own here.

    Attributes:
        name: DCGM's, without ``DCGM_FI_``.
        tag: what ``dcgmi dmon`` calls it; empty where that is not known.
        scale: from the unit of DCGM to ``unit``.
        of_card: a MIG instance cannot have one of its own: the value is that of the whole card, however often it is printed (D10).
    """

    name: str
    tag: str
    attribute: str
    meaning: str
    unit: str = ""
    scale: float = 1
    of_card: bool = True


FIELDS: Final = (
    Field("DEV_GPU_TEMP", "TMPTR", "temperature", "of the chip", "degC"),
    Field("DEV_MEMORY_TEMP", "MMTMP", "memory-temperature", "of the memory", "degC"),
    Field("DEV_POWER_USAGE", "POWER", "power-draw", "draw now", "W"),
    Field("DEV_SM_CLOCK", "SMCLK", "sm-clock-seen", "clock now", "Hz", 1e6),
    Field("DEV_MEM_CLOCK", "MMCLK", "memory-clock-seen", "clock of the memory now", "Hz", 1e6),
    Field("DEV_GPU_UTIL", "GPUTL", "utilization", "share of time with work", "%", of_card=False),
    Field("DEV_MEM_COPY_UTIL", "MCUTL", "memory-utilization", "share of time with memory traffic", "%", of_card=False),
    Field("DEV_FB_USED", "FBUSD", "memory-used", "memory in use", "B", 2**20, of_card=False),
    Field("DEV_FB_FREE", "FBFRE", "memory-free", "memory that is free", "B", 2**20, of_card=False),
    Field("DEV_XID_ERRORS", "XIDER", "xid-last-seen", "number of the last Xid error; 0 where there was none", of_card=False),
    Field("DEV_PCIE_REPLAY_COUNTER", "", "pcie-replays-seen", "PCIe replays since the reset"),
    Field("DEV_ECC_SBE_VOL_TOTAL", "ESVTL", "ecc-single-bit-volatile-seen", "corrected errors since the driver was loaded"),
    Field("DEV_ECC_DBE_VOL_TOTAL", "EDVTL", "ecc-double-bit-volatile-seen", "uncorrectable errors since the driver was loaded"),
    Field("DEV_CORRECTABLE_REMAPPED_ROWS", "", "remapped-rows-correctable-seen", "rows replaced after correctable errors"),
    Field("DEV_UNCORRECTABLE_REMAPPED_ROWS", "", "remapped-rows-uncorrectable-seen", "rows replaced after uncorrectable errors"),
)
BY_NAME: Final = {field.name: field for field in FIELDS}
BY_TAG: Final = {field.tag: field for field in FIELDS if field.tag}


def is_blank(value: float) -> bool:
    """Whether DCGM means "no value" by this number."""
    return float(value) in _ROUNDED or (value == int(value) and any(int(value) in blanks for blanks in _BLANKS))


def state_value(say: Statements, subject: str, field: Field | None, name: str, text: str, *, line: int) -> None:
    """State a value of a field; of one that has no name here under ``dcgm-seen:`` and DCGM's name."""
    attribute, unit, scale = (field.attribute, field.unit, field.scale) if field else (f"dcgm-seen:{dashed(name)}", "", 1)
    value = number_in(text)
    if value is not None and is_blank(value):
        note = f"{printed_note(text)}, by which DCGM means that there is no value"
        say.unknown(subject, attribute, line=line, unit=unit, note=note)
    else:
        say.number(subject, attribute, text, line=line, unit=unit, scale=scale)


def dashed(name: str) -> str:
    """``DEV_ENC_UTIL`` as an attribute: ``dev-enc-util``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
