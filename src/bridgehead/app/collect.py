"""Collect: the script that runs the tools of a host, running it here, and sending it to other hosts over ssh (M5.1)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.app.archives import is_packed
from bridgehead.kernel.errors import BridgeheadError, ErrorCode

HOSTS_AT_ONCE: Final = 16
_ENDING: Final = "the output is no archive: it ended before the script did"
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:%-]{0,250}")
_SAID: Final = 300


class Reply(msgspec.Struct, frozen=True):
    """What became of one host: its archive, or why there is none."""

    host: str
    archive: Path | None
    reason: str = ""


def collector_script() -> str:
    """The script, for ``sh`` on any host."""
    return (files("bridgehead.discovery") / "collector.sh").read_text(encoding="utf-8")


def collect(folder: Path, *, timeout_s: int) -> None:
    """Run the script on this host; the output of its tools lies in ``folder``/HOST then. Progress goes to stderr.

    Args:
        timeout_s: the longest that one tool may take.

    Raises PORT_PERMANENT when the script cannot run or cannot write.
    """
    with as_file(files("bridgehead.discovery") / "collector.sh") as script:
        try:
            done = subprocess.run(["sh", str(script), "-o", str(folder), "-t", str(timeout_s)], stdin=subprocess.DEVNULL, check=False)
        except OSError as error:
            raise _failed(folder, f"sh cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise _failed(folder, f"the script ended with {done.returncode}; what it said stands above")


def collect_over_ssh(
    hosts: Sequence[str], folder: Path, *, timeout_s: int, watch: Callable[[Reply], object] = lambda _reply: None
) -> tuple[Reply, ...]:
    """Send the script to hosts, some at once; the archive of each is ``folder``/HOST.tar, whole or not there.

    Nothing is installed or left there. ``ssh`` asks no questions: keys and known hosts must be in order.

    Args:
        hosts: as ``ssh`` takes them.
        timeout_s: the longest that one tool may take. A host that takes longer than all tools together is given up.
        watch: told each reply as it comes, in the order of the hosts.

    Raises BAD_USAGE for what is no host, PORT_PERMANENT when the folder cannot be made or there is no ssh.
    """
    for host in hosts:
        if _HOST.fullmatch(host) is None:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="collect over ssh",
                subject=host,
                happened="this is no name of a host",
                remedy="Write it as ssh takes it: gpu01, or operator@gpu01.",
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _failed(folder, f"the folder cannot be made: {error.strerror}") from error
    script = collector_script().encode()
    limit_s = timeout_s * (script.count(b"\nkeep") + 2)
    replies: list[Reply] = []
    with ThreadPoolExecutor(HOSTS_AT_ONCE) as pool:
        for reply in pool.map(lambda host: _from_host(host, folder, script, timeout_s=timeout_s, limit_s=limit_s), dict.fromkeys(hosts)):
            replies.append(reply)
            watch(reply)
    return tuple(replies)


def _from_host(host: str, folder: Path, script: bytes, *, timeout_s: int, limit_s: int) -> Reply:
    archive = folder / f"{host}.tar"
    partial = folder / f".{host}.{os.getpid()}.new"
    command = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-T", host, f"sh -s -- -t {timeout_s}"]
    try:
        with partial.open("wb") as stream:
            done = subprocess.run(command, input=script, stdout=stream, stderr=subprocess.PIPE, timeout=limit_s, check=False)
        if done.returncode != 0:
            return Reply(host, None, f"ssh ended with {done.returncode}: {_last_line(done.stderr)}")
        if not is_packed(partial):
            return Reply(host, None, _ENDING)
        partial.replace(archive)
        return Reply(host, archive)
    except FileNotFoundError as error:
        raise _failed(folder, "there is no program ssh") from error
    except subprocess.TimeoutExpired:
        return Reply(host, None, f"it took longer than {limit_s} s")
    except OSError as error:
        return Reply(host, None, f"{error.strerror}")
    finally:
        partial.unlink(missing_ok=True)


def _last_line(said: bytes) -> str:
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return "".join(sign if sign.isprintable() else " " for sign in lines[-1].strip()[:_SAID]) if lines else "it said nothing"


def _failed(folder: Path, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.PORT_PERMANENT,
        tried="run the tools of a host",
        subject=str(folder),
        happened=happened,
        remedy="Check that the folder can be written; `bridgehead collect --script` shows what is run.",
    )
