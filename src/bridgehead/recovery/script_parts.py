"""Parts of a batch script: its ``#SBATCH`` lines, and the scripts that stand within it as texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from bridgehead.recovery.shell_words import Token, Word, shell_words

_CALL: Final = re.compile(r"(?:^|[\s;&|(/])(?:srun|sbatch|salloc)\s")
_QUOTED: Final = re.compile(r"([\"'])(.*?)\1", re.DOTALL)


def shifted(text: str, at: int) -> list[Word]:
    """The tokens of a part of the script that begins at ``at``."""
    return [Word(one.kind, one.text, one.start + at) for one in shell_words(text)]


def directives(text: str, words: Sequence[Word]) -> tuple[list[list[Word]], list[int]]:
    """The words of each ``#SBATCH`` line, and the offsets of those lines that Slurm does not read, since a command stands before them."""
    found: list[list[Word]] = []
    unread: list[int] = []
    begun = False
    for word in words:
        line_start = word.start == 0 or text[word.start - 1] == "\n"
        if word.kind is Token.COMMENT and line_start and re.match(r"#SBATCH\s", word.text):
            if begun:
                unread.append(word.start)
            else:
                found.append([one for one in shifted(word.text[7:], word.start + 7) if one.kind is Token.WORD])
        begun = begun or word.kind in (Token.WORD, Token.OPERATOR)
    return found, unread


def scripts_within(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Here-documents, the texts of ``bash -c`` and ``sbatch --wrap``, and others in quotes that call Slurm, as scripts."""
    for word in words:
        if word.kind in (Token.HEREDOC, Token.VERBATIM):
            yield shifted(word.text, word.start)
    for number, word in enumerate(words):
        found = re.fullmatch(r"(?:--wrap=)?([\"'])(.*)\1", word.text, re.DOTALL)
        before = words[number - 1].text if number else ""
        if found is not None and (word.text.startswith("--wrap=") or re.fullmatch(r"-[a-z]*c|--wrap", before)):
            yield shifted(found[2], word.start + found.start(2))
        elif word.kind is Token.WORD:
            for quoted in _QUOTED.finditer(word.text):
                if _CALL.search(quoted[2]):
                    yield shifted(quoted[2], word.start + quoted.start(2))


def directives_within(words: Sequence[Word]) -> Iterator[list[Word]]:
    """The words of ``#SBATCH`` lines of a script that this one writes."""
    for word in words:
        if word.kind in (Token.HEREDOC, Token.VERBATIM):
            for line in re.finditer(r"^#SBATCH\s(.*)$", word.text, re.MULTILINE):
                yield [one for one in shifted(line[1], word.start + line.start(1)) if one.kind is Token.WORD]
