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
    UNCLEAR = "unclear"
    """Nobody can tell what belongs to it."""


_LONG: Final[dict[str, tuple[Shape, Kind | None]]] = {
    "partition": (Shape.LIST, Kind.PARTITION),
    "account": (Shape.LIST, Kind.ACCOUNT),
    "qos": (Shape.LIST, Kind.QOS),
    "reservation": (Shape.LIST, Kind.RESERVATION),
    **dict.fromkeys(("nodelist", "exclude", "clusters", "wckey"), (Shape.LIST, Kind.NAME)),
    "licenses": (Shape.LICENSES, Kind.NAME),
    **dict.fromkeys(("constraint", "prefer", "cluster-constraint", "batch"), (Shape.FEATURES, Kind.CONSTRAINT)),
    **dict.fromkeys(("gres", "tres-per-task"), (Shape.GRES, Kind.GRES)),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"), (Shape.GPUS, Kind.GRES)),
    **dict.fromkeys(("output", "error", "container-save"), (Shape.WRITTEN, Kind.PATH)),
    **dict.fromkeys(("input", "chdir", "nodefile", "container", "export-file"), (Shape.READ, Kind.PATH)),
    **dict.fromkeys(("prolog", "epilog", "task-prolog", "task-epilog", "bbf"), (Shape.READ, Kind.PATH)),
    "container-image": (Shape.IMAGE, Kind.IMAGE),
    "container-mounts": (Shape.MOUNTS, Kind.PATH),
    "container-workdir": (Shape.INSIDE, None),
    **dict.fromkeys(("export", "wrap", "bb", "extra", "network", "container-env", "mcs-label", "uid", "gid"), (Shape.TEXT, None)),
    **dict.fromkeys(
        (
            *("nodes", "ntasks", "cpus-per-task", "time", "job-name", "mem", "mem-per-gpu", "mem-per-cpu", "ntasks-per-node", "comment"),
            *("cpus-per-gpu", "dependency", "array", "begin", "signal", "mail-type", "mail-user", "open-mode", "switches", "distribution"),
            *("ntasks-per-gpu", "gpu-bind", "cpu-bind", "mpi", "jobid", "threads-per-core", "time-min", "priority", "mincpus", "hint"),
            *("cpu-freq", "gpu-freq", "deadline", "core-spec", "thread-spec", "extra-node-info", "cores-per-socket", "sockets-per-node"),
            *("ntasks-per-core", "ntasks-per-socket", "ntasks-per-tres", "mem-bind", "accel-bind", "acctg-freq", "delay-boot", "profile"),
            *("gres-flags", "kill-on-invalid-dep", "msg-timeout", "power", "relative", "segment", "slurmd-debug", "threads", "tmp"),
            *("treewidth", "tres-bind", "wait-all-nodes", "container-name", "bcast-exclude", "het-group", "container-id", "context"),
        ),
        (Shape.OTHER, None),
    ),
}
_FLAGS: Final = frozenset(
    (
        *("requeue", "no-requeue", "overlap", "label", "unbuffered", "oversubscribe", "hold", "contiguous", "exact", "debugger-test"),
        *("overcommit", "preserve-env", "quiet", "verbose", "version", "help", "usage", "disable-status", "no-allocate", "multi-prog"),
        *("parsable", "test-only", "reboot", "bell", "no-bell", "no-shell", "spread-job", "use-min-nodes", "ignore-pbs", "stepmgr"),
        *("quit-on-interrupt", "interactive", "external-launcher"),
        *("container-mount-home", "no-container-mount-home", "container-remap-root", "no-container-remap-root", "container-writable"),
        *("container-readonly", "container-entrypoint", "no-container-entrypoint", "container-entrypoint-log"),
    )
)
"""Options without a value."""
_OPTIONAL: Final = frozenset(
    (
        *("exclusive", "nice", "no-kill", "kill-on-bad-exit", "immediate", "wait", "propagate", "pty", "x11", "get-user-env", "bcast"),
        *("compress", "send-libs", "resv-ports", "kill-command", "oom-kill-step"),
    )
)
"""Options with a value only behind ``=``: the next word is the program, whatever its writer meant."""
_SHORT_FLAGS: Final = {
    **{"H": "hold", "s": "oversubscribe", "l": "label", "u": "unbuffered", "O": "overcommit", "E": "preserve-env", "Q": "quiet"},
    **{"v": "verbose", "V": "version", "h": "help", "X": "disable-status", "Z": "no-allocate"},
}
"""Letters after which another option may follow in the same word."""
_SHORT: Final = {
    **{"p": "partition", "A": "account", "q": "qos", "C": "constraint", "w": "nodelist", "x": "exclude", "M": "clusters", "L": "licenses"},
    **{"G": "gpus", "o": "output", "e": "error", "i": "input", "D": "chdir", "F": "nodefile", "N": "nodes", "n": "ntasks"},
    **{"c": "cpus-per-task", "t": "time", "J": "job-name", "d": "dependency", "a": "array", "b": "begin", "m": "distribution"},
    **{"S": "core-spec", "B": "extra-node-info", "r": "relative", "T": "threads", "k": "no-kill", "K": "kill-on-bad-exit"},
    **{"I": "immediate", "W": "wait", **_SHORT_FLAGS},
}
_CALLS: Final = frozenset({"srun", "sbatch", "salloc"})
_VARIABLE: Final = re.compile(r"(?:SBATCH|SALLOC|SLURM|SRUN)_(PARTITION|ACCOUNT|QOS|CONSTRAINT|RESERVATION|GRES|GPUS|NODELIST|EXCLUDE)")


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


