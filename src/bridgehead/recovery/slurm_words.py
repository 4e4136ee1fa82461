"""Options of sbatch, srun and salloc whose values name things of the site, and the names in such values with their places. Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bridgehead.model.site_map import Kind
from bridgehead.recovery.shell_words import Word


class Shape(enum.Enum):
    """How the value of an option is written."""

    LIST = "list"
    """Names with commas between."""
    LICENSES = "licenses"
    """``name@server:3``, with commas between."""
    FEATURES = "features"
    """Names with ``& | ( ) [ ] * ,`` between."""
    GRES = "gres"
    """``name:type:number``, with commas between."""
    GPUS = "gpus"
    """``type:number``, with commas between."""
    READ = "read"
    """A path that must be there."""
    WRITTEN = "written"
    """A path that is made; its folder must be there."""
    IMAGE = "image"
    MOUNTS = "mounts"
    """``outside:inside:flags``, with commas between."""
    INSIDE = "inside"
    """A path in a container."""
    TEXT = "text"
    """Looked through as any text is, such as ``ALL,NAME=value``."""
    OTHER = "other"
    """Names nothing of the site."""


_LONG: Final[dict[str, tuple[Shape, Kind | None]]] = {
    "partition": (Shape.LIST, Kind.PARTITION),
    "account": (Shape.LIST, Kind.ACCOUNT),
    "qos": (Shape.LIST, Kind.QOS),
    "reservation": (Shape.LIST, Kind.RESERVATION),
    "nodelist": (Shape.LIST, Kind.NAME),
    "exclude": (Shape.LIST, Kind.NAME),
    "clusters": (Shape.LIST, Kind.NAME),
    "licenses": (Shape.LICENSES, Kind.NAME),
    "constraint": (Shape.FEATURES, Kind.CONSTRAINT),
    "prefer": (Shape.FEATURES, Kind.CONSTRAINT),
    "cluster-constraint": (Shape.FEATURES, Kind.CONSTRAINT),
    "gres": (Shape.GRES, Kind.GRES),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"), (Shape.GPUS, Kind.GRES)),
    **dict.fromkeys(("output", "error"), (Shape.WRITTEN, Kind.PATH)),
    **dict.fromkeys(("input", "chdir", "nodefile", "container"), (Shape.READ, Kind.PATH)),
    "container-image": (Shape.IMAGE, Kind.IMAGE),
    "container-mounts": (Shape.MOUNTS, Kind.PATH),
    "container-workdir": (Shape.INSIDE, None),
    "export": (Shape.TEXT, None),
    **dict.fromkeys(
        (
            *("nodes", "ntasks", "cpus-per-task", "time", "job-name", "mem", "mem-per-gpu", "mem-per-cpu", "ntasks-per-node", "comment"),
            *("cpus-per-gpu", "dependency", "array", "begin", "signal", "mail-type", "mail-user", "open-mode", "switches", "distribution"),
            *("ntasks-per-gpu", "gpu-bind", "cpu-bind", "mpi", "jobid", "threads-per-core", "time-min", "nice", "priority", "label"),
        ),
        (Shape.OTHER, None),
    ),
}
_SHORT: Final = {
    **{"p": "partition", "A": "account", "q": "qos", "C": "constraint", "w": "nodelist", "x": "exclude", "M": "clusters", "L": "licenses"},
    **{"G": "gpus", "o": "output", "e": "error", "i": "input", "D": "chdir", "F": "nodefile", "N": "nodes", "n": "ntasks"},
    **{"c": "cpus-per-task", "t": "time", "J": "job-name", "d": "dependency", "a": "array", "b": "begin", "m": "distribution"},
}
_FLAGS: Final = frozenset(
    {"exclusive", "requeue", "no-requeue", "overlap", "label", "unbuffered", "oversubscribe", "wait-all-nodes", "hold"}
)
_VARIABLE: Final = re.compile(r"(?:SBATCH|SALLOC|SLURM|SRUN)_(PARTITION|ACCOUNT|QOS|CONSTRAINT|RESERVATION|GRES|GPUS|NODELIST|EXCLUDE)")
NUMBERS: Final = frozenset({"nodes", "ntasks", "gpus", "gpus-per-node", "gpus-per-task", "gres", "ntasks-per-node", "time"})


class Option(msgspec.Struct, frozen=True):
    """One option with its value.

    Attributes:
        name: the long name.
        value: without quotes around it.
        start: offset of the value.
        begins: offset of the option itself.
        ends: offset after option and value.
    """

    name: str
    shape: Shape
    kind: Kind | None
    value: str
    start: int
    begins: int
    ends: int


class Named(msgspec.Struct, frozen=True):
    """A name within a value: the word that the mapping knows, and the characters that stand for it."""

    word: str
    start: int
    end: int


def options(words: Sequence[Word]) -> Iterator[Option]:
    """The options up to the first word that is none: the program, or the end. Those of unknown names and without values are passed over."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        name, value, start = _split(word)
        if not name:
            return
        shape, kind = _LONG.get(name, (Shape.TEXT, None))
        if value is None:
            if name not in _LONG or name in _FLAGS or at >= len(words):
                continue
            value, start = _unquoted(words[at].text, words[at].start)
            at += 1
        yield Option(name, shape, kind, value, start, word.start, words[at - 1].end)


