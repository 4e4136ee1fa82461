"""The commands of docs/how-to/use-the-lab.md, in order, print what the page says."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "use-the-lab.md"
BLOCK = re.compile(r"^<!-- lab -->\n```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"^\[exit code (\d+)\]\n?\Z", re.MULTILINE)


def test_commands_of_the_page(short: Path, bridgehead) -> None:
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    commands = [
        command for block in BLOCK.finditer(PAGE.read_text()) for command in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]
    ]
    assert len(commands) >= 10
    folder = short / "page"
    folder.mkdir()
    try:
        for command in commands:
            line, _, wanted = command.partition("\n")
            code = EXIT.search(wanted)
            wanted = EXIT.sub("", wanted)
            words = shlex.split(line)[1:]
            done = subprocess.run(
                bridgehead.line(*words), cwd=folder, env=bridgehead.env, capture_output=True, text=True, timeout=200, check=False
            )
            assert done.returncode == (int(code[1]) if code else 0), f"{line}\n{done.stdout}\n{done.stderr}"
            if wanted.strip() and not checker.check_output(wanted, done.stdout, flags):
                raise AssertionError(checker.output_difference(doctest.Example("", wanted), done.stdout, flags))
    finally:
        bridgehead("lab", "down", "--dir", folder / "lab")
        folder.rmdir()
