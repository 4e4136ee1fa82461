"""References: everything in a batch script that names something of the site it was written for, with its place (issue 6). Pure.

What claims more of the text goes first: options of Slurm, modules, images, endpoints, variables with a rule, then the paths of what is
left. A stretch of the script belongs to at most one reference, so that each can be replaced by itself.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.model.site_map import Kind
from bridgehead.recovery import script_words as sw
from bridgehead.recovery.script_parts import directives, directives_within, scripts_within, shifted
from bridgehead.recovery.shell_words import ASSIGNMENT, Command, Token, Word, commands, shell_words
from bridgehead.recovery.slurm_words import Option, Shape, call_options, calls, line_options, names, variable_option

_MOUNTS: Final = re.compile(r"(?<![^\s,=\"'])(/[^:,\s\"']+):(/[^:,\s\"']*)")
_MOUNT_OPTIONS: Final = frozenset({"-B", "--bind", "-v", "--volume", "--container-mounts"})
_REMOTE: Final = frozenset({"ssh", "scp", "rsync", "sftp"})
UNLOADED: Final = frozenset({"module unload", "module rm", "module del", "module swap from"})
"""Holders of modules that are taken away."""
_LOADS: Final = frozenset({"load", "add", "try-load", "swap", "switch", "sw", "unload", "rm", "del"})


class Use(enum.StrEnum):
    """How the script uses what it names."""

    READ = "read"
    """It must be there."""
    WRITTEN = "written"
    """It is made; the folder around it must be there."""
    MADE = "made"
    """It is made with the folders around it."""
    SET = "set"
    """A variable that the script gives a value."""
    ASKED = "asked"
    """A variable that the site has to set."""


_MAKERS: Final = {"mkdir": Use.MADE, "touch": Use.WRITTEN, "tee": Use.WRITTEN}


class Reference(msgspec.Struct, frozen=True):
    """One word that names something of a site.

    Attributes:
        text: the word as the mapping would have it.
        start, end: the characters that stand for it.
        holder: the variable or option whose value it is in; may be empty.
        value: of a variable that is set.
    """

    kind: Kind
    text: str
    start: int
    end: int
    use: Use = Use.READ
    holder: str = ""
    value: str = ""


class Script(msgspec.Struct, frozen=True):
    """What was found in a script.

    Attributes:
        references: in the order of the script.
        options: all options of its ``#SBATCH`` lines, the ones that name nothing of a site too.
        unread: offsets of ``#SBATCH`` lines that Slurm does not read, since a command stands before them.
        unclear: (offset, word, why) of what cannot be read for sure.
    """

    references: tuple[Reference, ...]
    options: tuple[Option, ...]
    unread: tuple[int, ...]
    unclear: tuple[tuple[int, str, str], ...]


def read_script(text: str, *, known: Mapping[Kind, Sequence[str]], inside: Iterable[str] = ()) -> Script:
    """Find all references.

    Args:
        known: words of the mapping at the site that the script was written for; they are found where no pattern would see them.
        inside: folders that are in the container only.
    """
    return _Reader(text, known, inside).read()


class _Reader:
    def __init__(self, text: str, known: Mapping[Kind, Sequence[str]], inside: Iterable[str]) -> None:
        self.text, self.known = text, known
        self.inside = [*inside]
        self.words = shell_words(text)
        self.claimed = bytearray(len(text))
        self.found: list[Reference] = []
        self.unclear: list[tuple[int, str, str]] = []
        self.hidden: list[Word] = []
        """Words and texts that are looked through for what has a form of its own."""

    def read(self) -> Script:
        lines, unread = directives(self.text, self.words)
        self.hidden = [one for one in self.words if one.kind in (Token.WORD, Token.HEREDOC, Token.VERBATIM)]
        if self.words and self.words[0].text.startswith("#!"):
            first = self.words[0]
            self.hidden.insert(0, Word(Token.WORD, first.text[2:], first.start + 2))
        self.commands = commands(self.words)
        for inner in scripts_within(self.words):
            self.commands += commands(inner)
        read: list[Option] = []
        for words in lines:
            found = list(line_options(words))
            read += found
            self.hidden += words
            for option in found:
                self._option(option)
        for words in directives_within(self.words):
            for option in line_options(words):
                self._option(option)
        for command in self.commands:
            self._command(command)
        self._mounts()
        self._images()
        self._variables()
        self._endpoints()
        self._paths()
        self._asked()
        references = tuple(sorted(self.found, key=lambda one: one.start))
        return Script(references, tuple(read), tuple(unread), tuple(self.unclear))

    # claiming

    def _add(self, kind: Kind, text: str, start: int, end: int, *, use: Use = Use.READ, holder: str = "", value: str = "") -> None:
        if start < end and any(self.claimed[start:end]):
            if not all(self.claimed[start:end]):
                self._doubt(start, text, holder or "part of it")
            return
        self.claimed[start:end] = b"\1" * (end - start)
        self.found.append(Reference(kind, text, start, end, use, holder, value))

    def _doubt(self, start: int, word: str, holder: str) -> None:
        self.unclear.append((start, word, f"what {holder} gets is known only when the script runs"))

    def _hide(self, start: int, end: int) -> None:
        self.claimed[start:end] = b"\1" * (end - start)

    # options

    def _option(self, option: Option) -> None:
        start, end, holder = option.start, option.start + len(option.value), f"--{option.name}"
        match option.shape:
            case Shape.OTHER:
                self._hide(start, end)
            case Shape.UNCLEAR:
                self.unclear.append((start, option.value, f"nobody can tell whether it belongs to {holder} of Slurm or to the program"))
            case Shape.READ | Shape.WRITTEN:
                use = Use.READ if option.shape is Shape.READ else Use.WRITTEN
                for path in sw.paths(option.value):
                    self._add(Kind.PATH, path.text, start + path.start, start + path.end, use=use, holder=holder)
            case Shape.IMAGE if "$" not in option.value:
                self._add(Kind.IMAGE, option.value, start, end, holder=holder)
            case Shape.INSIDE:
                self.inside.append(option.value)
                self._hide(start, end)
            case Shape.MOUNTS | Shape.TEXT:
                pass
            case _ if option.name in ("nodelist", "exclude") and "$" in option.value:
                pass  # nodes of the job's own, found out when it runs
            case _ if re.search(r"[$`'\"]", option.value):
                literal = self._given_once(option.value)
                if literal is None:
                    self._doubt(start, option.value, holder)
                else:
                    self._option(msgspec.structs.replace(option, value=literal[0], start=literal[1]))
            case _:
                assert option.kind is not None
                for one in names(option):
                    self._add(option.kind, one.word, one.start, one.end, holder=holder)

    def _given_once(self, value: str) -> tuple[str, int] | None:
        """Text and place of what a variable has, when ``value`` is that variable alone and the script sets it once to a text."""
        asked = re.fullmatch(r"\$(?:(\w+)|\{(\w+)\})", value)
        given = [
            word for command in self.commands for word in self._assigned(command) if asked and _name_of(word) == (asked[1] or asked[2])
        ]
        if len(given) != 1:
            return None
        _, text, start = _value_of(given[0])
        return None if not text or re.search(r"[$`'\"]", text) else (text, start)

    # commands

    def _command(self, command: Command) -> None:
        for word in self._assigned(command):
            name = _name_of(word)
            option = variable_option(name, word, word.start + len(name) + 1)
            if option is not None:
                self._option(option)
        arguments = command.words[1:]
        for call in calls(command.words):
            for option in self._options_of(call):
                self._option(option)
        if command.name in ("module", "ml"):
            self._modules(command)
        elif command.name in _MAKERS:
            for word in arguments:
                for path in sw.paths(word.text):
                    at, use = word.start + path.start, _MAKERS[command.name]
                    self._add(Kind.PATH, path.text, at, at + len(path.text), use=use, holder=command.name)
        elif command.name in ("conda", "mamba", "micromamba") and len(arguments) > 1 and arguments[0].bare == "activate":
            if re.fullmatch(r"[\w.-]+", arguments[1].bare):
                self._word(Kind.NAME, arguments[1], holder="conda activate")
        elif command.name in _REMOTE:
            for word in arguments:
                if found := re.match(r"(?:[\w.-]+@)?([A-Za-z][\w-]*(?:\.[\w-]+)*)(?=:)|[\w.-]+@([\w.-]+)$", word.text):
                    group = 1 if found[1] else 2
                    self._add(Kind.ENDPOINT, found[group], word.start + found.start(group), word.start + found.end(group))
                    self._hide(word.start + found.end(group), word.end)  # a path of the other machine

    def _options_of(self, call: Sequence[Word]) -> Iterator[Option]:
        """Those that are written there, and those in texts of variables that are."""
        yield from call_options(call)
        for word in call:
            if used := re.fullmatch(r"\$\{?(\w+)\}?", word.text):
                for given in (one for command in self.commands for one in self._assigned(command) if _name_of(one) == used[1]):
                    _, text, start = _value_of(given)
                    yield from line_options(shifted(text, start)) if text.lstrip().startswith("-") else ()

    def _modules(self, command: Command) -> None:
        arguments = [word for word in command.words[1:] if not word.text.startswith("-")]
        for word in command.words[1:] if command.name == "ml" else ():
            if re.match(r"-\w[^/]*/", word.text):  # ml -cuda/11.8
                self._word(Kind.MODULE, Word(word.kind, word.text[1:], word.start + 1), holder="module unload")
        if command.name == "module" or (arguments and arguments[0].bare in (*_LOADS, "purge", "use", "list", "reset", "restore", "save")):
            verb, arguments = (arguments[0].bare if arguments else ""), arguments[1:]
        else:
            verb = "load"
        if verb in _LOADS:
            swaps = verb in ("swap", "switch", "sw") and len(arguments) > 1
            for number, word in enumerate(arguments):
                self._word(Kind.MODULE, word, holder="module swap from" if swaps and not number else f"module {verb}")

    def _word(self, kind: Kind, word: Word, *, holder: str) -> None:
        if "$" in word.text:
            self._doubt(word.start, word.text, holder)
            return
        quoted = len(word.text) - len(word.bare) == 2
        self._add(kind, word.bare, word.start + quoted, word.end - quoted, holder=holder)

    def _assigned(self, command: Command) -> list[Word]:
        exported = command.words[1:] if command.name in ("export", "declare", "local", "readonly", "typeset") else ()
        return [*command.assignments, *(word for word in exported if ASSIGNMENT.match(word.text))]

    # what has a form of its own

    def _mounts(self) -> None:
        """``/outside:/inside``: the second is a folder of the container."""
        for command in self.commands:
            runs = bool(_runner_words(command))
            for before, word in zip(command.words, command.words[1:], strict=False):
                at = word.text.find("=") + 1 if word.text.startswith("--") else 0
                if not runs and "--container-mounts" not in (before.bare, word.text[: max(0, at - 1)]):
                    continue
                if (before.bare in _MOUNT_OPTIONS and not word.text.startswith("-")) or word.text[: max(0, at - 1)] in _MOUNT_OPTIONS:
                    for found in _MOUNTS.finditer(word.text, at):
                        self.inside.append(found[2])
                        self._hide(word.start + found.start(2), word.start + found.end(2))

    def _images(self) -> None:
        for word in self.hidden:
            for found in [*sw.images(word.text), *sw.known_words(word.text, self.known.get(Kind.IMAGE, ()))]:
                self._add(Kind.IMAGE, found.text, word.start + found.start, word.start + found.end)
        for command in self.commands:
            for word in _runner_words(command)[2:]:
                for found in sw.images(word.bare, runner=True):
                    self._add(Kind.IMAGE, found.text, word.start + found.start, word.start + found.end)
            for word in self._assigned(command):
                name, value, start = _value_of(word)
                if sw.IMAGES.fullmatch(name):
                    for found in sw.images(value, runner=True):
                        self._add(Kind.IMAGE, found.text, start + found.start, start + found.end, holder=name)

    def _variables(self) -> None:
        """Variables whose value the mapping knows, or whose value is right at one site only."""
        for word in self.hidden:
            for found in re.finditer(r"(?<![\w$-])([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&|<>()`]*)", word.text):
                name, value = found[1], found[2]
                start, end = word.start + found.start(2), word.start + found.end(2)
                if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
                    value, start, end = value[1:-1], start + 1, end - 1
                if name in self.known.get(Kind.VARIABLE, ()) or (sw.DEVICES.fullmatch(name) and value and "$" not in value):
                    self._add(Kind.VARIABLE, name, start, end, use=Use.SET, holder=name, value=value)
                elif sw.HOSTS.fullmatch(name) and sw.is_host(value):
                    self._add(Kind.ENDPOINT, value, start, end, holder=name)

    def _endpoints(self) -> None:
        for word in self.hidden:
            for found in [*sw.endpoints(word.text), *sw.known_words(word.text, self.known.get(Kind.ENDPOINT, ()))]:
                self._add(Kind.ENDPOINT, found.text, word.start + found.start, word.start + found.end)
        for command in self.commands:
            for before, word in zip(command.words, command.words[1:], strict=False):
                given = re.match(r"--([\w-]+)=(.+)", word.text)
                name, value, start = (given[1], given[2], word.start + given.start(2)) if given else (before.bare, word.text, word.start)
                last = re.split("[-_]", name)[-1]
                if (given or name.startswith("--")) and sw.HOSTS.fullmatch(last) and sw.is_host(value):
                    self._add(Kind.ENDPOINT, value, start, start + len(value), holder=f"--{name.lstrip('-')}")

    def _paths(self) -> None:
        written = {
            word.start
            for before, word in zip(self.words, self.words[1:], strict=False)
            if before.kind is Token.OPERATOR and before.text == ">" and word.kind is Token.WORD
        }
        made = {
            used.text: _MAKERS[command.name]
            for command in self.commands
            if command.name in _MAKERS
            for word in command.words[1:]
            for used in sw.variables_used(word.text)
        }
        for word in self.hidden:
            holder = _name_of(word)
            use = Use.WRITTEN if word.start in written else made.get(holder, Use.READ)
            for path in sw.paths(word.text):
                start, end = word.start + path.start, word.start + path.end
                if any(sw.below(path.text, folder) for folder in self.inside):
                    self._hide(start, end)
                self._add(Kind.PATH, path.text, start, end, use=use, holder=holder)

    def _asked(self) -> None:
        """Variables that nobody sets here: the site has to."""
        given = {found[1] for word in self.hidden for found in re.finditer(r"(?<![\w$])([A-Za-z_]\w*)\+?=", word.text)}
        for command in self.commands:
            if command.name in ("for", "select", "read", "getopts", "mapfile", "readarray", "printf"):
                given |= {word.bare for word in command.words[1:]}
        for word in self.hidden:
            if word.kind is Token.VERBATIM or word.text.startswith("'"):
                continue
            for found in sw.variables_used(word.text):
                if found.text not in given:
                    given.add(found.text)
                    at = word.start + found.start
                    self.found.append(Reference(Kind.VARIABLE, found.text, at, at + len(found.text), Use.ASKED))


def _runner_words(command: Command) -> tuple[Word, ...]:
    """A container program with its arguments, also behind ``srun``; nothing when there is none."""
    for number, word in enumerate(command.words):
        if word.bare.rpartition("/")[2] in sw.RUNNERS:
            return command.words[number:]
    return ()


def _name_of(word: Word) -> str:
    found = ASSIGNMENT.match(word.text)
    return found[1] if found else ""


def _value_of(word: Word) -> tuple[str, str, int]:
    """(name, value without quotes, offset of the value) of an assignment."""
    name, _, raw = word.text.partition("=")
    quoted = len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "'\""
    return name, raw[1:-1] if quoted else raw, word.start + len(name) + 1 + quoted
