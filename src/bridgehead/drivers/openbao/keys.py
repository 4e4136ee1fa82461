"""Keys of vaults that an OpenBao server keeps: ``openbao:<mount>/<path>#<field>``, or ``openbao:<transit mount>/<key>@<file>``.

The second is a file that holds what ``bao write <mount>/encrypt/<key>`` gave: it opens nothing without the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bridgehead.drivers.openbao.options import options_of
from bridgehead.drivers.openbao.secrets import OpenBaoSecrets
from bridgehead.kernel.errors import Permanent
from bridgehead.ports.secrets import secret_ref

SCHEME: Final = "openbao:"


def fetch_key(reference: str, environ: Mapping[str, str]) -> bytes:
    """What the reference names. Raises BAD_USAGE, BAD_INPUT, and as ``ports.secrets``."""
    place = reference.removeprefix(SCHEME)
    secrets = OpenBaoSecrets(options_of(environ))
    if "#" in place:
        return secrets.get(secret_ref(place)).value.encode()
    key, at, file = place.partition("@")
    if not at:
        secret_ref(place)  # says how it is written
    try:
        wrapped = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Permanent(
            f"it cannot be read: {error}", tried="unwrap a key", subject=file, remedy="Name the file with the wrapped key."
        ) from error
    return secrets.unwrap(key, wrapped)
