"""Ranges cut into parts: nothing is lost, nothing is twice, and nobody has much more than the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torpor.process.shares import cut, dealt

LENGTHS = st.integers(1, 5000)


@given(st.integers(0, 1 << 40), st.integers(0, 5000), st.integers(1, 5000))
def test_parts_make_up_the_range(start: int, length: int, size: int) -> None:
    at = start
    for begin, part in cut(start, length, size):
        assert begin == at
        assert 0 < part <= size
        assert begin == start or begin % size == 0
        at += part
    assert at == start + length


@given(st.lists(st.tuples(st.integers(0, 9), LENGTHS), max_size=20), st.integers(1, 9), st.integers(1, 3000))
def test_shares_make_up_the_pieces(lengths: list[tuple[int, int]], count: int, least: int) -> None:
    pieces = [(f"file-{number}", first, length) for number, (first, length) in enumerate(lengths)]
    shares = dealt(pieces, count, least)
    assert len(shares) <= count
    sizes = [sum(length for _, _, length in share) for share in shares]
    assert len(set(sizes[:-1])) <= 1
    assert not sizes or all(size >= least for size in sizes[:-1])
    assert sizes[-1:] <= sizes[:1]
    together = [(path, page) for share in shares for path, first, n in share for page in range(first, first + n)]
    assert together == [(path, page) for path, first, length in pieces for page in range(first, first + length)]
