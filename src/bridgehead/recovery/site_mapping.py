"""Site mapping: a batch script of one site becomes that of another; what no rule covers is named, never guessed (issue 6; M6). Pure."""

from __future__ import annotations

import bisect
from typing import assert_never

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.site_map import Kind, SiteMap
from bridgehead.recovery.script_references import Reference, Script, Use, read_script
from bridgehead.recovery.site_rules import Refused, Ruled, Rules, Ruling


class Change(msgspec.Struct, frozen=True):
    """One word that became another.

    Attributes:
        line: of the script, from 1; lines do not move.
        rule: the row that says so.
        after: empty when it was left out.
        returns: whether the same mapping read the other way gives ``before`` again.
    """

    line: int
    kind: Kind
    before: str
    after: str
    rule: str
    returns: bool


class Uncovered(msgspec.Struct, frozen=True):
    """A reference that no rule covers."""

    file: str
    line: int
    kind: Kind
    word: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind.noun} '{self.word}': {self.why}"


class Needed(msgspec.Struct, frozen=True):
    """Something that the mapped script needs at the other site.

    Attributes:
        word: as the mapped script has it; of a variable that is set, ``NAME=value``.
        line: where it is first named, of a module last.
        holder: the variable or option whose value it is in.
    """

    kind: Kind
    word: str
    line: int
    use: Use
    holder: str = ""


class Mapped(msgspec.Struct, frozen=True):
    """A script at the other site.

    Attributes:
        text: the script, with everything replaced that a rule covers.
        uncovered: empty when it may be submitted there.
        kept: (line, word, rule) of what stays as it is because a rule says so.
        notes: (line, remark) of what is worth knowing.
        needs: each once, a module at its last place.
        script: what was found in the original.
    """

    file: str
    source: SiteId
    target: SiteId
    text: str
    changes: tuple[Change, ...]
    uncovered: tuple[Uncovered, ...]
    kept: tuple[tuple[int, str, str], ...]
    notes: tuple[tuple[int, str], ...]
    needs: tuple[Needed, ...]
    script: Script


def map_script(text: str, mapping: SiteMap, *, source: SiteId, target: SiteId, file: str) -> Mapped:
    """Turn a script of ``source`` into one of ``target``.

    Only covered words change; options that the target has no word for are left out, and an ``#SBATCH`` line that loses its last option
    becomes a comment, so that every line keeps its number. From a site to itself nothing changes, and everything counts as covered.
    """
    return _Mapper(text, mapping, source, target, file).map()


