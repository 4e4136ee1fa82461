"""Each kind of fault of a ledger is found and named (J02)."""

from __future__ import annotations

import os
import stat

import msgspec
import pytest

from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent
from bridgehead.kernel.hashing import ZERO_HASH, chain_hash
from bridgehead.kernel.ids import RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import HoldStep, Runbook
from bridgehead.runbook.ledger import KeyFolder, LedgerFault, Seal, seal, verify_chain


@pytest.fixture
def keys(tmp_path):
    return KeyFolder(tmp_path / "keys")


@pytest.fixture
def entries(keys):
    chain, previous = [], ZERO_HASH
    for seq in range(1, 7):
        chain.append(seal(ev.Noticed(float(seq), f"number {seq}"), seq=seq, previous=previous, signer=keys))
        previous = chain[-1].hash
    return chain


def found(entries, keys, head=None):
    return [(fault.seq, fault.problem) for fault in verify_chain(entries, keys, head=head)]


def test_a_sound_ledger_has_no_faults(entries, keys):
    assert found(entries, keys) == []
    assert found(entries, keys, head=entries[-1].hash) == []


def test_a_head_that_was_noted_earlier_is_in_the_chain(entries, keys):
    assert found(entries, keys, head=entries[2].hash) == []


def test_seals_are_judged_as_entries_are(entries, keys):
    seals = [Seal(entry.seq, entry.payload, entry.previous, entry.hash, entry.signature, entry.key_id) for entry in entries]
    assert found(seals, keys, head=entries[-1].hash) == []


@pytest.mark.parametrize("at", [0, 3, 5])
def test_changed_content_is_found_at_its_entry(entries, keys, at):
    entries[at] = msgspec.structs.replace(entries[at], payload=entries[at].payload.replace(b"number", b"sum of"))
    assert found(entries, keys) == [(at + 1, "content was changed after it was written")]


def test_changed_content_with_a_new_hash_needs_the_key(entries, keys):
    payload = entries[3].payload.replace(b"number", b"sum of")
    entries[3] = msgspec.structs.replace(entries[3], payload=payload, hash=chain_hash(entries[3].previous, payload))
    assert found(entries, keys) == [(4, "signature is wrong"), (5, "does not follow the entry before it")]


@pytest.mark.parametrize(
    ("dropped", "problem"), [(slice(2, 3), "entry 3 is missing before it"), (slice(1, 4), "entries 2 to 4 are missing before it")]
)
def test_dropped_entries_are_named_once(entries, keys, dropped, problem):
    del entries[dropped]
    assert found(entries, keys) == [(dropped.stop + 1, problem), (dropped.stop + 1, "does not follow the entry before it")]


def test_a_dropped_beginning_is_named(entries, keys):
    assert found(entries[2:], keys) == [(3, "entries 1 to 2 are missing before it"), (3, "does not follow the entry before it")]


def test_entries_in_another_order_are_found(entries, keys):
    third, fourth = entries[2], entries[3]
    entries[2], entries[3] = msgspec.structs.replace(fourth, seq=3), msgspec.structs.replace(third, seq=4)
    assert found(entries, keys) == [(seq, "does not follow the entry before it") for seq in (3, 4, 5)]


@pytest.mark.parametrize("signature", ["00" * 64, "", "not hexadecimal", "ü"])
def test_a_wrong_signature_is_found(entries, keys, signature):
    entries[4] = msgspec.structs.replace(entries[4], signature=signature)
    assert found(entries, keys) == [(5, "signature is wrong")]


@pytest.mark.parametrize("key_id", ["0" * 16, "", "../../x", "ü"])
def test_an_unknown_key_is_named(entries, keys, key_id):
    entries[4] = msgspec.structs.replace(entries[4], key_id=key_id)
    assert found(entries, keys) == [(5, f"is signed with key {key_id}, which is unknown")]


def test_a_hash_that_is_no_text_of_a_hash_is_found(entries, keys):
    entries[5] = msgspec.structs.replace(entries[5], hash="ü" * 64)
    assert found(entries, keys) == [(6, "content was changed after it was written"), (6, "signature is wrong")]


