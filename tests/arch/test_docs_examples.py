"""Shell examples in the documentation run, and print what the page says.

A page marks an example by ``<!-- run -->`` on the line before its fence::

    <!-- run -->
    ```console
    $ bridgehead --version
    0.1.0
    ```

- The blocks of one page run in order in one folder that holds nothing but a copy of ``examples/``.
- Lines that begin with ``$ bridgehead`` are commands (a backslash at the end continues them); no shell is in between.
- What follows is the expected output, both streams as they come; ``...`` stands for anything. No lines: the output is not compared.
- A command must end with 0, or with N when its output ends with the line ``[exit code N]``.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
BLOCK = re.compile(r"^<!-- run -->\n+```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"^\[exit code (\d+)\]\n?\Z", re.MULTILINE)
TIME_LIMIT_S = 120


class Example(NamedTuple):
    """One command, with what it shall print (None: not compared) and its exit code."""

    arguments: list[str]
    output: str | None
    exit_code: int


def examples(page: str) -> list[Example]:
    """The marked examples of a page, in order. Raises ValueError for a block that does not begin with a bridgehead command."""
    found = []
    for block in BLOCK.finditer(page):
        first, *commands = re.split(r"^\$ ", block["body"], flags=re.MULTILINE)
        if first.strip() or not commands:
            raise ValueError(f"a console block begins with `$ bridgehead ...`, not with {first!r}")
        for command in commands:
            line, _, output = re.sub(r"\\\n\s*", " ", command).partition("\n")
            program, *arguments = shlex.split(line)
            if program != "bridgehead":
                raise ValueError(f"only bridgehead commands run from pages, not {program!r}")
            code = EXIT.search(output)
            output = EXIT.sub("", output)
            found.append(Example(arguments, output if output.strip() else None, int(code[1]) if code else 0))
    return found


def fault(example: Example, *, output: str, exit_code: int) -> str:
    """What differs from the page; empty when nothing does."""
    if exit_code != example.exit_code:
        return f"exit code {exit_code}, the page says {example.exit_code}; it printed:\n{output}"
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if example.output is not None and not checker.check_output(example.output, output, flags):
        return checker.output_difference(doctest.Example("", example.output), output, flags)
    return ""


PAGES = [
    page for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]) if page.exists() and BLOCK.search(page.read_text("utf-8"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_page_run(page: Path, tmp_path: Path) -> None:
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BRIDGEHEAD_")}
    environment |= {"HOME": str(tmp_path), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}
    for example in examples(page.read_text(encoding="utf-8")):
        done = subprocess.run(
            [PROGRAM, *example.arguments],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        if difference := fault(example, output=done.stdout, exit_code=done.returncode):
            pytest.fail(f"$ bridgehead {shlex.join(example.arguments)}\n{difference}", pytrace=False)


MARKED = """Text.

<!-- run -->
```console
$ bridgehead first \\
    --long 'a b'
Run r1 ... done
$ bridgehead second
[exit code 2]
```

```console
$ not marked
```
"""


def test_marked_blocks_are_read() -> None:
    assert examples(MARKED) == [Example(["first", "--long", "a b"], "Run r1 ... done\n", 0), Example(["second"], None, 2)]


def test_differences_are_found() -> None:
    first, second = examples(MARKED)
    assert fault(first, output="Run r1 took 3 s, done\n", exit_code=0) == ""
    assert "Run r2" in fault(first, output="Run r2 took 3 s, done\n", exit_code=0)
    assert "exit code 0" in fault(second, output="", exit_code=0)
    with pytest.raises(ValueError, match="only bridgehead"):
        examples("<!-- run -->\n```console\n$ rm -rf x\n```\n")