class _Mapper:
    def __init__(self, text: str, mapping: SiteMap, source: SiteId, target: SiteId, file: str) -> None:
        self.text, self.source, self.target, self.file = text, source, target, file
        self.there = Rules(mapping, source=source, target=target)
        self.back = Rules(mapping, source=target, target=source)
        self.script = read_script(text, known=self.there.known(), inside=mapping.inside)
        self.line_starts = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
        self.edits: list[tuple[int, int, str]] = []
        self.changes: list[Change] = []
        self.uncovered: list[Uncovered] = []
        self.kept: list[tuple[int, str, str]] = []
        self.needs: dict[tuple[Kind, str, Use], Needed] = {}

    def map(self) -> Mapped:
        for reference in self.script.references:
            self._reference(reference)
        for start, word, why in self.script.unclear if self.source != self.target else ():
            self._refuse(start, Kind.VARIABLE, word, why)
        self.uncovered.sort(key=lambda one: (one.line, one.word))
        notes = [(self._line(at), "Slurm does not read this #SBATCH line: a command stands before it") for at in self.script.unread]
        return Mapped(
            file=self.file,
            source=self.source,
            target=self.target,
            text=self._edited(),
            changes=tuple(self.changes),
            uncovered=tuple(dict.fromkeys(self.uncovered)),
            kept=tuple(self.kept),
            notes=tuple(notes),
            needs=tuple(self.needs.values()),
            script=self.script,
        )

    def _reference(self, one: Reference) -> None:
        line = self._line(one.start)
        ruling = (
            Ruled(_before(one), "same") if self.source == self.target else self._ruled(self.there, one.kind, one.text, one.use, one.value)
        )
        if isinstance(ruling, Refused):
            self._refuse(one.start, one.kind, one.text, ruling.why if not one.holder else f"{ruling.why} (in {one.holder})")
            return
        before, after = _before(one), ruling.after
        if after:
            need = one.text if one.use is Use.ASKED else f"{one.text}={after}" if one.kind is Kind.VARIABLE else after
            if one.kind is Kind.MODULE:  # what is loaded last counts
                self.needs.pop((one.kind, need, one.use), None)
            self.needs.setdefault((one.kind, need, one.use), Needed(one.kind, need, line, one.use, one.holder))
        if before == after or one.use is Use.ASKED:
            self.kept.append((line, before, ruling.rule))
            return
        back = self._ruled(self.back, one.kind, after if one.kind is not Kind.VARIABLE else one.text, one.use, after)
        returns = bool(after) and isinstance(back, Ruled) and back.after == before
        self.changes.append(Change(line, one.kind, before, after, ruling.rule, returns))
        self._edit(one, after)

    def _ruled(self, rules: Rules, kind: Kind, text: str, use: Use, value: str) -> Ruling:
        match kind:
            case Kind.PATH | Kind.DATASET:
                return rules.path(text)
            case Kind.ENDPOINT:
                return rules.endpoint(text)
            case Kind.IMAGE:
                ruling = rules.image(text)
                return self._image_file(rules, text, ruling)
            case Kind.VARIABLE:
                return rules.asked(text) if use is Use.ASKED else rules.variable(text, value)
            case Kind.PARTITION | Kind.ACCOUNT | Kind.QOS | Kind.CONSTRAINT | Kind.GRES | Kind.RESERVATION | Kind.NAME | Kind.MODULE:
                return rules.word(kind, text)
            case _:
                assert_never(kind)

    def _image_file(self, rules: Rules, text: str, ruling: Ruling) -> Ruling:
        """An image in a file that lies in a mapped folder, without a row of its own: say that the row is missing, not the folder."""
        if isinstance(ruling, Refused) and text.startswith("/") and isinstance(rules.path(text), Ruled):
            return Refused(f"its folder is mapped, but no row of images gives the digest of the file at {rules.target}")
        return ruling

    def _refuse(self, start: int, kind: Kind, word: str, why: str) -> None:
        self.uncovered.append(Uncovered(self.file, self._line(start), kind, word, why))

    def _edit(self, one: Reference, after: str) -> None:
        if one.kind is Kind.GRES and self.text[one.start : one.end] != one.text:  # --gpus=h100:8 has the type alone
            kind = after.removeprefix("gpu").removeprefix(":")
            colon = ":" if kind and self.text[one.end - 1] == ":" else ""
            self.edits.append((one.start, one.end, kind + colon))
        elif after:
            self.edits.append((one.start, one.end, after))
        else:
            self.edits.append(self._left_out(one))

    def _left_out(self, one: Reference) -> tuple[int, int, str]:
        """Take a word out: of a list with its comma; as the only one of an option, the option with it."""
        for option in self.script.options:
            if option.start <= one.start < option.start + len(option.value):
                if one.end - one.start == len(option.value):
                    return option.begins - (self.text[option.begins - 1] == " "), option.ends, ""
                comma = self.text[one.end : one.end + 1] == ","
                return (one.start, one.end + 1, "") if comma else (one.start - 1, one.end, "")
        return one.start, one.end, ""

    def _edited(self) -> str:
        text = self.text
        for start, end, after in sorted(self.edits, reverse=True):
            text = text[:start] + after + text[end:]
        lines = text.split("\n")
        before = self.text.split("\n")
        for number, line in enumerate(lines):
            if line.startswith("#SBATCH") and not line[7:].partition("#")[0].strip() and line != before[number]:
                lines[number] = f"# {self.target} has none of: {before[number]}"
        return "\n".join(lines)

    def _line(self, at: int) -> int:
        return bisect.bisect_right(self.line_starts, at)


def _before(one: Reference) -> str:
    return one.value if one.kind is Kind.VARIABLE and one.use is Use.SET else one.text
