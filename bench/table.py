"""Tables of measurements, and where they are written."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


class Table:
    """A Markdown table that is filled row by row."""

    def __init__(self, *columns: str) -> None:
        self._rows = [columns]

    def add(self, *cells: str) -> None:
        self._rows.append(cells)

    def __str__(self) -> str:
        lines = ["| " + " | ".join(row) + " |" for row in self._rows]
        lines.insert(1, "|" + "---|" * len(self._rows[0]))
        return "\n".join(lines)


def machine() -> str:
    """What the figures were measured on; they mean nothing elsewhere."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    name = cpu.group(1) if cpu else platform.machine()
    return (
        f"Measured {time.strftime('%Y-%m-%d')} on {os.cpu_count()} cores ({name}), {memory_gib:.0f} GiB, "
        f"Linux {platform.release()}, Python {platform.python_version()}."
    )


def write_section(name: str, command: str, text: str) -> None:
    """Replace the section ``name`` of docs/benchmarks.md, or append it."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n## {name.capitalize()}\n\n`{command}`\n\n{text}\n{end}"
    page = PAGE.read_text() if PAGE.exists() else "# Benchmarks\n\nEvery table is written by the script that it names; none is typed in.\n"
    if begin in page:
        page = page[: page.index(begin)] + section + page[page.index(end) + len(end) :]
    else:
        page = page.rstrip() + "\n\n" + section + "\n"
    PAGE.write_text(page)