def variable_option(name: str, value: Word, start: int) -> Option | None:
    """What a variable such as ``SBATCH_PARTITION`` says in an option's place."""
    found = _VARIABLE.fullmatch(name)
    if found is None:
        return None
    long = found[1].lower()
    shape, kind = _LONG[long]
    text, offset = _unquoted(value.text[start - value.start :], start)
    return Option(long, shape, kind, text, offset, value.start, value.end)


def _split(word: Word) -> tuple[str, str | None, int]:
    text = word.text
    if text.startswith("--") and len(text) > 2:
        name, equals, raw = text[2:].partition("=")
        if not equals:
            return name, None, 0
        return name, *_unquoted(raw, word.start + 3 + len(name))
    if len(text) >= 2 and text[0] == "-" and text[1] != "-":
        name = _SHORT.get(text[1], text[1])
        if len(text) == 2 or text[1] not in _SHORT:
            return name, None, 0
        return name, *_unquoted(text[2:], word.start + 2)
    return "", None, 0


def _unquoted(raw: str, start: int) -> tuple[str, int]:
    if len(raw) >= 2 and raw[0] == raw[-1] and raw[0] in "'\"":
        return raw[1:-1], start + 1
    return raw, start


def names(option: Option) -> Iterator[Named]:
    """The names in the value of an option of kind list, licenses, features, gres or gpus."""
    match option.shape:
        case Shape.FEATURES:
            pattern = r"(?<!\*)\b[A-Za-z_0-9][\w.-]*"
        case _:
            pattern = r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*"
    for found in re.finditer(pattern, option.value):
        yield from _named(option, found[0], option.start + found.start())


def _named(option: Option, text: str, start: int) -> Iterator[Named]:
    if option.shape is Shape.LICENSES:
        text = re.split("[@:]", text, maxsplit=1)[0]
    elif option.shape is Shape.GRES:
        prefix = re.match(r"gres[:/]", text)
        if prefix is not None:
            text, start = text[prefix.end() :], start + prefix.end()
        found = re.match(r"[A-Za-z]\w*(?::(?!\d+[KMGT]?$|\d+[KMGT]?[:(])[\w.-]+)?", text)
        if found is None:
            return
        text = found[0]
    elif option.shape is Shape.GPUS:
        # "h100:" and "h100:4": the colon goes with the type, so that a site without types can leave both out.
        found = re.match(r"([A-Za-z][\w.-]*)(?::|$)", text)
        if found is not None:
            yield Named(f"gpu:{found[1]}", start, start + found.end())
        return
    yield Named(text, start, start + len(text))


def gpus_asked(option: Option) -> tuple[str, int] | None:
    """(type or "", number) that an option asks for; None when it names no GPUs."""
    if option.name == "gres":
        found = re.search(r"(?:^|,|gres[:/])gpu(?::(?!\d+(?:,|$))([\w.-]+))?(?::(\d+))?", option.value)
        return None if found is None else (found[1] or "", int(found[2] or 1))
    if option.shape is Shape.GPUS:
        found = re.fullmatch(r"(?:([A-Za-z][\w.-]*)(?::|$))?(\d+)?", option.value)
        return None if found is None else (found[1] or "", int(found[2] or 1))
    return None
