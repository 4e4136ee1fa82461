"""XAES-256-GCM: AES-256-GCM with nonces long enough to be drawn at random for as many pieces as anybody will ever store.

Source: C2SP, XAES-256-GCM. The key of each piece is derived from one half of its 192-bit nonce, in counter mode over AES-CMAC
(NIST SP 800-108r1), and the other half is the nonce of AES-256-GCM (NIST SP 800-38D).
"""

from __future__ import annotations

import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers import algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bridgehead.vault.sealing import BadSeal

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16
_HALF: Final = 12
_BLOCK: Final = 16


class Xaes:
    """One key (32 bytes). Safe for threads; encrypting leaves the interpreter's lock alone.

    A sealed piece is the nonce, the ciphertext, the tag. The label, as UTF-8, is the additional data. See ``sealing.Cipher``.
    """

    overhead_bytes = NONCE_BYTES + TAG_BYTES

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._key = key
        self._mask = _doubled(self._blocks(bytes(_BLOCK)))

    def seal(self, data: bytes | memoryview, *, label: str, head: bytes = b"") -> bytes:
        """See the Protocol. ``head`` is put in front, in clear."""
        return b"".join((head, *self.sealed(data, label=label)))

    def sealed(self, data: bytes | memoryview, *, label: str) -> tuple[bytes, bytes]:
        """The same as nonce, and ciphertext with tag."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce, self.encrypt(nonce, data, label.encode())

    def open(self, data: bytes | memoryview, *, label: str) -> bytes:
        """See the Protocol."""
        whole = memoryview(data)
        if len(whole) < self.overhead_bytes:
            raise BadSeal("it is shorter than a seal")
        nonce = bytes(whole[:NONCE_BYTES])
        try:
            return self._piece(nonce).decrypt(nonce[_HALF:], whole[NONCE_BYTES:], label.encode())
        except InvalidTag:
            raise BadSeal("it was changed, or sealed for another place or with another key") from None

    def encrypt(self, nonce: bytes, data: bytes | memoryview, additional: bytes) -> bytes:
        """Ciphertext and tag under a nonce of 24 bytes, which must never be used twice with one key."""
        return self._piece(nonce).encrypt(nonce[_HALF:], data, additional)

    def _piece(self, nonce: bytes) -> AESGCM:
        context = b"X\0" + nonce[:_HALF]
        masked = [_xor(b"\0" + bytes([count]) + context, self._mask) for count in (1, 2)]
        return AESGCM(self._blocks(b"".join(masked)))

    def _blocks(self, data: bytes) -> bytes:
        return BlockCipher(algorithms.AES256(self._key), modes.ECB()).encryptor().update(data)  # single blocks: this is the bare function


def _doubled(block: bytes) -> bytes:
    """Twice the block in GF(2^128): the first subkey of CMAC (NIST SP 800-38B, 6.1)."""
    number = int.from_bytes(block)
    doubled = (number << 1) & ((1 << 128) - 1)
    return (doubled ^ 0b10000111 if number >> 127 else doubled).to_bytes(_BLOCK)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))
