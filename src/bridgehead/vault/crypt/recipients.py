"""Recipients: who can open a vault. Each has an age X25519 key, to which the data keys are encrypted: standard age files.

The private half lies with an age recipient himself. For a passphrase or a raw key it lies in the vault, sealed with a key derived from
them. So a new data key can be given to everybody without asking anybody for his secret.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
import unicodedata
from typing import Final

import msgspec
import pyrage
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.vault.crypt.cipher import KEY_BYTES, Xaes
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.ring import DataKey, KeyRing, derived
from bridgehead.vault.sealing import BadSeal

SALT_BYTES: Final = 16
LOG2_N: Final = 17
"""Cost of scrypt for new passphrases: 128 MiB and about 0.3 s."""
_LOG2_N_BOUNDS: Final = range(15, 21)
"""Less would be cheap to guess; more, in a record that somebody has put there, would only eat memory."""
_R, _P = 8, 1


class RecipientKind(enum.StrEnum):
    """What opens it."""

    AGE = "age"
    PASSPHRASE = "passphrase"
    KEY_FILE = "key-file"


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of scrypt (RFC 7914): N = 2^log2_n."""

    log2_n: int
    r: int
    p: int


class Recipient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record at ``keys/<id>/recipient.json``.

    Attributes:
        id: first 16 hex digits of the SHA-256 of ``public``.
        public: the age recipient, ``age1...``.
        note: free text, in clear.
        salt: drawn at random for a passphrase or a raw key; empty for age.
        identity: the age identity, sealed; empty for age.
        voucher: the family's word that one of its holders has added him; see ``KeyRing.vouch``.
    """

    id: str
    kind: RecipientKind
    public: str
    note: str
    made_s: float
    stretch: Stretch | None = None
    salt: bytes = b""
    identity: bytes = b""
    voucher: str = ""

    @property
    def words(self) -> str:
        """For lists and messages."""
        note = f", {self.note}" if self.note else ""
        return f"{self.id} ({self.kind.value}{note})"


def age_recipient(public: str, *, note: str = "", now_s: float) -> Recipient:
    """Somebody who has the identity for ``public``. Raises BAD_USAGE for what is no age X25519 recipient."""
    try:
        public = str(pyrage.x25519.Recipient.from_str(public))
    except pyrage.RecipientError as error:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="add a recipient",
            subject="a secret key" if public.startswith("AGE-SECRET") else repr(public),
            happened=f"it is not an age recipient ({error})",
            remedy="`age-keygen` prints one: it begins with age1. SSH keys and plugins are not supported.",
        ) from error
    return Recipient(_id(public), RecipientKind.AGE, public, note, now_s)


def passphrase_recipient(passphrase: str, *, note: str = "", now_s: float, log2_n: int = LOG2_N) -> Recipient:
    """Whoever knows the passphrase."""
    salt, stretch = secrets.token_bytes(SALT_BYTES), Stretch(log2_n, _R, _P)
    return _with_identity(RecipientKind.PASSPHRASE, _stretched(passphrase, stretch, salt), note, now_s, salt, stretch)


def key_file_recipient(raw_key: bytes, *, note: str = "", now_s: float) -> Recipient:
    """Whoever has the raw key."""
    salt = secrets.token_bytes(SALT_BYTES)
    return _with_identity(RecipientKind.KEY_FILE, _mixed(raw_key, salt), note, now_s, salt, None)


def recipients_of(found: Credentials, *, now_s: float, log2_n: int = LOG2_N) -> tuple[Recipient, ...]:
    """Recipients that these credentials open."""
    made = [age_recipient(str(pyrage.x25519.Identity.from_str(text).to_public()), now_s=now_s) for text in found.identities]
    if found.passphrase is not None:
        made.append(passphrase_recipient(found.passphrase, now_s=now_s, log2_n=log2_n))
    if found.raw_key is not None:
        made.append(key_file_recipient(found.raw_key, now_s=now_s))
    return tuple(made)


def vouched(recipient: Recipient, ring: KeyRing) -> Recipient:
    """The record as a holder of the ring writes it."""
    return msgspec.structs.replace(recipient, voucher=ring.vouch(_statement(recipient)))


def is_vouched(recipient: Recipient, ring: KeyRing) -> bool:
    """Whether a holder of the ring has written it: anybody who may write to the store could add himself."""
    return secrets.compare_digest(recipient.voucher, ring.vouch(_statement(recipient)))


def identity_for(recipient: Recipient, found: Credentials) -> pyrage.x25519.Identity | None:
    """The identity of this recipient, when one of the credentials gives it."""
    match recipient.kind:
        case RecipientKind.AGE:
            for text in found.identities:
                try:
                    identity = pyrage.x25519.Identity.from_str(text)
                except pyrage.IdentityError:
                    continue
                if str(identity.to_public()) == recipient.public:
                    return identity
            return None
        case RecipientKind.PASSPHRASE:
            stretch = recipient.stretch
            if found.passphrase is None or stretch is None or stretch.log2_n not in _LOG2_N_BOUNDS or (stretch.r, stretch.p) != (_R, _P):
                return None
            return _unsealed(recipient, _stretched(found.passphrase, stretch, recipient.salt))
        case RecipientKind.KEY_FILE:
            return None if found.raw_key is None else _unsealed(recipient, _mixed(found.raw_key, recipient.salt))


def wrap(key: DataKey, recipient: Recipient) -> bytes:
    """An age file that only the recipient can read."""
    return pyrage.encrypt(canonical(key), [pyrage.x25519.Recipient.from_str(recipient.public)])


def unwrap(wrapped: bytes, identity: pyrage.x25519.Identity) -> DataKey | None:
    """The data key; None when it is not for this identity, or damaged."""
    try:
        found = msgspec.json.decode(pyrage.decrypt(wrapped, [identity]), type=DataKey)
    except (pyrage.DecryptError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if len(found.key) == KEY_BYTES else None


def _with_identity(kind: RecipientKind, key: bytes, note: str, now_s: float, salt: bytes, stretch: Stretch | None) -> Recipient:
    identity = pyrage.x25519.Identity.generate()
    public = str(identity.to_public())
    return Recipient(_id(public), kind, public, note, now_s, stretch, salt, Xaes(key).seal(str(identity).encode(), label=public))


def _unsealed(recipient: Recipient, key: bytes) -> pyrage.x25519.Identity | None:
    try:
        return pyrage.x25519.Identity.from_str(Xaes(key).open(recipient.identity, label=recipient.public).decode())
    except (BadSeal, UnicodeDecodeError, pyrage.IdentityError):
        return None


def _stretched(passphrase: str, stretch: Stretch, salt: bytes) -> bytes:
    # Normal form C: one keyboard sends an umlaut as one sign, another as two.
    secret = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogateescape")
    return Scrypt(salt=salt, length=KEY_BYTES, n=1 << stretch.log2_n, r=stretch.r, p=stretch.p).derive(secret)


def _mixed(raw_key: bytes, salt: bytes) -> bytes:
    return derived(raw_key + salt, "key-file")


def _id(public: str) -> str:
    return hashlib.sha256(public.encode()).hexdigest()[:16]


def _statement(recipient: Recipient) -> bytes:
    return b"recipient " + canonical(msgspec.structs.replace(recipient, voucher=""))
