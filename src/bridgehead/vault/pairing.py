"""Pairing: which blocks may predict which (design section 5). Pure.

Names are hints that keep the number of trials small: words that optimizers use for their moments, and containers around a state. What a
hint promises is tried on a sample by the codec before it is believed; shapes and places must match.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.codec import Form, Predictor, form_of


class Role(enum.IntEnum):
    """What a tensor is for the optimizer; in the order in which blocks are encoded, so that what predicts comes first."""

    FIRST_MOMENT = 0
    SECOND_MOMENT = 1
    WEIGHTS = 2
    NARROW_WEIGHTS = 3


_FIRST: Final = frozenset({"exp_avg", "m", "mu", "momentum", "momentum_buffer", "moment1"})
_SECOND: Final = frozenset({"exp_avg_sq", "v", "nu", "moment2"})
_CONTAINERS: Final = frozenset(
    {"model", "module", "master", "master_weights", "weights", "params", "state", "state_dict", "optimizer", "fp32", "fp32_params"}
)
_SEPARATOR: Final = re.compile(r"[./:|\[\]]+")


class Slot(msgspec.Struct, frozen=True):
    """What a block holds: elements ``first`` and on of a tensor, or of a run of small tensors that begins with it. An opaque piece has no
    tensor and counts bytes of the file."""

    path: str
    tensor: str
    shape: tuple[int, ...]
    form: Form
    first: int
    size_bytes: int

    @property
    def count(self) -> int:
        """Whole elements."""
        return self.size_bytes // self.form.width

    @property
    def role(self) -> Role:
        """By a word in the name."""
        words = set(_SEPARATOR.split(self.tensor))
        if words & _SECOND:
            return Role.SECOND_MOMENT
        if words & _FIRST:
            return Role.FIRST_MOMENT
        return Role.WEIGHTS if self.form.width > 2 else Role.NARROW_WEIGHTS

    @property
    def kin(self) -> tuple[object, ...]:
        """Equal for the same elements of weights, copy and moments."""
        words = tuple(word for word in _SEPARATOR.split(self.tensor) if word not in _FIRST | _SECOND | _CONTAINERS)
        return (words, self.shape, self.first, self.count)


def slot_of(path: str, tensors: Sequence[TensorEntry], offset_bytes: int, size_bytes: int) -> Slot:
    """The slot of a piece. ``tensors`` are those that have bytes in it, by offset."""
    forms = {form_of(tensor.dtype) for tensor in tensors}
    if len(forms) != 1 or tensors[0].offset_bytes > offset_bytes:
        return Slot(path, "", (), Form.BYTES, offset_bytes, size_bytes)
    form, begin = forms.pop(), offset_bytes - tensors[0].offset_bytes
    if begin % form.width or any((tensor.offset_bytes - tensors[0].offset_bytes) % form.width for tensor in tensors):
        return Slot(path, "", (), Form.BYTES, offset_bytes, size_bytes)
    return Slot(path, tensors[0].name, tensors[0].shape, form, begin // form.width, size_bytes)


class Guess(msgspec.Struct, frozen=True):
    """A prediction that may be worth a trial. Bases: index of a slot, and whether it is the one of the earlier snapshot."""

    predictor: Predictor
    bases: tuple[tuple[int, bool], ...]


class Family:
    """The slots of one save, found by kin."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._kin: dict[tuple[tuple[object, ...], Role], int] = {}
        for index, slot in enumerate(slots):
            if slot.tensor and slot.form.computable:
                self._kin.setdefault((slot.kin, slot.role), index)

    def members(self) -> list[list[int]]:
        """Indices of slots in groups; a guess uses new blocks of its own group only. In a group, what predicts comes first."""
        groups: dict[object, list[int]] = {}
        for index, slot in enumerate(self._slots):
            computable = bool(slot.tensor) and slot.form.computable
            groups.setdefault(slot.kin if computable else index, []).append(index)
        return [sorted(group, key=lambda index: self._slots[index].role) for group in groups.values()]

    def predicts(self, index: int) -> bool:
        """Whether a guess may use this slot: it is the first one of its kin and role, and not a copy."""
        slot = self._slots[index]
        if not slot.tensor or not slot.form.computable:
            return True  # by itself, and what the next save begins with
        return self._of(slot, slot.role) == index and not (slot.role is Role.NARROW_WEIGHTS and self._of(slot, Role.WEIGHTS) is not None)

    def guesses(self, index: int) -> Iterator[Guess]:
        """What may predict this slot, the most promising first. Where the earlier block is missing, the caller passes the guess over."""
        slot = self._slots[index]
        if slot.tensor and slot.form.computable:
            yield from self._computed(index, slot)
        yield Guess(Predictor.PREVIOUS, ((index, True),))

    def _computed(self, index: int, slot: Slot) -> Iterator[Guess]:
        m, v = self._of(slot, Role.FIRST_MOMENT), self._of(slot, Role.SECOND_MOMENT)
        wide = self._of(slot, Role.WEIGHTS)
        match slot.role:
            case Role.FIRST_MOMENT:
                yield Guess(Predictor.SCALED, ((index, True),))
            case Role.SECOND_MOMENT:
                if m is not None:
                    yield Guess(Predictor.SQUARES, ((index, True), (m, True), (m, False)))
                yield Guess(Predictor.SCALED, ((index, True),))
            case Role.NARROW_WEIGHTS if wide is not None:
                yield Guess(Predictor.ROUNDED, ((wide, False),))
            case Role.WEIGHTS | Role.NARROW_WEIGHTS if m is not None:
                if v is not None:
                    yield Guess(Predictor.ADAM, ((index, True), (m, False), (v, False)))
                    yield Guess(Predictor.ADAM_FAR, ((index, True), (m, False), (v, False), (m, True), (v, True)))
                yield Guess(Predictor.MOMENTUM, ((index, True), (m, False), (m, True)))
            case _:
                pass

    def _of(self, slot: Slot, role: Role) -> int | None:
        return self._kin.get((slot.kin, role))
