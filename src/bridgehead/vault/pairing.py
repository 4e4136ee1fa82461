"""Pairing: which blocks may predict which (design section 5). Pure.

Names are hints that keep the number of trials small: words that optimizers use for their moments, and containers around a state. What a
hint promises is tried on a sample by the codec before it is believed; shapes and places must match.
"""

from __future__ import annotations

import enum
import posixpath
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
_DIGITS: Final = re.compile(r"[0-9]+")
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
    """The slots of one save, found by kin. Where ranks write tensors of one name, each rank's are a family of their own."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        kin: dict[tuple[object, ...], list[int]] = {}
        for index, slot in enumerate(slots):
            if slot.tensor and slot.form.computable:
                kin.setdefault(slot.kin, []).append(index)
        self._groups = [group for same in kin.values() for group in _by_rank(slots, same)]
        self._firsts: dict[int, dict[Role, int]] = {}
        for group in self._groups:
            firsts: dict[Role, int] = {}
            for index in group:
                firsts.setdefault(slots[index].role, index)
                self._firsts[index] = firsts

    def members(self) -> list[list[int]]:
        """Indices of slots in groups; a guess uses new blocks of its own group only. In a group, what predicts comes first."""
        alone = [[index] for index in range(len(self._slots)) if index not in self._firsts]
        groups = sorted([*self._groups, *alone], key=lambda group: group[0])
        return [sorted(group, key=lambda index: self._slots[index].role) for group in groups]

    def predicts(self, index: int) -> bool:
        """Whether a guess may use this slot: it is the first one of its kin and role, and not a copy."""
        slot = self._slots[index]
        if not slot.tensor or not slot.form.computable:
            return True  # by itself, and what the next save begins with
        firsts = self._firsts[index]
        return firsts[slot.role] == index and not (slot.role is Role.NARROW_WEIGHTS and Role.WEIGHTS in firsts)

    def guesses(self, index: int) -> Iterator[Guess]:
        """What may predict this slot, the most promising first. Where the earlier block is missing, the caller passes the guess over."""
        slot = self._slots[index]
        if slot.tensor and slot.form.computable:
            yield from self._computed(index, slot)
        yield Guess(Predictor.PREVIOUS, ((index, True),))

    def _computed(self, index: int, slot: Slot) -> Iterator[Guess]:
        firsts = self._firsts[index]
        m, v, wide = firsts.get(Role.FIRST_MOMENT), firsts.get(Role.SECOND_MOMENT), firsts.get(Role.WEIGHTS)
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


def _by_rank(slots: Sequence[Slot], same: list[int]) -> list[list[int]]:
    """Slots of one kin, apart by the rank that wrote them where a role occurs more than once.

    Ranks have folders, files, or numbers in their names; of these the one counts that puts the most slots beside one of another role.
    """
    roles = {slots[index].role for index in same}
    if len(roles) == len(same):
        return [same]
    if len(roles) == 1:
        return [[index] for index in same]  # nothing predicts another of its role: files of layers whose tensors have one name
    best, most = [same], 0
    for of_path in (posixpath.dirname, str, _numbers):
        groups: dict[object, list[int]] = {}
        for index in same:
            groups.setdefault(of_path(slots[index].path), []).append(index)
        beside = sum(len(group) for group in groups.values() if len({slots[index].role for index in group}) == len(group) > 1)
        if beside > most:
            best, most = list(groups.values()), beside
    return best


def _numbers(path: str) -> tuple[str, ...]:
    return tuple(_DIGITS.findall(path))
