"""Records: what the driver knows of its executions, in files at the site that every controller and every node sees.

One folder an execution, ``jobs/<name>/<number>``, with files that are created once and never changed:

- ``intent``: who asked (the stamp's key) and the random token in the job's comment; written before sbatch.
- ``claim``: the id of the one job that counts for the execution, by whoever comes first: the controller that got sbatch's answer, or the
  job itself; "-" when none shall ever.
- ``ended-<restarts>``: how an execution ended, by whoever saw it first (J02); a person may write it, too.
- ``asked-<key>``: a request that is made once, as to stop, was made.

Epochs (J13) are empty files, ``.driver/epochs/<run>/<epoch>``: the newest name counts. Nothing here needs a lock.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import quote, unquote

import msgspec

from bridgehead.kernel.errors import Conflict, Permanent, Transient, Unknown
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.shell import Shell

T = TypeVar("T")
NOBODY: Final = "-"
"""The claim of an execution that no job may have."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9@_+-][A-Za-z0-9@._+-]{0,199}")
_NOT_THERE: Final = 66

_OPEN: Final = """set -eu
umask 027
mkdir -p "$1/.driver/epochs" "$1/jobs"
if [ ! -e "$1/.driver/site" ]; then
    printf %s "$2" > "$1/.driver/site.$$"; sync "$1/.driver/site.$$"
    ln "$1/.driver/site.$$" "$1/.driver/site" 2>/dev/null || :
    rm -f "$1/.driver/site.$$"
fi
cat "$1/.driver/site"
"""
_READ: Final = """set -eu
[ -e "$1/.driver/site" ] || exit 66
if [ -n "$3" ]; then
    e="$1/.driver/epochs/$3"
    mkdir -p "$e"
    [ -e "$e/$4" ] || { : > "$e/$4"; sync "$e/$4" "$e"; }
    for f in "$e"/*; do printf 'epoch\\t%s\\n' "${f##*/}"; done
fi
for f in "$1/jobs/$2"/*/intent "$1/jobs/$2"/*/claim "$1/jobs/$2"/*/ended-* "$1/jobs/$2"/*/asked-*; do
    [ -f "$f" ] || continue
    printf '%s\\t' "${f#"$1/jobs/$2/"}"; cat "$f"; printf '\\n'
done
"""
_CREATE: Final = """set -eu
umask 027
[ -e "$1/.driver/site" ] || exit 66
p="$1/jobs/$2"; d="${p%/*}"; t="$p.new.$$"
mkdir -p "$d"
cat > "$t"; sync "$t"
ln "$t" "$p" 2>/dev/null || [ -e "$p" ]
rm -f "$t"; sync "$d"
cat "$p"
"""


class Intent(msgspec.Struct, frozen=True):
    """That a job shall run.

    Attributes:
        key: of the stamp that asked; ``adopted/<id>`` for a job that somebody else submitted.
        token: in the job's comment; "" for an adopted one.
        submitted_s: by the controller's clock, in whole seconds as Slurm counts them.
    """

    key: str
    token: str
    submitted_s: float


class Ended(msgspec.Struct, frozen=True):
    """How one execution ended; ``source`` says who told it."""

    exit_code: int | None
    ended_s: float | None
    state: str
    source: str


class Execution(msgspec.Struct, frozen=True):
    """What the records say of one execution."""

    number: int
    folder: str
    intent: Intent
    claim: str
    ended: dict[int, Ended]
    asked: frozenset[str] = frozenset()

    @property
    def void(self) -> bool:
        """No job may ever run for it."""
        return self.claim == NOBODY


