"""ModelBundle: a snapshot's files in the form of OpenSSF model signing, for whoever gets the restored folder and knows nothing of vaults.

A Sigstore bundle (v0.3) with a DSSE envelope over an in-toto statement whose predicate, ``https://model_signing/signature/v1.0``, lists the
SHA-256 of each file. Signed with an ECDSA key, since the form knows no Ed25519 keys. The predicate also names the snapshot and its Merkle
root, which verifiers pass over.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.snapshot import EntryKind, FileEntry, Snapshot
from bridgehead.vault.context import own_paths
from bridgehead.vault.crypt import merkle
from bridgehead.vault.crypt.signing import leaves_of

IGNORED: Final = (".git", ".gitattributes", ".github", ".gitignore")
"""At the top of a model; its verifiers leave these out unless they are told not to."""
_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}


def read_private_key(file: Path) -> ec.EllipticCurvePrivateKey:
    """A PEM file, not encrypted, on one of the curves that the form allows. Raises BAD_INPUT."""
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise _refused(str(file), error.strerror or str(error)) from error
    except (ValueError, TypeError) as error:
        raise _refused(str(file), "it is no private key in PEM form, or an encrypted one") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in _HASHES:
        raise _refused(str(file), "it is no ECDSA key on P-256, P-384 or P-521")
    return key


def model_bundle(snapshot: Snapshot, read: Callable[[FileEntry], Iterable[memoryview]], key: ec.EllipticCurvePrivateKey) -> bytes:
    """The bundle of the checkpoint itself, without what is kept with it. ``read`` gives a file's verified pieces.

    Raises BAD_INPUT for symbolic links and names that are no text, for which the form has no safe place, and what ``read`` raises.
    """
    own = set(own_paths(snapshot))
    files = sorted((file for file in snapshot.files if file.path in own and file.kind is not EntryKind.FOLDER), key=lambda file: file.path)
    for file in files:
        if file.kind is EntryKind.LINK or "\0" in file.path:
            what = "a symbolic link" if file.kind is EntryKind.LINK else "its name is not UTF-8"
            raise _refused(repr(file.path), f"{what}, which a model-signing bundle does not hold")
    digests = [(file.path, _sha256(read(file))) for file in files if file.path.split("/")[0] not in IGNORED]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": snapshot.workload, "digest": {"sha256": hashlib.sha256(b"".join(one for _, one in digests)).hexdigest()}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": list(IGNORED)},
            "resources": [{"name": path, "algorithm": "sha256", "digest": digest.hex()} for path, digest in digests],
            "bridgehead": {"snapshot": snapshot.id, "merkle_root": merkle.root(leaves_of(snapshot)).hex()},
        },
    }
    payload = json.dumps(statement, sort_keys=True).encode()
    signature = key.sign(_pre_authentication(payload), ec.ECDSA(_HASHES[key.curve.name]))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": hashlib.sha256(public).hexdigest()}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    return json.dumps(bundle).encode()


def _pre_authentication(payload: bytes) -> bytes:
    """What is signed, by the DSSE protocol, version 1."""
    return f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(payload)} ".encode() + payload


def _sha256(pieces: Iterable[memoryview]) -> bytes:
    hasher = hashlib.sha256()
    for piece in pieces:
        hasher.update(piece)
    return hasher.digest()


def _refused(subject: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="make a model-signing bundle",
        subject=subject,
        happened=happened,
        remedy="`openssl ecparam -name prime256v1 -genkey -noout` makes a key; a snapshot with links can be signed in its own vault only.",
    )
