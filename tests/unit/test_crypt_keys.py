"""Recipients of a vault: who opens it, who does not, and what a rotation and a removal do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pyrage
import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.hashing import block_hash
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import Credentials, credentials, read_key_file
from bridgehead.vault.crypt.recipients import (
    Recipient,
    age_recipient,
    key_file_recipient,
    passphrase_recipient,
    recipients_of,
    unwrap,
    vouched,
    wrap,
)
from bridgehead.vault.crypt.ring import KeyRing, RingCipher, new_root
from bridgehead.vault.records import Damaged, encode

QUICK = 15
IDENTITY = pyrage.x25519.Identity.generate()
ANNA = Credentials(identities=(str(IDENTITY),))
WORD = Credentials(passphrase="correct horse")
RAW = Credentials(raw_key=b"\7" * 32)


class Keys:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.blobs = LocalBlobs(LocalBlobsOptions(str(folder)))
        self.folder = folder
        self.root = new_root(now_s=1.0)
        self.anna = age_recipient(str(IDENTITY.to_public()), note="anna", now_s=1.0)
        self.word = passphrase_recipient("correct horse", now_s=1.0, log2_n=QUICK)
        self.raw = key_file_recipient(b"\7" * 32, now_s=1.0)
        keys.found_family(self.blobs, KeyRing([self.root]), [self.anna, self.word, self.raw])

    def unlock(self, found: Credentials) -> KeyRing:
        return keys.unlock(self.blobs, family=self.root.family, credentials=found)


@pytest.fixture
def held(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "v")


@pytest.mark.parametrize("found", [ANNA, WORD, RAW, Credentials(passphrase="wrong", identities=ANNA.identities)])
def test_each_recipient_opens_it_alone(held: Keys, found: Credentials) -> None:
    assert held.unlock(found).keys == (held.root,)


@pytest.mark.parametrize(
    "found", [Credentials(passphrase="Correct horse"), Credentials(identities=(str(pyrage.x25519.Identity.generate()),)), Credentials()]
)
def test_a_wrong_key_or_none_says_who_can_open_it(held: Keys, found: Credentials) -> None:
    with pytest.raises(BridgeheadError) as raised:
        held.unlock(found)
    assert raised.value.code is ErrorCode.VAULT_LOCKED
    for recipient in (held.anna, held.word, held.raw):
        assert recipient.words in raised.value.happened
    assert "BRIDGEHEAD_PASSPHRASE" in raised.value.remedy
    assert "orrect horse" not in str(raised.value)


def test_wrapped_keys_are_age_files_that_others_read(held: Keys, tmp_path: Path) -> None:
    (name,) = (key for key in held.blobs.list(f"keys/{held.anna.id}/") if key.endswith(".age"))
    file = held.blobs.get(name)
    assert file.startswith(b"age-encryption.org/v1\n-> X25519 ")
    assert unwrap(file, IDENTITY) == held.root
    program = shutil.which("age")
    if program is not None:  # the reference program, where it is installed
        identity = tmp_path / "id"
        identity.write_text(str(IDENTITY))
        plain = subprocess.run([program, "-d", "-i", identity], input=file, capture_output=True, check=True).stdout
        assert msgspec.json.decode(plain)["made_s"] == 1.0


def test_a_new_recipient_gets_all_keys_and_a_removed_one_no_new_ones(held: Keys) -> None:
    ring = held.unlock(ANNA)
    second = keys.rotate(held.blobs, ring, now_s=5.0)
    bob = Credentials(passphrase="bob")
    assert keys.add(held.blobs, held.unlock(ANNA), passphrase_recipient("bob", now_s=6.0, log2_n=QUICK))
    assert held.unlock(bob).keys == (held.root, second)
    assert not keys.add(held.blobs, held.unlock(ANNA), held.anna)
    assert keys.remove(held.blobs, held.unlock(bob), held.word.id) == vouched(held.word, ring)
    third = keys.rotate(held.blobs, held.unlock(ANNA), now_s=7.0)
    assert [held.unlock(bob).active, held.unlock(RAW).active] == [third, third]
    assert list(held.blobs.list(f"keys/{held.word.id}/")) == []
    with pytest.raises(BridgeheadError, match="opens none"):
        held.unlock(WORD)


def test_the_last_recipient_stays(held: Keys) -> None:
    ring = held.unlock(ANNA)
    keys.remove(held.blobs, ring, held.word.id)
    keys.remove(held.blobs, ring, held.raw.id)
    with pytest.raises(BridgeheadError, match="last one") as raised:
        keys.remove(held.blobs, ring, held.anna.id)
    assert raised.value.code is ErrorCode.BAD_USAGE
    assert held.unlock(ANNA).keys
    with pytest.raises(BridgeheadError, match="no such recipient"):
        keys.remove(held.blobs, ring, "0" * 16)


def test_a_rotation_that_was_broken_off_locks_nobody_out_and_is_completed(held: Keys) -> None:
    ring = held.unlock(ANNA)
    new = ring.draw(now_s=5.0)
    file = wrap(new, held.anna)  # killed after the first recipient
    held.blobs.put_new(f"keys/{held.anna.id}/{new.id}-{block_hash(file)[:32]}.age", file)
    anna = held.unlock(ANNA)
    assert [anna.keys, anna.active] == [(held.root, new), held.root]
    sealed = RingCipher(anna, "blocks").seal(b"x", label="")
    assert RingCipher(held.unlock(RAW), "blocks").open(sealed, label="") == b"x"
    assert keys.rotate(held.blobs, anna, now_s=6.0) == new
    for found in (ANNA, WORD, RAW):
        assert held.unlock(found).active == new


def test_a_process_that_was_open_before_a_rotation_reads_what_came_after(held: Keys) -> None:
    early = RingCipher(held.unlock(RAW), "blocks")
    keys.rotate(held.blobs, held.unlock(ANNA), now_s=5.0)
    sealed = RingCipher(held.unlock(WORD), "blocks").seal(b"new", label="")
    assert early.open(sealed, label="") == b"new"


def test_who_may_write_to_the_store_and_has_no_key_gets_none_and_gives_none(held: Keys) -> None:
    mallory = pyrage.x25519.Identity.generate()
    record = age_recipient(str(mallory.to_public()), note="backup", now_s=2.0)
    held.blobs.put_new(f"keys/{record.id}/recipient.json", encode(msgspec.structs.replace(record, voucher="0" * 64)))
    forged = new_root(now_s=9.0)  # encrypted to everybody, since the recipients' public keys can be read
    for recipient in (held.anna, held.word, held.raw, record):
        file = wrap(forged, recipient)
        held.blobs.put_new(f"keys/{recipient.id}/{forged.id}-{block_hash(file)[:32]}.age", file)
    ring = held.unlock(ANNA)
    assert [ring.keys, ring.active] == [(held.root,), held.root]
    new = keys.rotate(held.blobs, ring, now_s=10.0)
    names = [key for key in held.blobs.list(f"keys/{record.id}/") if key.endswith(".age")]
    assert [unwrap(held.blobs.get(name), mallory) for name in names] == [forged]
    assert held.unlock(WORD).active == new
    assert [(one.recipient.id, one.vouched) for one in keys.held(held.blobs, ring) if not one.vouched] == [(record.id, False)]
    assert keys.remove(held.blobs, ring, record.id).note == "backup"
    with pytest.raises(BridgeheadError, match="opens none"):
        held.unlock(Credentials(raw_key=b"\1" * 32))


def test_keys_of_another_family_are_refused(held: Keys) -> None:
    with pytest.raises(Damaged, match="another family"):
        keys.unlock(held.blobs, family="0" * 32, credentials=ANNA)


def test_V31_each_flipped_bit_in_each_object_of_the_folder_is_noticed_without_a_key(held: Keys) -> None:
    names = list(held.blobs.list("keys/"))
    assert len(names) == 6
    for name in names:
        keys.check(held.blobs, name)
        path = held.folder / name
        good = path.read_bytes()
        for at in range(0, len(good) * 8, 7):
            bad = bytearray(good)
            bad[at // 8] ^= 1 << at % 8
            path.write_bytes(bytes(bad))
            with pytest.raises(Damaged):
                keys.check(held.blobs, name)
        path.write_bytes(good)
    with pytest.raises(Damaged, match="not that of a key"):
        keys.check(held.blobs, "keys/else")


def test_a_damaged_record_does_not_stop_the_others_and_is_counted(held: Keys) -> None:
    (held.folder / f"keys/{held.anna.id}/recipient.json").write_bytes(b"{}")
    assert held.unlock(WORD).keys == (held.root,)
    with pytest.raises(BridgeheadError, match="Damaged, so that it lets nobody in: keys/"):
        held.unlock(ANNA)


def test_parameters_of_scrypt_are_stored_and_bounded(held: Keys) -> None:
    assert held.word.stretch is not None
    assert [held.word.stretch.log2_n, len(held.word.salt)] == [QUICK, 16]
    path = held.folder / f"keys/{held.word.id}/recipient.json"
    for log2_n in (10, 40):  # cheap to guess; more memory than there is
        path.write_bytes(encode(msgspec.structs.replace(held.word, stretch=msgspec.structs.replace(held.word.stretch, log2_n=log2_n))))
        with pytest.raises(BridgeheadError, match="opens none"):
            held.unlock(WORD)


def test_a_passphrase_is_the_same_however_its_signs_are_put_together(held: Keys) -> None:
    keys.add(held.blobs, held.unlock(ANNA), passphrase_recipient("Passwo\u0308rter", now_s=2.0, log2_n=QUICK))
    assert held.unlock(Credentials(passphrase="Passw\u00f6rter")).keys


def test_key_files(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"\7" * 32)
    assert read_key_file(file).raw_key == b"\7" * 32
    file.write_text("07" * 32 + "\n")
    assert read_key_file(file).raw_key == b"\7" * 32
    file.write_text(f"# created: today\n# public key: {IDENTITY.to_public()}\n{IDENTITY}\n")
    assert read_key_file(file).identities == (str(IDENTITY),)
    made = recipients_of(read_key_file(file), now_s=1.0)
    assert [one.public for one in made] == [str(IDENTITY.to_public())]
    typo = str(IDENTITY)[:-1] + ("A" if str(IDENTITY)[-1] != "A" else "C")
    for text, happened in (
        (b"", "neither"),
        (b"password", "neither"),
        (typo.encode(), "neither"),
        (b"age-encryption.org/v1\n", "encrypted"),
    ):
        file.write_bytes(text)
        with pytest.raises(BridgeheadError, match=happened) as raised:
            read_key_file(file)
        assert typo not in str(raised.value)
    with pytest.raises(BridgeheadError, match="No such file"):
        read_key_file(tmp_path / "absent")


def test_credentials_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(os.urandom(32))
    both = credentials({"BRIDGEHEAD_PASSPHRASE": "Passw\u00f6rter", "BRIDGEHEAD_KEY_FILE": str(file)})
    assert [both.passphrase, both.raw_key] == ["Passw\u00f6rter", file.read_bytes()]
    assert not credentials({})
    with pytest.raises(BridgeheadError, match="empty"):
        credentials({"BRIDGEHEAD_PASSPHRASE": ""})
    assert "rter" not in repr(both) + str(both)


@pytest.mark.parametrize("public", ["", "age1qqqq", "ssh-ed25519 AAAA", str(IDENTITY)], ids=["empty", "torn", "ssh", "secret"])
def test_a_recipient_that_is_none_is_refused(public: str) -> None:
    with pytest.raises(BridgeheadError, match="not an age recipient") as raised:
        age_recipient(public, now_s=1.0)
    assert str(IDENTITY) not in str(raised.value)


def test_public_record_tells_no_secret(held: Keys) -> None:
    for key in held.blobs.list("keys/"):
        text = held.blobs.get(key)
        assert held.root.key not in text
        assert b"AGE-SECRET" not in text
    assert isinstance(held.word, Recipient)
