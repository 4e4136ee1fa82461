"""Words in any text that name things of a site: images, endpoints, paths, variables that the site sets. Pure; patterns only.

They are found by their form. What has no form of its own (a host by its bare name) is found when the mapping knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec


class Found(msgspec.Struct, frozen=True):
    """A word and where it is in the text that was looked through."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset after it."""
        return self.start + len(self.text)


_IMAGE: Final = re.compile(
    r"(?:(?:docker|oras|library|shub|dockerd)://|docker-archive:|oci-archive:|oci:)[^\s\"'`;|&<>()]+"
    r"|(?<![\w./:@-])(?:[\w-]+\.)+[\w-]+(?::\d+)?[/#][a-z0-9][\w./-]*(?::\w[\w.-]*)?(?:@sha256:[0-9a-f]+)?"
)
_TAGGED: Final = re.compile(r"(?::[\w][\w.-]*|@sha256:[0-9a-f]+)$")
_IMAGE_FILE: Final = re.compile(r"[^\s\"'`;|&<>(),:=]+\.(?:sif|sqsh|simg|img)\b")
_SHORT_IMAGE: Final = re.compile(r"[a-z0-9][\w./-]*(?::[\w][\w.-]*|@sha256:[0-9a-f]{64})")
_URL: Final = re.compile(r"\b([a-z][a-z0-9+.-]*)://([^\s\"'`<>|;()/,]*)[^\s\"'`<>|;()]*")
_NO_ENDPOINTS: Final = frozenset({"file", "docker", "oras", "library", "shub", "dockerd"})
_HOST_PORT: Final = re.compile(r"(?<![\w./:@$}%-])[A-Za-z][\w-]*(?:\.[\w-]+)*:\d{3,5}(?![\w.:/-])")
_ADDRESS: Final = re.compile(r"(?<![\w.:/-])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?![\w.-])")
_HERE: Final = re.compile(r"(?:localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1?\]?)(?::\d+)?$")
_PATH: Final = re.compile(r"(?:(?<![\w.$}~/)%@+*?\]:-])|(?<=:-)|(?<=[:,=]))/(?![/*])[^\s\"'`;|&<>()\[\]:,=!#^]*")
_NOT_PATHS: Final = re.compile(r"/dev/(?:null|stdout|stderr|stdin|zero|random|urandom|tty|shm|fd)\b.*|/proc(?:/.*)?|/sys(?:/.*)?|/+")
_USED: Final = re.compile(r"(?<!\\)\$(?:\{[#!]?)?([A-Za-z_]\w*)")
_OWN: Final = re.compile(
    r"(?:SLURM|SLURMD|SBATCH|SRUN|PMI|PMIX|BASH|BRIDGEHEAD|LC|OMPI|TORCHELASTIC)_\w*|BASHPID|BASH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|PATH|HOSTNAME|TMPDIR"
    r"|RANDOM|SECONDS|LINENO|UID|EUID|PPID|IFS|LANG|TERM|OPTARG|OPTIND|REPLY|FUNCNAME|PIPESTATUS|EPOCHSECONDS|DIRSTACK|SHLVL"
    r"|LD_LIBRARY_PATH|LIBRARY_PATH|CPATH|PYTHONPATH|MANPATH|PKG_CONFIG_PATH|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES"
)
DEVICES: Final = re.compile(
    r"(?:NCCL|GLOO|TP|UCX|MPI|OMPI)_(?:\w+_)?(?:SOCKET_IFNAME|IFNAME|HCA|NET_DEVICES|IB_GID_INDEX|TOPO_FILE|IB_SL|IB_TC)|\w*(?:http|https|no|all)_proxy"
    r"|\w*(?:HTTP|HTTPS|NO|ALL)_PROXY|NVSHMEM_\w+|UCX_TLS|NCCL_NET|NCCL_NET_PLUGIN"
)
"""Variables whose values are right at one site only: network devices, proxies, plugins of the fabric."""
HOSTS: Final = re.compile(r"(?:\w+_)?(?:HOST|ADDR|ADDRESS|ENDPOINT|SERVER|REGISTRY|BUCKET)", re.IGNORECASE)
"""Variables and options whose value is a host, or what stands for one."""
IMAGES: Final = re.compile(r"(?:\w+_)?(?:IMAGE|CONTAINER|SIF)(?:_\w+)?", re.IGNORECASE)
RUNNERS: Final = frozenset({"docker", "podman", "nerdctl", "enroot", "apptainer", "singularity", "ch-run", "charliecloud", "shifter"})
SYSTEM: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/share", "/lib", "/lib64", "/etc", "/tmp", "/var/tmp", "/dev")
"""Folders of the operating system: no rule is needed for what lies in them, and a preflight looks whether it is there."""


