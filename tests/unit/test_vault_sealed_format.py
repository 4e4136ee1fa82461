"""A reader of sealed vaults that was written from docs/formats/vault.md alone, on the libraries it names (R4)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pyrage
from blake3 import blake3
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.vault import Vault
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.recipients import age_recipient, key_file_recipient, passphrase_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root

RAW = b"\7" * 32


def derived(key: bytes, purpose: str, size: int = 32) -> bytes:
    return HKDF(SHA256(), size, None, b"bridgehead vault 1 " + purpose.encode()).derive(key)


def opened(key: bytes, piece: bytes, label: str) -> bytes:
    nonce, rest = piece[:24], piece[24:]

    def aes(block: bytes) -> bytes:
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)

    number = int.from_bytes(aes(bytes(16)), "big") << 1
    mask = (number & (1 << 128) - 1) ^ (0x87 if number >> 128 else 0)
    parts = [aes((int.from_bytes(bytes([0, i]) + b"X\0" + nonce[:12], "big") ^ mask).to_bytes(16, "big")) for i in (1, 2)]
    return AESGCM(b"".join(parts)).decrypt(nonce[12:], rest, label.encode())


class Reader:
    def __init__(self, folder: Path, identity: pyrage.x25519.Identity) -> None:
        self.folder = folder
        family = self.record("vault.json", (folder / "vault.json").read_bytes())["family"]
        public = str(identity.to_public())
        mine = folder / "keys" / hashlib.sha256(public.encode()).hexdigest()[:16]
        found = []
        for file in mine.glob("*.age"):
            assert file.name.split("-")[1] == f"{blake3(file.read_bytes()).hexdigest()[:32]}.age"
            found.append(json.loads(pyrage.decrypt(file.read_bytes(), [identity])))
        found.sort(key=lambda one: one["made_s"])
        self.keys = [base64.b64decode(one["key"]) for one in found]
        (self.root,) = (key for key in self.keys if derived(key, "family", 16).hex() == family)
        for one, key in zip(found, self.keys, strict=True):
            proof = hmac.digest(derived(self.root, "proofs"), key, "sha256")
            assert key == self.root or base64.b64decode(one["proof"]) == proof

    def record(self, key: str, data: bytes) -> dict[str, Any]:
        document = json.loads(data)
        body = data[data.index(b'"record":') + 9 : data.rindex(b"}")]
        assert hashlib.sha256(body).hexdigest() == document["hash"], key
        return dict(document["record"])

    def unsealed(self, piece: bytes, purpose: str, label: str) -> bytes:
        key = next(key for key in self.keys if derived(key, "id", 4) == piece[:4])
        return opened(derived(key, purpose), piece[4:], label)

    def objects(self) -> dict[str, bytes]:
        """Plain keys and values of all records."""
        siv, found = AESSIV(derived(self.root, "names", 64)), {}
        for path in sorted(self.folder.rglob("*")):
            first, *rest = path.relative_to(self.folder).parts
            if not path.is_file() or first in ("vault.json", "keys", "data", "~scratch"):
                continue
            plain, text = first, ""
            for segment in rest:
                text += segment.rstrip("+")
                if not segment.endswith("+"):
                    sealed = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
                    plain, text = f"{plain}/{siv.decrypt(sealed, [plain.encode()]).rstrip(bytes(1)).decode()}", ""
            padded = self.unsealed(path.read_bytes(), "records", plain)
            length = int.from_bytes(padded[:8], "little")
            assert not any(padded[8 + length :])
            found[plain] = padded[8 : 8 + length]
        return found

    def blocks(self) -> dict[str, bytes]:
        """All blocks, from the packs alone."""
        found = {}
        for path in (self.folder / "data").glob("*/*"):
            pack = path.read_bytes()
            assert blake3(pack).hexdigest() == path.name
            length = int.from_bytes(pack[-16:-8], "little")
            label = f"pack-table {blake3(pack[: -16 - length]).hexdigest()}"
            table = msgspec.msgpack.decode(self.unsealed(pack[-16 - length : -16], "blocks", label))
            for block, offset, size in table:
                found[block.hex()] = self.unsealed(pack[offset : offset + size + 44], "blocks", block.hex())
        return found


def test_another_program_reads_a_sealed_vault(tmp_path: Path) -> None:
    identity, secret = pyrage.x25519.Identity.generate(), os.urandom(150_000)
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path / "v")))
    recipients = (
        age_recipient(str(identity.to_public()), now_s=1.0),
        passphrase_recipient("Passwo\u0308rter", now_s=1.0, log2_n=15),
        key_file_recipient(RAW, now_s=1.0),
    )
    workload = WorkloadId("w" * 120)
    vault = Vault.init(store, key=keys.Founding(KeyRing([new_root(now_s=1.0)]), recipients))
    assert vault.ring is not None
    first = vault.save({"w.bin": secret}, workload=workload, step=1, epoch=Epoch(0), site=SiteId("s" * 120)).id
    keys.rotate(store, vault.ring, now_s=5.0)
    vault = Vault.open(store, key=Credentials(raw_key=RAW))
    second = vault.save({"w.bin": secret[::-1]}, workload=workload, step=2, epoch=Epoch(0), site=SiteId("s" * 120)).id
    vault.receipt(first, site=SiteId("s" * 120))

    reader = Reader(tmp_path / "v", identity)
    assert len(reader.keys) == 2
    objects, blocks = reader.objects(), reader.blocks()
    assert f"receipts/{'s' * 120}/{first}.json" in objects, "a name that goes on in a second segment"
    for snapshot, content in ((first, secret), (second, secret[::-1])):
        step, digest = snapshot.split("@")[1].split(".")[0], snapshot[-16:]
        record = reader.record("", objects[f"snapshots/{workload}/{int(step):012d}-0-{digest}.json"])
        pieces = record["files"][0]["blocks"]
        assert b"".join(blocks[piece["block"]] for piece in pieces) == content


def test_another_program_opens_it_by_passphrase_and_raw_key(tmp_path: Path) -> None:
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path / "v")))
    word = passphrase_recipient("Passw\u00f6rter", now_s=1.0, log2_n=15)
    Vault.init(store, key=keys.Founding(KeyRing([new_root(now_s=1.0)]), (word, key_file_recipient(RAW, now_s=1.0))))
    for path in (tmp_path / "v" / "keys").glob("*/recipient.json"):
        record = json.loads(path.read_bytes())["record"]
        salt = base64.b64decode(record["salt"])
        if record["kind"] == "passphrase":
            stretch = record["stretch"]
            key = Scrypt(salt, 32, 1 << stretch["log2_n"], stretch["r"], stretch["p"]).derive("Passw\u00f6rter".encode())
        else:
            key = derived(RAW + salt, "key-file")
        identity = opened(key, base64.b64decode(record["identity"]), record["public"]).decode()
        reader = Reader(tmp_path / "v", pyrage.x25519.Identity.from_str(identity))
        body = json.dumps(record | {"voucher": ""}, sort_keys=True, separators=(",", ":")).encode()
        assert hmac.new(derived(reader.root, "statements"), b"recipient " + body, "sha256").hexdigest() == record["voucher"]