def test_a_tail_that_was_cut_off_shows_by_the_head(entries, keys):
    head = entries[-1].hash
    assert found(entries[:4], keys) == []  # not to be seen from inside
    [(seq, problem)] = found(entries[:4], keys, head=head)
    assert seq == 4
    assert f"none has the given head {head}: newer entries were cut off" in problem


def test_an_empty_ledger_holds_nothing(keys):
    assert found([], keys) == [(0, "the ledger is empty")]


def opening(run):
    return ev.RunOpened(1.0, RunId(run), Runbook("nap", (HoldStep(StepId("wait"), 1.0),)), "hash", {}, "ann", "0")


def test_J02_a_ledger_is_bound_to_the_name_of_its_run(keys):
    first = seal(opening("good"), seq=1, previous=ZERO_HASH, signer=keys)
    chain = [first, seal(ev.Noticed(2.0, "on"), seq=2, previous=first.hash, signer=keys)]
    assert verify_chain(chain, keys, run=RunId("good")) == []
    assert verify_chain(chain, keys, run=RunId("bad")) == [LedgerFault(1, "opens run good, not bad")]


def test_J02_a_ledger_that_begins_with_another_event_opens_no_run(entries, keys):
    assert verify_chain(entries, keys, run=RunId("good")) == [LedgerFault(1, "opens no run, not good")]
    assert [fault.seq for fault in verify_chain(entries[1:], keys, run=RunId("good"))] == [2, 2]  # named once: it is missing


def test_entries_of_an_older_key_verify_as_long_as_its_public_key_is_there(entries, keys, tmp_path):
    [public] = (tmp_path / "keys").glob("*.pub")
    (tmp_path / "keys" / "ledger.key").unlink()
    renewed = KeyFolder(tmp_path / "keys")
    entries.append(seal(ev.Noticed(7.0, "new key"), seq=7, previous=entries[-1].hash, signer=renewed))
    assert entries[-1].key_id != public.stem
    assert found(entries, KeyFolder(tmp_path / "keys")) == []
    public.unlink()
    assert [seq for seq, _ in found(entries, KeyFolder(tmp_path / "keys"))] == [1, 2, 3, 4, 5, 6]


def test_the_private_key_is_its_owners_alone_and_a_leftover_of_a_crash_does_not_matter(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / f".ledger.key.{os.getpid()}").touch()
    (folder / f"ledger.key.{os.getpid()}.0.tmp").touch()
    before = os.umask(0)
    try:
        key_id = KeyFolder(folder).key_id
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "ledger.key").stat().st_mode) == 0o600
    assert KeyFolder(folder).key_id == key_id


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_private_key_that_others_may_read_is_refused(keys, tmp_path, mode):
    assert keys.key_id
    (tmp_path / "keys" / "ledger.key").chmod(mode)
    with pytest.raises(BridgeheadError, match="chmod 600") as caught:
        KeyFolder(tmp_path / "keys").sign(b"x")
    assert caught.value.code is ErrorCode.BAD_USAGE


@pytest.mark.parametrize("content", [b"", b"ab" * 31, b"no key" * 12, b"\xff" * 64])
def test_a_damaged_private_key_is_said_to_be_one_and_stays(keys, tmp_path, content):
    assert keys.key_id
    (tmp_path / "keys" / "ledger.key").write_bytes(content)
    with pytest.raises(BridgeheadError, match="move it away") as caught:
        KeyFolder(tmp_path / "keys").sign(b"x")
    assert caught.value.code is ErrorCode.JOURNAL_DAMAGED
    assert (tmp_path / "keys" / "ledger.key").read_bytes() == content


def test_keys_that_cannot_be_made_are_permanent(tmp_path):
    (tmp_path / "keys").write_text("no folder")
    with pytest.raises(Permanent, match="rights of that folder"):
        KeyFolder(tmp_path / "keys").sign(b"x")
