"""The PTX reader on texts that nobody wrote: damaged ones are rejected or run, never worse."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.ptx.bridge import Module, Rejected
from tests.native.ptx.text import kernel

WHOLE = kernel(
    """
      setp.lt.u32 %p1, %t, 7; @%p1 bra L;
      mov.b64 {%r1, %r2}, %d1; ld.global.v2.u32 {%r3, %r4}, [%o+8]; atom.global.add.u32 %r5, [%o], 1;
    L: shfl.sync.bfly.b32 %r6|%p2, %r5, 1, 31, -1; cvt.rn.f32.s32 %f1, %r6; fma.rn.ftz.f32 %f2, %f1, 0f3F800000, %f1;
      bar.sync 0; st.global.f32 [%o], %f2;""",
    before=".global .align 4 .u32 x[3] = {1, 2};",
    inside=".shared .align 4 .b8 tile[64];",
)
WORDS = (".", ",", ";", "{", "}", "[", "]", "@", "!", "|", ":", "0x", "-1", "4294967296", ".b128", ".v4", "%p1", "%d1",
         ".reg", ".param", "ret", "call", "(", ")", "<99999999>", "[4294967295]", "\0", '"', "/*", "//")  # fmt: skip


def read(text: str) -> None:
    why = ""
    try:
        Module(text)
    except Rejected as rejected:
        why = str(rejected)
    assert not why or "line" in why


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), st.sampled_from(WORDS)), min_size=1, max_size=4)
)
def test_damaged_texts_are_rejected_or_read(damage: list[tuple[int, int, str]]) -> None:
    text = WHOLE
    for place, length, word in damage:
        text = text[:place] + word + text[place + length :]
    read(text)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(WHOLE)))
def test_texts_that_end_early(length: int) -> None:
    read(WHOLE[:length])


@pytest.mark.parametrize("text", ["", "\0", "{" * 100_000, ".version 8.0", ".version 8.0 .target sm_80 " + "{" * 1000])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(Rejected):
        Module(text)


@pytest.mark.parametrize("opening", ["{", "(", "["])
def test_deep_nesting_is_refused(opening: str) -> None:
    with pytest.raises(Rejected):
        Module(kernel(f"mov.u32 %r1, {opening * 100_000};"))
    with pytest.raises(Rejected):
        Module(kernel("{" * 100_000))


def test_very_large_arrays_are_refused() -> None:
    for declaration in (
        ".local .b8 a[4294967295];",
        ".shared .b64 a[4294967295];",
        ".local .b64 a[99999][99999][99999];",
    ):
        with pytest.raises(Rejected):
            Module(kernel("", inside=declaration))
