"""Rules: what a word of one site becomes at another, by the rows of a mapping. What no row covers, or two dispute, is refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.site_map import DIGEST, ImagePlaces, Kind, SiteMap
from bridgehead.recovery.script_words import SYSTEM, below


class Ruled(msgspec.Struct, frozen=True):
    """What it becomes.

    Attributes:
        after: the word at the other site; empty when it has none.
        rule: the row, as ``paths.data``; ``same`` or ``system`` where it stays as it is.
    """

    after: str
    rule: str


class Refused(msgspec.Struct, frozen=True):
    """No row says it."""

    why: str


Ruling = Ruled | Refused
_GENERIC = frozenset({"gpu", "mps", "shard"})
"""Generic resources that mean the same at every site while they have no type."""


class Rules:
    """The rows of a mapping, read from one site to another."""

    def __init__(self, mapping: SiteMap, *, source: SiteId, target: SiteId) -> None:
        self._mapping, self.source, self.target = mapping, source, target

    def known(self) -> dict[Kind, list[str]]:
        """The words that rows have at the source; of variables their names."""
        found = {kind: [word for _, row in self._mapping.rows(kind) if (word := row.get(self.source))] for kind in Kind}
        found[Kind.VARIABLE] = [name.partition(".")[2] for name, _ in self._mapping.rows(Kind.VARIABLE)]
        return found

    def word(self, kind: Kind, text: str) -> Ruling:
        """A name that is whole: a partition, an account, a module."""
        rows = [(name, row.get(self.target)) for name, row in self._mapping.rows(kind) if row.get(self.source) == text]
        if rows:
            return self._one(text, rows)
        if text in self._mapping.same or (kind is Kind.GRES and text in _GENERIC):
            return Ruled(text, "same")
        return Refused(f"no row of {kind.value} has '{text}' at {self.source}")

    def path(self, text: str) -> Ruling:
        """A path: the longest row that it lies below counts."""
        rows = [(name, row[self.source].rstrip("/"), row) for name, row in self._mapping.rows(Kind.PATH) if row.get(self.source)]
        fitting = [(name, folder, row) for name, folder, row in rows if below(text, folder)]
        same = [folder for folder in self._mapping.same if folder.startswith("/") and below(text, folder)]
        longest = max((len(folder) for _, folder, _ in fitting), default=-1)
        if any(len(folder.rstrip("/")) > longest for folder in same):
            return Ruled(text, "same")
        if fitting:
            best = [(name, row.get(self.target)) for name, folder, row in fitting if len(folder) == longest]
            ruling = self._one(text, best)
            if isinstance(ruling, Refused):
                return ruling
            if not ruling.after:
                return Refused(f"{ruling.rule} says that {self.target} has none of it")
            return Ruled(ruling.after.rstrip("/") + text[longest:] or "/", ruling.rule)
        if any(below(text, folder) for folder in SYSTEM):
            return Ruled(text, "system")
        return Refused(f"no row of paths or datasets covers it at {self.source}")

    def endpoint(self, text: str) -> Ruling:
        """A URL, ``host:port`` or host: the longest row that it begins with counts."""
        best: dict[str, list[tuple[str, str | None]]] = {}
        for name, row in self._mapping.rows(Kind.ENDPOINT):
            word = row.get(self.source, "")
            if word and word in _beginnings(text):
                best.setdefault(word, []).append((name, row.get(self.target)))
        for word in sorted(best, key=len, reverse=True):
            ruling = self._one(text, best[word])
            if isinstance(ruling, Refused) or not ruling.after:
                return ruling if isinstance(ruling, Refused) else Refused(f"{ruling.rule} says that {self.target} has none of it")
            at = text.index(word)
            return Ruled(text[:at] + ruling.after + text[at + len(word) :], ruling.rule)
        if any(word in self._mapping.same for word in _beginnings(text)):
            return Ruled(text, "same")
        return Refused(f"no row of endpoints has it at {self.source}")

    def image(self, text: str) -> Ruling:
        """A reference to an image; what it becomes must be known by its digest, since a tag may name another image there."""
        for image in self._mapping.images:
            word = image.at.get(self.source, "")
            if word and (text == word or text.endswith("://" + word)):
                ruling = self._one(text, [(f"images.{image.id}", image.at.get(self.target))])
                if isinstance(ruling, Refused):
                    return ruling
                if not ruling.after:
                    return Refused(f"{ruling.rule} says that {self.target} has none of it")
                if not image.digest(self.target):
                    return Refused(f"{ruling.rule} gives no digest at {self.target}, so nobody can tell whether it is the same image")
                return Ruled(text[: len(text) - len(word)] + ruling.after, ruling.rule)
        if text in self._mapping.same:
            return (
                Ruled(text, "same") if DIGEST.search(text) else Refused("it has no digest, so nobody can tell whether it is the same image")
            )
        lacks = "" if DIGEST.search(text) else ", and it has no digest"
        return Refused(f"no row of images has it at {self.source}{lacks}")

    def variable(self, name: str, value: str) -> Ruling:
        """The value of a variable that the script sets."""
        row = self._mapping.environment.get(name)
        if row is None:
            if name in self._mapping.same:
                return Ruled(value, "same")
            return Refused("its value is right at one site only, and no row of environment has it")
        if row.get(self.source) != value:
            return Refused(f"environment.{name} says '{row.get(self.source, '')}' at {self.source}, and the script '{value}'")
        return self._one(name, [(f"environment.{name}", row.get(self.target))])

    def asked(self, name: str) -> Ruling:
        """A variable that the site has to set: there must be a row with its value at the other site."""
        row = self._mapping.environment.get(name)
        if row is not None and row.get(self.target):
            return Ruled(name, f"environment.{name}")
        if name in self._mapping.same:
            return Ruled(name, "same")
        return Refused("the script does not set it, and no row of environment says what it is")

    def image_row(self, text: str) -> ImagePlaces | None:
        """The row whose word at the target ``text`` is."""
        for image in self._mapping.images:
            word = image.at.get(self.target, "")
            if word and (text == word or text.endswith("://" + word)):
                return image
        return None

    def _one(self, text: str, rows: list[tuple[str, str | None]]) -> Ruling:
        words = {word for _, word in rows}
        names = " and ".join(name for name, _ in rows)
        if len(words) > 1:
            return Refused(f"{names} disagree about '{text}' at {self.target}")
        after = words.pop()
        return Refused(f"{names} says nothing of {self.target}") if after is None else Ruled(after, rows[0][0])


def _beginnings(text: str) -> Iterator[str]:
    """What a row may have for it: the URL up to any slash, the authority, the host."""
    yield text
    scheme, found, rest = text.partition("://")
    if found:
        at = len(scheme) + 3
        while (at := text.find("/", at)) >= 0:
            yield text[:at]
            at += 1
    authority = (rest if found else text).partition("/")[0].rpartition("@")[2]
    yield authority
    yield authority.partition(":")[0]