def images(text: str, *, runner: bool = False) -> Iterator[Found]:
    """References to images. ``runner``: the text is an argument of a container program, so that ``ubuntu:24.04`` is one too."""
    for found in _IMAGE.finditer(text):
        if "://" in found[0] or found[0].startswith(("oci", "docker-")) or _TAGGED.search(found[0]):
            yield Found(found[0], found.start())
    for found in _IMAGE_FILE.finditer(text):
        yield Found(found[0], found.start())
    if runner and _SHORT_IMAGE.fullmatch(text):
        yield Found(text, 0)


def endpoints(text: str) -> Iterator[Found]:
    """URLs (of files and images none), hosts with port, addresses; none of this machine."""
    for found in _URL.finditer(text):
        host = found[2].rpartition("@")[2]
        if found[1] not in _NO_ENDPOINTS and host and not host.startswith("$") and not _HERE.match(host):
            yield Found(found[0].rstrip(".,"), found.start())
    for pattern in (_HOST_PORT, _ADDRESS):
        for found in pattern.finditer(text):
            if not _HERE.match(found[0]):
                yield Found(found[0], found.start())


def is_host(value: str) -> bool:
    """Whether the value of a variable or option that is to hold a host names one, and not this machine."""
    return bool(re.fullmatch(r"[A-Za-z][\w.-]*(:\d+)?", value)) and not _HERE.match(value) and value not in ("true", "false", "none")


def paths(text: str) -> Iterator[Found]:
    """Absolute paths. A text that is one path in quotes may have spaces in it."""
    whole = re.fullmatch(r"([\"'])(/(?!/)[^\"'`:,=^{}()|;\\]*)\1", text)
    if whole is not None:
        yield from _a_path(whole[2], 1)
        return
    if short := re.match(r"-[A-Za-z](?=/)", text):  # -I/usr/include
        yield from ((Found(one.text, one.start + short.end())) for one in paths(text[short.end() :]))
        return
    for found in _PATH.finditer(text):
        yield from _a_path(found[0], found.start())


def _a_path(text: str, start: int) -> Iterator[Found]:
    text = text.rstrip(".") if not text.endswith("..") else text
    while text.endswith("}") and text.count("}") > text.count("{"):
        text = text[:-1]  # ${NAME:-/default}
    if text and not _NOT_PATHS.fullmatch(text):
        yield Found(text, start)


def variables_used(text: str) -> Iterator[Found]:
    """Names of variables whose value is asked for, but for those that the shell or Slurm sets."""
    for found in _USED.finditer(text):
        if not _OWN.fullmatch(found[1]):
            yield Found(found[1], found.start(1))


def known_words(text: str, words: Iterable[str]) -> Iterator[Found]:
    """Words of the mapping that stand in the text by themselves, and not within a path, longest first."""
    for word in sorted(words, key=len, reverse=True):
        for found in re.finditer(rf"(?:(?<![\w./-])|(?<=://)){re.escape(word)}(?![\w-]|\.\w)", text):
            yield Found(found[0], found.start())


def literal(path: str) -> str:
    """The part of a path that is the same whenever it runs: whole components before the first with a variable, pattern or placeholder."""
    parts: list[str] = []
    for part in path.split("/"):
        if re.search(r"[$*?{}%\\]", part):
            break
        parts.append(part)
    return "/".join(parts) or "/"


def below(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies below it."""
    folder = folder.rstrip("/")
    return path == folder or path.startswith(folder + "/") or not folder
