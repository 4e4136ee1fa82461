"""Words of a shell script, each with its place: enough of the shell's grammar to find commands, options and texts in it. Pure.

This is no shell: nothing is expanded. Every character belongs to one token or to white space, so a replacement at a token's place changes
nothing else.
"""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec

_OPERATORS: Final = ";&|()<>`"
_HEREDOC: Final = re.compile(r"<<(?!<)-?[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|(\\?[\w.-]+))")
_SPACE: Final = " \t\r"


class Token(enum.Enum):
    """What a stretch of a script is."""

    WORD = "word"
    OPERATOR = "operator"
    COMMENT = "comment"
    HEREDOC = "heredoc"
    """The text between the lines that a ``<<`` names, expanded by the shell."""
    VERBATIM = "verbatim"
    """The same, not expanded."""
    NEWLINE = "newline"


class Word(msgspec.Struct, frozen=True):
    """A token.

    Attributes:
        text: as it stands in the script, with its quotes.
        start: offset of its first character.
    """

    kind: Token
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset after its last character."""
        return self.start + len(self.text)

    @property
    def bare(self) -> str:
        """Without quotes and backslashes around its characters; variables stay as they are written."""
        return re.sub(r"\\(.)|['\"]", lambda found: found[1] or "", self.text)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.words: list[Word] = []
        self._waiting: list[tuple[str, bool]] = []
        """Here-documents that begin at the next line: their last line, and whether the shell expands them."""

    def read(self) -> list[Word]:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _SPACE:
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "\n":
                self._add(Token.NEWLINE, self.at + 1)
                self._heredocs()
            elif char == "#":
                end = self.text.find("\n", self.at)
                self._add(Token.COMMENT, len(self.text) if end < 0 else end)
            elif found := _HEREDOC.match(self.text, self.at):
                quoted = found[1] or found[2] or (found[3][1:] if found[3].startswith("\\") else "")
                self._waiting.append((quoted or found[3], not quoted))
                self._add(Token.OPERATOR, found.end())
            elif char in _OPERATORS:
                self._add(Token.OPERATOR, self.at + 1)
            else:
                self._add(Token.WORD, self._word_end())
        return self.words

    def _add(self, kind: Token, end: int) -> None:
        self.words.append(Word(kind, self.text[self.at : end], self.at))
        self.at = end

    def _word_end(self) -> int:
        at, text = self.at, self.text
        while at < len(text) and text[at] not in _SPACE + "\n" + _OPERATORS:
            if text[at] == "\\":
                at += 2
            elif text[at] in "'\"":
                at = _quote_end(text, at)
            elif text.startswith("${", at):
                end = text.find("}", at)
                at = len(text) if end < 0 else end + 1
            else:
                at += 1
        return min(at, len(text))

    def _heredocs(self) -> None:
        for last, expanded in self._waiting:
            found = re.compile(rf"^\t*{re.escape(last)}$", re.MULTILINE).search(self.text, self.at)
            if found is None:  # a shift in arithmetic, as in $((1 << n))
                continue
            if found.start() > self.at:
                self._add(Token.HEREDOC if expanded else Token.VERBATIM, found.start())
            self.at = found.end()
        self._waiting = []


def _quote_end(text: str, at: int) -> int:
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return at + 1


def shell_words(text: str) -> list[Word]:
    """All tokens, in order. Never fails: what is not closed goes to the end."""
    return _Reader(text).read()


class Command(msgspec.Struct, frozen=True):
    """A simple command.

    Attributes:
        assignments: ``NAME=value`` words before its name.
        words: its name and arguments; empty when it only assigns.
    """

    assignments: tuple[Word, ...]
    words: tuple[Word, ...]

    @property
    def name(self) -> str:
        """The program or builtin, without its folder."""
        return self.words[0].bare.rpartition("/")[2] if self.words else ""


ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=")
_SKIPPED: Final = frozenset(
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "command", "nohup", "nice", "sudo", "env", "builtin"]
)
"""Words after which a command begins anew."""


def commands(words: list[Word]) -> list[Command]:
    """The simple commands among the tokens, in order, also those inside of substitutions and loops."""
    found: list[Command] = []
    now: list[Word] = []
    for word in [*words, Word(Token.NEWLINE, "\n", words[-1].end if words else 0)]:
        if word.kind is Token.WORD:
            now.append(word)
        elif word.kind in (Token.NEWLINE, Token.OPERATOR) and word.text[0] not in "<>":
            if now:
                found.append(_command(now))
            now = []
    return found


def _command(words: list[Word]) -> Command:
    assignments: list[Word] = []
    at = 0
    while at < len(words) and (words[at].text in _SKIPPED or ASSIGNMENT.match(words[at].text)):
        if ASSIGNMENT.match(words[at].text):
            assignments.append(words[at])
        at += 1
    return Command(tuple(assignments), tuple(words[at:]))