class Records:
    """The records of one site; the folder is made at first use.

    It remembers whose it is, so that an empty mount point or another site's folder is never taken for "nothing was ever started here".
    """

    def __init__(self, site: SiteId, folder: str, shell: Shell) -> None:
        self._site, self._folder, self._shell = site, folder.rstrip("/"), shell
        self._opened = False

    def read(self, name: JobName, *, stamp: Stamp | None = None, tried: str) -> list[Execution]:
        """The executions of a job, newest first; with a stamp, its epoch is noted durably before anything is done.

        Raises:
            Conflict: a newer epoch of the run was seen here.
            Permanent: the name is no plain file name, or the folder belongs to another site.
            Transient: the folder cannot be seen.
        """
        return self._executions(name, self._look(self._plain(name, tried), stamp, tried=tried), tried=tried)

    def admit(self, stamp: Stamp, *, tried: str) -> None:
        """Note a stamp's epoch durably before something is done that leaves no other record here. Raises as ``read``."""
        self._look("", stamp, tried=tried)

    def begin(self, name: JobName, number: int, intent: Intent, *, tried: str) -> Intent:
        """Write the intent of a new execution; the one that counts, which is another's when somebody was faster. Raises Transient."""
        return self._decoded(self._create(name, f"{number}/intent", msgspec.json.encode(intent), tried=tried), Intent, tried=tried)

    def claim(self, name: JobName, number: int, job_id: str, *, tried: str) -> str:
        """Make ``job_id`` the one that counts; the one that does. Raises Transient."""
        return self._create(name, f"{number}/claim", job_id.encode(), tried=tried).strip()

    def end(self, name: JobName, number: int, restarts: int, ended: Ended, *, tried: str) -> Ended:
        """Write down how it ended; what was written first. Raises Transient."""
        return self._decoded(self._create(name, f"{number}/ended-{restarts}", msgspec.json.encode(ended), tried=tried), Ended, tried=tried)

    def note(self, name: JobName, number: int, request: str, *, tried: str) -> None:
        """Note that a request that is made once was made. Raises Transient."""
        self._create(name, f"{number}/asked-{quote(request, safe='')}", b"yes", tried=tried)

    def folder(self, name: JobName, number: int) -> str:
        """Where an execution's records and output are."""
        return f"{self._folder}/jobs/{name}/{number}"

    @staticmethod
    def saying_that_it_ended(execution: Execution) -> str:
        """The command by which a person who looked puts on record that an execution is over, for one of which nothing else tells it."""
        said = msgspec.json.encode(Ended(None, None, "LOST", "a person who looked")).decode()
        return f"echo {shlex.quote(said)} > {shlex.quote(f'{execution.folder}/ended-0')}"

    def _look(self, name: str, stamp: Stamp | None, *, tried: str) -> dict[str, str]:
        """The files of a job, by their path below its folder."""
        self._open(tried)
        run, epoch = (quote(stamp.run, safe=""), str(stamp.epoch)) if stamp is not None else ("", "")
        text = self._run(_READ, self._folder, name, run, epoch, tried=tried)
        files: dict[str, str] = {}
        newest = -1
        for line in text.splitlines():
            path, _, content = line.partition("\t")
            if path == "epoch":
                newest = max(newest, int(content))
            else:
                files[path] = content
        if stamp is not None and newest > stamp.epoch:
            raise Conflict(
                f"epoch {stamp.epoch} is older than epoch {newest}, which was already seen",
                tried=tried,
                subject=f"run {stamp.run} at site {self._site}",
                remedy="Another process drives the run now: stop this one.",
            )
        return files

    def _create(self, name: JobName, path: str, content: bytes, *, tried: str) -> str:
        return self._run(_CREATE, self._folder, f"{name}/{path}", tried=tried, stdin=content)

    def _open(self, tried: str) -> None:
        if self._opened:
            return
        owner = self._run(_OPEN, self._folder, self._site, tried=tried)
        if owner != self._site:
            raise Permanent(
                f"it belongs to site {owner}",
                tried=f"open the state folder of site {self._site}",
                subject=self._folder,
                remedy="Give each site a folder of its own.",
            )
        self._opened = True

    def _plain(self, name: JobName, tried: str) -> str:
        if not _PLAIN_NAME.fullmatch(name):
            raise Permanent(
                "the name is no plain file name",
                tried=tried,
                subject=f"job {name!r} at site {self._site}",
                remedy="Use up to 200 letters, digits and the signs @ . _ + -, and no dot at the beginning.",
            )
        return name

    def _run(self, script: str, *words: str, tried: str, stdin: bytes = b"") -> str:
        subject, remedy = f"state folder {self._folder} of site {self._site}", "Check that the folder is there and may be written."
        try:
            result = self._shell.run(["sh", "-c", script, "sh", *words], stdin=stdin, env={"LC_ALL": "C"})
        except Unknown as error:
            # Every script may be repeated: it creates what is not there, and reads.
            raise Transient(error.happened, tried=tried, subject=subject, remedy=remedy) from error
        if result.exit_code != 0:
            happened = "it has vanished" if result.exit_code == _NOT_THERE else result.complaint
            raise Transient(happened, tried=tried, subject=subject, remedy=remedy)
        return result.text

    def _executions(self, name: JobName, files: Mapping[str, str], *, tried: str) -> list[Execution]:
        found = []
        for path in files:
            number, _, file = path.partition("/")
            if file != "intent":
                continue
            ended = {
                int(other.rpartition("-")[2]): self._decoded(text, Ended, tried=tried)
                for other, text in files.items()
                if other.startswith(f"{number}/ended-") and other.rpartition("-")[2].isdigit()
            }
            intent = self._decoded(files[path], Intent, tried=tried)
            claim = files.get(f"{number}/claim", "").strip()
            asked = frozenset(unquote(other.partition("/asked-")[2]) for other in files if other.startswith(f"{number}/asked-"))
            found.append(Execution(int(number), self.folder(name, int(number)), intent, claim, ended, asked))
        return sorted(found, key=lambda execution: -execution.number)

    def _decoded(self, text: str, kind: type[T], *, tried: str) -> T:
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.MsgspecError as error:
            raise Transient(
                f"a record is damaged: {error}", tried=tried, subject=self._folder, remedy="Look at the files there."
            ) from error
