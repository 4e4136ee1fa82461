"""Merkle trees against the definition of RFC 9162, and their proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.vault.crypt import merkle

LEAVES = st.lists(st.binary(max_size=8), max_size=40)


def by_definition(leaves: Sequence[bytes]) -> bytes:
    """RFC 9162, 2.1.1: split at the largest power of two below the number of leaves."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + by_definition(leaves[:split]) + by_definition(leaves[split:])).digest()


def test_vectors_of_certificate_transparency() -> None:
    leaves = [
        bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
    ]
    assert merkle.root([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert merkle.root(leaves[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle.root(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert [one.hex()[:8] for one in merkle.proof(leaves, 0)] == ["96a296d2", "5f083f0a", "6b47aaf2"]


@given(LEAVES)
def test_root_is_that_of_the_definition(leaves: list[bytes]) -> None:
    assert merkle.root(leaves) == by_definition(leaves)


@given(LEAVES.filter(len), st.data())
def test_each_leaf_is_proved_and_nothing_else(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    path, root, size = merkle.proof(leaves, index), merkle.root(leaves), len(leaves)
    assert merkle.is_proved(leaves[index], index, size=size, path=path, root=root)
    assert not merkle.is_proved(leaves[index] + b"x", index, size=size, path=path, root=root)
    assert not merkle.is_proved(leaves[index], index, size=size, path=(*path, root), root=root)
    assert not merkle.is_proved(leaves[index], size, size=size, path=path, root=root)
    assert not merkle.is_proved(leaves[index], -1, size=size, path=path, root=root)
    if path:
        assert not merkle.is_proved(leaves[index], index, size=size, path=path[:-1], root=root)
        assert not merkle.is_proved(path[0], index // 2, size=(size + 1) // 2, path=path[1:], root=root)
    other = data.draw(st.integers(0, len(leaves) - 1))
    if leaves[other] != leaves[index]:
        assert not merkle.is_proved(leaves[other], index, size=size, path=path, root=root)
