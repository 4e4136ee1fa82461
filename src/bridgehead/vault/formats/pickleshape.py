"""The shape of a pickle, without unpickling: an opcode reader that builds inert values and can call nothing.

Pickle is a program. Here it runs on a machine that has no instruction to import or to call: a global is its two names, a call is a record
of what would have been called, unless the caller of ``read_pickle`` turns it into a value of its own. Opcodes that are not listed end it.
Work and memory are in proportion to the bytes read; nothing is copied more than once, and references stay references.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

MAX_PICKLE_BYTES: Final = 16 << 20
MAX_OPCODES: Final = 2_000_000


class Unreadable(Exception):
    """Not a pickle, or one that does more than this reader follows. Never leaves the package."""


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or function. It is not looked up."""

    module: str
    name: str


@dataclass(slots=True, eq=False)
class Table:
    """A dict: its pairs in the order of writing. A list, because keys that were made to collide would make a dict slow."""

    pairs: list[tuple[object, object]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Call:
    """What unpickling would have called; ``state`` as given by BUILD."""

    function: object
    arguments: object
    state: object = None


Caller = Callable[[Call], object]
"""Turns a call into a value, or gives it back."""


class _Machine:
    def __init__(self, data: bytes, persistent: Callable[[object], object], call: Caller) -> None:
        self._data = data
        self._at = 0
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}
        self._persistent = persistent
        self._call = call

    def run(self) -> object:
        for _ in range(MAX_OPCODES):
            code = self._take(1)[0]
            if code == _STOP:
                return self._stack.pop()
            step = _STEPS.get(code)
            if step is None:
                raise Unreadable(f"opcode {code:#x}")
            step(self)
        raise Unreadable("too long")

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise Unreadable("it ends too early")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(size), "little", signed=signed)

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at, self._at + 1024)
        if end < 0:
            raise Unreadable("a name without end")
        return self._take(end + 1 - self._at)[:-1].decode()

    def _from_mark(self) -> list[object]:
        mark = self._marks.pop()
        items = self._stack[mark:]
        del self._stack[mark:]
        return items

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def skip(self, size: int) -> None:
        self._take(size)

    def push(self, value: object) -> None:
        self._stack.append(value)

    def pop(self) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def duplicate(self) -> None:
        self._stack.append(self._stack[-1])

    def integer(self, size: int) -> None:
        self.push(self._number(size, signed=size == 4))

    def long(self) -> None:
        self.push(self._number(self._number(1), signed=True))

    def real(self) -> None:
        self.push(struct.unpack(">d", self._take(8))[0])

    def text(self, size: int) -> None:
        self.push(self._take(self._number(size)).decode())

    def raw(self, size: int) -> None:
        self.push(self._take(self._number(size)))

    def new_list(self) -> None:
        self.push([])

    def new_table(self) -> None:
        self.push(Table())

    def small_tuple(self, count: int) -> None:
        if len(self._stack) < count:
            raise Unreadable("stack is empty")
        items = tuple(self._stack[len(self._stack) - count :])
        del self._stack[len(self._stack) - count :]
        self.push(items)

    def tuple_of_marked(self) -> None:
        self.push(tuple(self._from_mark()))

    def put(self, size: int) -> None:
        self._memo[self._number(size)] = self._stack[-1]

    def memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def get(self, size: int) -> None:
        self.push(self._memo[self._number(size)])

    def global_name(self) -> None:
        module = self._line()
        self.push(Global(module, self._line()))

    def global_from_stack(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not (isinstance(module, str) and isinstance(name, str)):
            raise Unreadable("a global that is no name")
        self.push(Global(module, name))

    def persistent(self) -> None:
        self.push(self._persistent(self._stack.pop()))

    def reduce(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self.push(self._call(Call(function, arguments)))

    def new_object_with_names(self) -> None:
        self._stack.pop()
        self.reduce()

    def build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if isinstance(target, Call):
            target.state = state

    def append(self) -> None:
        item = self._stack.pop()
        self._extend([item])

    def extend(self) -> None:
        self._extend(self._from_mark())

    def _extend(self, items: list[object]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)
        elif not isinstance(target, Call):
            raise Unreadable("items for what is no list")

    def set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._update([key, value])

    def set_items(self) -> None:
        self._update(self._from_mark())

    def _update(self, items: list[object]) -> None:
        target = self._stack[-1]
        if isinstance(target, Table) and len(items) % 2 == 0:
            target.pairs.extend(zip(items[::2], items[1::2], strict=True))
        elif not isinstance(target, Call):
            raise Unreadable("entries for what is no dict")


_STOP: Final = ord(".")
_STEPS: Final[dict[int, Callable[[_Machine], None]]] = {
    0x80: lambda machine: machine.skip(1),  # PROTO
    0x95: lambda machine: machine.skip(8),  # FRAME
    ord("("): _Machine.mark,
    ord("0"): _Machine.pop,
    ord("2"): _Machine.duplicate,
    ord("N"): lambda machine: machine.push(None),
    0x88: lambda machine: machine.push(True),
    0x89: lambda machine: machine.push(False),
    ord("J"): lambda machine: machine.integer(4),
    ord("K"): lambda machine: machine.integer(1),
    ord("M"): lambda machine: machine.integer(2),
    0x8A: _Machine.long,  # LONG1
    ord("G"): _Machine.real,
    ord("X"): lambda machine: machine.text(4),
    0x8C: lambda machine: machine.text(1),  # SHORT_BINUNICODE
    ord("B"): lambda machine: machine.raw(4),
    ord("C"): lambda machine: machine.raw(1),
    ord("T"): lambda machine: machine.raw(4),
    ord("U"): lambda machine: machine.raw(1),
    ord("]"): _Machine.new_list,
    0x8F: _Machine.new_list,  # EMPTY_SET
    0x90: _Machine.extend,  # ADDITEMS
    0x91: _Machine.tuple_of_marked,  # FROZENSET
    ord("}"): _Machine.new_table,
    ord(")"): lambda machine: machine.push(()),
    0x85: lambda machine: machine.small_tuple(1),
    0x86: lambda machine: machine.small_tuple(2),
    0x87: lambda machine: machine.small_tuple(3),
    ord("t"): _Machine.tuple_of_marked,
    ord("q"): lambda machine: machine.put(1),
    ord("r"): lambda machine: machine.put(4),
    0x94: _Machine.memoize,
    ord("h"): lambda machine: machine.get(1),
    ord("j"): lambda machine: machine.get(4),
    ord("c"): _Machine.global_name,
    0x93: _Machine.global_from_stack,
    ord("Q"): _Machine.persistent,
    ord("R"): _Machine.reduce,
    0x81: _Machine.reduce,  # NEWOBJ: the same as far as this reader goes
    0x92: _Machine.new_object_with_names,
    ord("b"): _Machine.build,
    ord("a"): _Machine.append,
    ord("e"): _Machine.extend,
    ord("s"): _Machine.set_item,
    ord("u"): _Machine.set_items,
}


def read_pickle(data: bytes, *, persistent: Callable[[object], object], call: Caller) -> object:
    """The value that the pickle describes, made of None, bool, int, float, str, bytes, tuple, list, Table, Global, Call and what
    ``persistent`` (for a persistent id) and ``call`` return. Raises Unreadable."""
    if len(data) > MAX_PICKLE_BYTES:
        raise Unreadable("it is too large")
    try:
        return _Machine(data, persistent, call).run()
    except (IndexError, KeyError, ValueError) as error:
        raise Unreadable(str(error)) from error
