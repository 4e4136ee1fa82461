"""What documents promise and what code cites exists: errors, requirement ids, links, dependencies."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from pathlib import Path

import pytest

from bridgehead.kernel.errors import TABLE, ErrorCode

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
SOURCES = sorted((ROOT / "src").rglob("*.py"))

CITED = re.compile(r"\b(?:M\d{1,2}(?:\.\d)?|R\d{1,2}|P\d{1,2}|[VGJDEF]\d{2})\b(?![.-]?\d)")
NOT_IDS = {"P50", "P90", "P95", "P99", "F16", "F32", "F64"}
"""Percentiles and number formats look like requirement ids and are none."""
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def slug(heading: str) -> str:
    """The anchor of a heading, by the rule of the usual renderers."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def without_fences(text: str) -> str:
    """The page without its code blocks, in which brackets are no links and hashes no headings."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """All anchors of a page."""
    return {slug(found) for found in re.findall(r"^#+ (.*)$", without_fences(page.read_text(encoding="utf-8")), flags=re.MULTILINE)}


def broken_links(page: Path) -> list[str]:
    """Relative links whose file or heading does not exist."""
    found = []
    for link in LINK.finditer(without_fences(page.read_text(encoding="utf-8"))):
        target = link["target"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            found.append(target)
    return found


def explanations(source: str) -> str:
    """Docstrings and comments: where code cites what it serves."""
    parts = [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            parts.append(node.value.value)
    return "\n".join(parts)


def known_ids() -> set[str]:
    """First column of the tables in the requirement list."""
    return set(
        re.findall(r"^\| ([A-Z]\d+(?:\.\d)?) \|", (DOCS / "reference" / "requirements.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )


def direct_dependencies() -> set[str]:
    """Names in pyproject.toml, as the package index writes them: lower case with dashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *[name for extra in project["optional-dependencies"].values() for name in extra]]
    return {canonical_name(re.split(r"[^A-Za-z0-9._-]", name)[0]) for name in wanted}


def canonical_name(name: str) -> str:
    """One spelling for each package."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("code", ErrorCode)
def test_error_code_has_a_row_and_a_section(code: ErrorCode) -> None:
    assert code in TABLE
    name, _, anchor = TABLE[code].anchor(code).partition("#")
    assert anchor in anchors(ROOT / name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A head, line\n[a](#a-head-line) [b](#gone) [c](gone.md) [d](https://example.org/x)\n```\n[e](gone.md)\n```\n", encoding="utf-8"
    )
    assert broken_links(page) == ["#gone", "gone.md"]


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    ahead = [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        ahead += [
            (page.parent / link["target"].partition("#")[0]).resolve()
            for link in LINK.finditer(page.read_text(encoding="utf-8"))
            if link["target"].partition("#")[0].endswith(".md") and ":" not in link["target"]
        ]
    lost = [str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md") if page not in seen]
    assert lost == [], "link them from docs/index.md or a page that it leads to"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT / "src")))
def test_cited_requirements_exist(source: Path) -> None:
    cited = set(CITED.findall(explanations(source.read_text(encoding="utf-8")))) - NOT_IDS
    assert cited <= known_ids(), f"not in docs/reference/requirements.md: {sorted(cited - known_ids())}"


def test_requirement_list_is_complete_in_itself() -> None:
    ids = known_ids()
    for series, last in {"R": 18, "P": 24, "V": 32, "G": 11, "J": 15, "D": 18, "E": 8, "F": 5}.items():
        width = 1 if series in "RP" else 2
        assert {f"{series}{number:0{width}d}" for number in range(1, last + 1)} <= ids, series


def test_direct_dependencies_are_pinned() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+]*", pin) for pin in pins), "exact versions only, and no hosts"
    assert direct_dependencies() <= {canonical_name(pin.split("==")[0]) for pin in pins}


def test_direct_dependencies_are_justified() -> None:
    text = (DOCS / "adr" / "0002-dependencies.md").read_text(encoding="utf-8")
    justified = {canonical_name(name) for cell in re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE) for name in cell.split(", ")}
    assert direct_dependencies() <= justified, "each direct dependency has its line in docs/adr/0002-dependencies.md"
