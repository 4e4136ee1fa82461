"""Corpus: training text that is found on every machine, the sources of Python's standard library.

Nothing is downloaded. The same Python gives the same bytes in the same order, so that two sites and two runs train on the same text.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.hashing import block_hash

DEFAULT_SIZE_BYTES = 8_000_000
"""Enough that tokenising it takes a second or more of processor time, as preparing data does in real jobs."""

FILE_NAME = "corpus.txt"
_PACKAGES = (
    "asyncio",
    "collections",
    "concurrent",
    "ctypes",
    "curses",
    "distutils",
    "email",
    "encodings",
    "html",
    "http",
    "importlib",
    "json",
)
_MORE = ("lib2to3", "logging", "multiprocessing", "pydoc_data", "sqlite3", "unittest", "urllib", "wsgiref", "xml", "xmlrpc", "zoneinfo")


def collect(*, size_bytes: int = DEFAULT_SIZE_BYTES) -> bytes:
    """The first ``size_bytes`` of the library's sources, in the order of their relative paths; always exactly that many bytes.

    Raises:
        BridgeheadError: ``bad-input`` when this Python ships too little source text.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted([*root.glob("*.py"), *(path for name in (*_PACKAGES, *_MORE) for path in (root / name).rglob("*.py"))])
    pieces: list[bytes] = []
    left = size_bytes
    for path in files:
        piece = path.read_bytes()[:left]
        pieces.append(piece)
        left -= len(piece)
        if left == 0:
            return b"".join(pieces)
    raise BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="collect training text",
        subject=str(root),
        happened=f"its sources are {left} bytes short of {size_bytes}",
        remedy="ask for a smaller corpus, or run a Python that ships its standard library as source files",
    )


def write(directory: Path, *, size_bytes: int = DEFAULT_SIZE_BYTES) -> str:
    """Write the corpus into ``directory`` (made when missing) and return its content hash."""
    text = collect(size_bytes=size_bytes)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FILE_NAME).write_bytes(text)
    return block_hash(text)


def read(directory: Path) -> str:
    """The text of a corpus directory; bytes that are not UTF-8 are replaced, the same way each time.

    Raises:
        BridgeheadError: ``bad-input`` when the directory holds no corpus.
    """
    path = directory / FILE_NAME
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read the training text",
            subject=str(path),
            happened=str(error),
            remedy="write it first with bridgehead.app.demo.corpus.write",
        ) from error