def line_options(words: Sequence[Word]) -> Iterator[Option]:
    """The options of an ``#SBATCH`` line: all of them, since it has no program; words that belong to no known option are passed over."""
    at = 0
    while at < len(words):
        option, at = _next(words, at)
        if option is not None:
            yield option


def calls(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """What comes after each ``srun``, ``sbatch`` or ``salloc`` of a command, also behind ``timeout 60``, ``mpirun`` and the like."""
    for number, word in enumerate(words, start=1):
        if word.bare.rpartition("/")[2] in _CALLS:
            yield words[number:]


def call_options(words: Sequence[Word]) -> Iterator[Option]:
    """The options of a call up to its program.

    Where nobody can tell whether a word is an option's value or the program, an option of shape UNCLEAR ends them. Behind a variable, which
    may hold options or the program, those that name things of the site are unclear too.
    """
    at, doubtful = 0, False
    while at < len(words):
        name = _split(words[at])[0]
        if not name:
            if re.match(r"\"?[$`]", words[at].text) is None:
                return
            at, doubtful = at + 1, True
            continue
        option, after = _next(words, at)
        if option is not None:
            clear = not doubtful or option.kind in (None, Kind.PATH, Kind.IMAGE)
            yield option if clear else msgspec.structs.replace(option, shape=Shape.UNCLEAR)
        elif _may_be_value(name, words[after:]):
            follows = words[after]
            yield Option(name, Shape.UNCLEAR, None, follows.text, follows.start, words[at].start, follows.end)
            return
        at = after


def _may_be_value(name: str, words: Sequence[Word]) -> bool:
    """Whether the word after an option without a value may be its value: of an unknown one always, else when it is hardly a program."""
    if not words or _split(words[0])[0] or name in _FLAGS:
        return False
    after = _next(words, 1)[0] if len(words) > 1 else None
    return name not in _OPTIONAL or words[0].bare.isdigit() or (after is not None and after.kind not in (None, Kind.PATH, Kind.IMAGE))


def _next(words: Sequence[Word], at: int) -> tuple[Option | None, int]:
    """The option at a place, and the place after it; None for one without a value or of an unknown name, and for other words."""
    word = words[at]
    name, value, start = _split(word)
    at += 1
    if not name:
        return None, at
    shape, kind = _LONG.get(name, (Shape.TEXT, None))
    vague = name not in _LONG and name not in _FLAGS | _OPTIONAL and any(one.startswith(name) for one, (_, it) in _LONG.items() if it)
    if vague:  # cut short too far, as --par
        shape = Shape.UNCLEAR
    if value is None:
        waits = name == "wait" and at < len(words) and words[at].bare.isdigit()  # srun has a value for it, sbatch has none
        if at >= len(words) or not (name in _LONG or waits or vague):
            return None, at
        value, start = _unquoted(words[at].text, words[at].start)
        at += 1
    return Option(name, shape, kind, value, start, word.start, words[at - 1].end), at


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
    """(long name, value where it is in the same word, offset of the value); "" for what is no option."""
    text, start = _unquoted(word.text, word.start)
    if text.startswith("--") and len(text) > 2:
        name, equals, raw = text[2:].partition("=")
        if not equals:
            return _whole(name), None, 0
        return _whole(name), *_unquoted(raw, start + 3 + len(name))
    if len(text) >= 2 and text[0] == "-" and text[1] != "-":
        while len(text) > 2 and text[1] in _SHORT_FLAGS:
            text, start = "-" + text[2:], start + 1
        name = _SHORT.get(text[1], text[1])
        if len(text) == 2 or text[1] not in _SHORT:
            return name, None, 0
        return name, *_unquoted(text[2:], start + 2)
    return "", None, 0


def _whole(name: str) -> str:
    """A long name that may be cut short, as getopt takes it while it is that of one option only."""
    known = (*_LONG, *_FLAGS, *_OPTIONAL)
    begun = [name] if name in known else [one for one in known if one.startswith(name)]
    return begun[0] if len(begun) == 1 else name


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
        elif option.name == "tres-per-task":  # cpu=8, and other things that are no generic resources
            return
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


def gpus_asked(option: Option) -> Iterator[tuple[str, int | None]]:
    """(type or "", number) for each type of GPUs that it asks for; the number is None where it cannot be read."""
    if option.shape is Shape.GRES:
        for part in option.value.split(","):
            if found := re.fullmatch(r"(?:gres[:/])?gpu((?:[:=].*)?)", part):
                yield _counted(found[1].replace("=", ":").removeprefix(":"))
    elif option.shape is Shape.GPUS:
        for part in option.value.split(","):
            yield _counted(part)


def _counted(text: str) -> tuple[str, int | None]:
    """``type:number``, one of both, or nothing: one GPU."""
    found = re.fullmatch(r"(?:([A-Za-z][\w.-]*)(?::|$))?(\d+)?", text)
    return ("", None) if found is None else (found[1] or "", int(found[2] or 1))
