"""The commands of docs/how-to/use-the-lab.md, in order, print what the page says."""

from __future__ import annotations


def test_commands_of_the_page(page) -> None:
    lab = page("use-the-lab.md")
    assert len(lab.commands) >= 10
    for command in lab.commands:
        lab.run(command)
