"""A place: how a preflight looks at one site, through a shell there, or at what was captured of it."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bridgehead.app import site_probe
from bridgehead.kernel.errors import NotFound, Permanent, PortError
from bridgehead.model.site_map import SiteLook
from bridgehead.ports.shell import Shell, ShellResult

QUERY_S: Final = 20.0
LOOK_S: Final = 120.0


class Place:
    """One site.

    Args:
        shell: makes the shell at the first look; None when nobody can look there.
        env: for each command, as SLURM_CONF.
        captured: a folder with outputs of commands, named as ``slurm.QUERIES`` says; they are used in place of asking.
    """

    def __init__(self, shell: Callable[[], Shell] | None, *, env: Mapping[str, str] = {}, captured: Path | None = None) -> None:
        self._make, self._env, self.captured = shell, env, captured
        self._shell: Shell | None = None

    def run(self, words: Sequence[str], *, stdin: bytes = b"", timeout_s: float = QUERY_S) -> ShellResult:
        """Run a program there, bounded in time. Raises as the shell does, NotFound when there is no way to look."""
        if self._make is None:
            raise NotFound("nobody can look there", tried="look at a site", subject=words[0], remedy="Connect a scheduler in the estate.")
        if self._shell is None:
            self._shell = self._make()
        bounded = ["timeout", "-k", "1", str(math.ceil(timeout_s)), *words]
        result = self._shell.run(bounded, stdin=stdin, env={"LC_ALL": "C", **self._env}, timeout_s=timeout_s + 5.0)
        if result.exit_code == 124:
            raise Permanent(f"it took longer than {timeout_s:g} s", tried="look at a site", subject=words[0])
        if result.exit_code in (126, 127) and not result.stdout:
            raise Permanent(result.complaint, tried="look at a site", subject=words[0], remedy="Check that the program is there.")
        return result

    def text(self, name: str, words: Sequence[str]) -> str:
        """What a command says that only looks, or the captured file ``name``. Raises PortError when it cannot be had."""
        if self.captured is not None:
            try:
                return (self.captured / name).read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                raise NotFound(f"{name} was not captured", tried="look at captured output", subject=str(self.captured)) from error
        result = self.run(words)
        if result.exit_code:
            raise Permanent(result.complaint, tried="look at a site", subject=" ".join(words))
        return result.text

    def look(
        self, request: Sequence[Mapping[str, Any]], *, how: SiteLook, on_node: bool = False, login: bool = False, timeout_s: float = LOOK_S
    ) -> list[dict[str, Any]]:
        """The answers of ``site_probe``, one for each look; those that cannot be had are ``{"error": why}``.

        Args:
            on_node: run it on a node with GPUs.
            login: in the environment of a login shell.
        """
        words = [how.python, "-c", inspect.getsource(site_probe)]
        if login:
            words = ["bash", "-lc", 'exec "$@"', "bash", *words]
        try:
            result = self.run([*(how.on_node if on_node else ()), *words], stdin=json.dumps(list(request)).encode(), timeout_s=timeout_s)
            if result.exit_code:
                return [{"error": result.complaint}] * len(request)
            # The last line: profiles of login shells greet before.
            answers: list[dict[str, Any]] = json.loads(result.text.strip().rpartition("\n")[2])
            return answers
        except PortError as error:
            return [{"error": error.happened}] * len(request)
        except ValueError:
            return [{"error": f"{how.python} there does not answer as it should"}] * len(request)
