"""Vocabulary: text to token numbers and back, without losing a character of the known alphabet.

A token is a frequent word, number, run of blanks or sign; what is not frequent falls apart into single characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 0
_CHARACTERS = ["\n", "\t", *map(chr, range(32, 127))]
_PIECE = re.compile(r"[A-Za-z_]+|[0-9]+| +|\n+|[^\w\s]|.", re.DOTALL)


class Vocabulary:
    """``tokens[0]`` stands for anything unknown; then come single characters, then the most frequent pieces."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}

    @classmethod
    def build(cls, text: str, *, size: int) -> Vocabulary:
        """The ``size`` most useful tokens of ``text``; ties are broken by spelling, so that the answer is always the same."""
        counts = Counter(_PIECE.findall(text))
        frequent = sorted((piece for piece in counts if len(piece) > 1), key=lambda piece: (-counts[piece], piece))
        return cls(["\N{REPLACEMENT CHARACTER}", *_CHARACTERS, *frequent][:size])

    def encode(self, text: str) -> list[int]:
        """Token numbers of ``text``."""
        numbers = self._numbers
        encoded: list[int] = []
        for piece in _PIECE.findall(text):
            number = numbers.get(piece)
            if number is None:
                encoded.extend(numbers.get(character, UNKNOWN) for character in piece)
            else:
                encoded.append(number)
        return encoded

    def encode_corpus(self, text: str) -> NDArray[np.int32]:
        """Token numbers of a whole corpus, as an array."""
        return np.array(self.encode(text), dtype=np.int32)

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of ``numbers``."""
        return "".join(self.tokens[number] for number in numbers)
