"""The erasure code of courier sets: any k of n shares give the data back (M9.3)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.vault.courier.erasure import Code, TooFewShares


@st.composite
def losses(draw: st.DrawFn) -> tuple[Code, bytes, set[int]]:
    code = Code(data=draw(st.integers(1, 12)), parity=draw(st.integers(0, 5)))
    lost = draw(st.sets(st.integers(0, code.shares - 1), max_size=code.parity))
    return code, draw(st.binary(max_size=400)), lost


@given(losses())
def test_M9_3_any_k_shares_are_enough(case: tuple[Code, bytes, set[int]]) -> None:
    code, stripe, lost = case
    shares = code.encode(stripe)
    assert len(shares) == code.shares
    assert {len(share) for share in shares} == {code.share_bytes(len(stripe))}
    left = {number: share for number, share in enumerate(shares) if number not in lost}
    assert code.decode(left, len(stripe)) == stripe


@pytest.mark.parametrize(("data", "parity"), [(3, 3), (5, 2), (2, 4), (250, 6)])
def test_every_loss_that_parity_covers(data: int, parity: int) -> None:
    code = Code(data=data, parity=parity)
    stripe = bytes(index * 7 & 0xFF for index in range(999))
    shares = code.encode(stripe)
    losses = itertools.combinations(range(code.shares), parity) if data < 10 else [range(parity), range(0, 60, 10), range(245, 251)]
    for lost in losses:
        assert code.decode({n: share for n, share in enumerate(shares) if n not in lost}, 999) == stripe


def test_the_first_parity_is_the_exclusive_or() -> None:
    for parity in (1, 2, 3):
        shares = Code(data=3, parity=parity).encode(bytes([1, 2, 4]))
        assert shares[3] == bytes([7])


def test_bytes_on_the_drives_are_as_the_format_says() -> None:
    """Another reader can be written from the description; these are its test vectors."""
    assert [share.hex() for share in Code(data=2, parity=2).encode(b"\x01\x02\x03\x80")] == ["0102", "0380", "0282", "cba2"]


def test_one_loss_too_many_is_told() -> None:
    shares = Code(data=3, parity=1).encode(b"abcdefgh")
    with pytest.raises(TooFewShares):
        Code(data=3, parity=1).decode({0: shares[0], 3: shares[3]}, 8)


@pytest.mark.parametrize(("data", "parity"), [(0, 1), (200, 57), (3, -1)])
def test_codes_that_there_are_not(data: int, parity: int) -> None:
    with pytest.raises(ValueError, match="no code"):
        Code(data=data, parity=parity)
