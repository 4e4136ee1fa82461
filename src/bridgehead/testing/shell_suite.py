"""Conformance suite of the shell port. A driver inherits the class and fills in the hooks."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bridgehead.kernel.errors import Permanent, Transient, Unknown
from bridgehead.ports.shell import Shell


class ShellSuite:
    """What every shell must do. It runs programs of a POSIX machine: sh, printf, cat, sleep."""

    @pytest.fixture
    def shell(self) -> Shell:
        """A shell whose place shares the file system with the test."""
        raise NotImplementedError

    def unreachable(self, shell: Shell) -> AbstractContextManager[Shell] | None:
        """Inside of it the place cannot be reached. Optional."""
        return None

    def test_output_errors_and_exit_code_are_collected(self, shell: Shell) -> None:
        """Apart from each other, and byte for byte."""
        result = shell.run(["sh", "-c", "printf 'out\\0\\377'; printf err >&2; exit 3"])
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\0\xff", b"err")

    @pytest.mark.parametrize("code", [0, 1, 126, 127, 255])
    def test_no_exit_code_of_a_program_is_an_error(self, shell: Shell, code: int) -> None:
        """Also those that a shell or ssh uses for its own troubles."""
        assert shell.run(["sh", "-c", f"echo said >&2; exit {code}"]).exit_code == code

    def test_an_end_by_signal_is_128_plus_its_number(self, shell: Shell) -> None:
        """As shells say it."""
        assert shell.run(["sh", "-c", "kill -9 $$"]).exit_code == 137

    def test_words_are_not_touched_by_any_shell(self, shell: Shell) -> None:
        """Neither here nor there."""
        words = ["a b", "", "$HOME", "*", "'\"\\", "line\nline", "ü", "-n", "%s", "`id`", ";"]
        assert shell.run(["printf", "%s|", *words]).stdout.decode() == "".join(f"{word}|" for word in words)

    def test_input_comes_whole(self, shell: Shell) -> None:
        """A megabyte, with every byte value."""
        data = bytes(range(256)) * 4096
        assert shell.run(["cat"], stdin=data).stdout == data
        assert shell.run(["cat"]).stdout == b""

    def test_a_program_may_leave_its_input_unread(self, shell: Shell) -> None:
        """That is no trouble of the connection."""
        assert shell.run(["sh", "-c", "exit 5"], stdin=b"x" * 1_000_000).exit_code == 5

    def test_the_environment_is_added(self, shell: Shell) -> None:
        """Values are not touched either."""
        value = "a 'b' $HOME\nü"
        assert shell.run(["sh", "-c", 'printf %s "$VALUE"'], env={"VALUE": value}).stdout.decode() == value
        assert shell.run(["sh", "-c", 'printf %s "$PATH"'], env={"VALUE": value}).stdout

    def test_what_cannot_be_executed_is_refused(self, shell: Shell, tmp_path: Path) -> None:
        """For good, and nothing was done."""
        script = tmp_path / "no-right"
        script.write_text("#!/bin/sh\ntrue\n")
        for words in (["no-such-program-anywhere"], [str(tmp_path / "none")], [str(script)], [str(tmp_path)], [], [""], ["true", "a\0b"]):
            with pytest.raises(Permanent):
                shell.run(words)

    def test_a_program_that_takes_too_long_leaves_doubt(self, shell: Shell, tmp_path: Path) -> None:
        """It began, and may have had its effect."""
        mark = tmp_path / "mark"
        begun_s = time.monotonic()
        with pytest.raises(Unknown):
            shell.run(["sh", "-c", f"echo done > {mark}; sleep 20"], timeout_s=1.0)
        assert time.monotonic() - begun_s < 10
        assert mark.read_text() == "done\n"

    def test_J01_a_place_out_of_reach_is_told_apart_from_a_failure(self, shell: Shell) -> None:
        """Nothing was done, and it may work again."""
        away = self.unreachable(shell)
        if away is None:
            pytest.skip("this driver's place is always within reach")
        with away as cut_off, pytest.raises(Transient):
            cut_off.run(["true"])
        assert shell.run(["true"]).exit_code == 0
