"""Codecs give back what they got, refuse what they did not make, and are chosen for speed."""

from __future__ import annotations

import os
import random

import hypothesis.strategies as st
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings

from torpor.store import codec
from torpor.store.chooser import Chooser, Neighbours
from torpor.store.codec import LZ4, PLANES_2, PLANES_4, RAW, ZSTD

FLOATS = np.random.default_rng(1).normal(0, 0.02, 1 << 16).astype(np.float32)
HALVES = (FLOATS.view(np.uint32) >> 16).astype(np.uint16)
TEXT = b" ".join(random.Random(1).choices([b"weights", b"gradient", b"loss", b"step", b"lr=0.1", b"%"], k=60000))


@given(data=st.binary(max_size=3000), repeat=st.integers(1, 20), one=st.sampled_from(sorted(codec.NAMES)))
def test_what_goes_in_comes_out(data: bytes, repeat: int, one: int) -> None:
    whole = data * repeat
    if not codec.suits(one, len(whole)):
        whole = whole[: len(whole) // 4 * 4]
    assert bytes(codec.decode(one, codec.encode(one, whole), len(whole))) == whole


@settings(max_examples=300)
@given(data=st.binary(max_size=300), length=st.integers(0, 1 << 20), one=st.integers(0, 255))
def test_anything_else_is_refused(data: bytes, length: int, one: int) -> None:
    try:
        out = codec.decode(one, data, length)
    except ValueError:
        return
    assert len(out) == length


@pytest.mark.parametrize("one", [ZSTD, LZ4, PLANES_2, PLANES_4])
@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 1 << 30), bit=st.integers(0, 7))
def test_flipped_bits_never_make_more_or_less(one: int, at: int, bit: int) -> None:
    encoded = bytearray(codec.encode(one, TEXT[:4096]))
    encoded[at % len(encoded)] ^= 1 << bit
    try:
        assert len(codec.decode(one, bytes(encoded), 4096)) == 4096
    except ValueError:
        pass


def test_data_that_expand_to_more_than_they_say_are_not_expanded() -> None:
    bomb = zstandard.compress(bytes(1 << 30), 3)
    with pytest.raises(ValueError, match="another length"):
        codec.decode(ZSTD, bomb, 4096)


def test_floats_are_smaller_in_planes() -> None:
    for data, planes in ((FLOATS.tobytes(), PLANES_4), (HALVES.tobytes(), PLANES_2)):
        assert len(codec.encode(planes, data)) < 0.97 * len(codec.encode(ZSTD, data))
        assert Chooser(2, "small").choose(memoryview(data)) in (PLANES_2, PLANES_4)


def slow_store(chooser: Chooser) -> Chooser:
    for _ in range(20):
        chooser.wrote(1 << 20, 1.0)
    return chooser


def fast_store(chooser: Chooser) -> Chooser:
    for _ in range(20):
        chooser.wrote(100 << 30, 1.0)
    return chooser


def test_a_slow_store_gets_the_smallest() -> None:
    chooser = slow_store(Chooser(2))
    assert chooser.choose(memoryview(HALVES.tobytes())) in (PLANES_2, PLANES_4)
    assert chooser.choose(memoryview(TEXT)) == ZSTD
    assert chooser.choose(memoryview(os.urandom(1 << 18))) == RAW


def test_a_fast_store_gets_bytes_as_they_are() -> None:
    chooser = fast_store(Chooser(2))
    assert chooser.choose(memoryview(HALVES.tobytes())) == RAW


def test_many_threads_compress_for_a_store_that_one_could_not_feed() -> None:
    """1 GB/s of store: one thread would be slower with zstd than without, 64 are not."""
    chosen = []
    for threads in (1, 64):
        chooser = Chooser(threads)
        for _ in range(20):
            chooser.wrote(1 << 30, 1.0)
        chosen.append(chooser.choose(memoryview(HALVES.tobytes())))
    assert chosen[0] == RAW
    assert chosen[1] in (PLANES_2, PLANES_4)


def test_what_does_not_get_smaller_stays_as_it_is() -> None:
    chooser = Chooser(2, "small")
    noise = memoryview(os.urandom(5000))
    assert chooser.encode(ZSTD, noise) == (RAW, noise)
    assert chooser.encode(PLANES_4, memoryview(TEXT[:4095]))[0] == ZSTD


def test_neighbours_notice_that_the_data_have_changed() -> None:
    neighbours = Neighbours(slow_store(Chooser(2)))
    used = [neighbours.encode(memoryview(data))[0] for data in [TEXT] * 3 + [os.urandom(1 << 18)] * 3 + [TEXT] * 9]
    assert used[:3] == [ZSTD] * 3
    assert used[3:6] == [RAW] * 3
    assert used[-1] == ZSTD
