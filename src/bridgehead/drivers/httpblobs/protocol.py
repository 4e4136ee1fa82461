"""What client and server of httpblobs agree on.

========================  =============================================================================================
``PUT /blobs/KEY``        create-only (``If-None-Match: *`` is required): 201 written, 412 the key exists
``GET /blobs/KEY``        200 with the value and its hash
``HEAD /blobs/KEY``       200 with the size; with ``?hash`` also the hash, for which the server reads the value
``DELETE /blobs/KEY``     204, also when absent
``GET /list?prefix=P``    200, JSON list of ``{"key", "size_bytes"}``, sorted
========================  =============================================================================================

A body carries its BLAKE3 in ``X-Content-Blake3``; the receiver checks length and hash. A port error of the store behind the server
travels as a status with its code in ``X-Bridgehead-Error`` and its text as the body.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.kernel.errors import Conflict, ErrorCode, NotFound, Permanent, PortError, Transient, Unknown

HASH_HEADER: Final = "X-Content-Blake3"
ERROR_HEADER: Final = "X-Bridgehead-Error"
BLOBS: Final = "/blobs/"
LIST: Final = "/list"
MAX_BODY_BYTES: Final = 1 << 30
"""A value is held in memory once at each end; a longer one is refused."""

STATUS: Final[dict[ErrorCode, int]] = {
    ErrorCode.PORT_NOT_FOUND: 404,
    ErrorCode.PORT_CONFLICT: 409,
    ErrorCode.PORT_PERMANENT: 422,
    ErrorCode.PORT_TRANSIENT: 503,
    ErrorCode.PORT_UNKNOWN: 500,
}
ERRORS: Final[dict[str, type[PortError]]] = {kind.port_code.value: kind for kind in (NotFound, Conflict, Permanent, Transient, Unknown)}


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of a listing."""

    key: str
    size_bytes: int
