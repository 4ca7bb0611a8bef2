"""Control flow of the software GPU: divergence, barriers, exchange, calls, atomics, printf, faults."""

from __future__ import annotations

import pytest

from tests.native.ptx.bridge import Buffer, Rejected, Result
from tests.native.ptx.text import kernel, module


def outcome(
    body: str, threads: int = 32, before: str = "", inside: str = "", **shape: object
) -> tuple[Result, list[int]]:
    out = Buffer(bytes(8 * threads))
    result = module(body, before, inside).run("k", out, block=threads, **shape)  # type: ignore[arg-type]
    return result, [int(value) for value in out.read("Q")]


def values(body: str, threads: int = 32, before: str = "", inside: str = "") -> list[int]:
    result, out = outcome(body, threads, before, inside)
    assert result.fault == "none", result.message
    return out


def test_a_loop_with_a_trip_count_per_lane() -> None:
    body = """
      mov.u64 %d1, 0; mov.u32 %r1, 0;
    LOOP: setp.ge.u32 %p1, %r1, %t; @%p1 bra DONE;
      cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2; add.u32 %r1, %r1, 1; bra LOOP;
    DONE: st.global.u64 [%o], %d1;"""
    assert values(body, 100) == [n * (n - 1) // 2 for n in range(100)]


def test_lanes_meet_again_behind_a_branch() -> None:
    body = """
      and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;
      mov.u32 %r2, 10; bra JOIN;
    EVEN: mov.u32 %r2, 20;
    JOIN: activemask.b32 %r3; cvt.u64.u32 %d1, %r3; st.global.u64 [%o], %d1;"""
    assert values(body) == [0xFFFFFFFF] * 32


def test_a_vote_waits_for_lanes_that_come_later() -> None:
    body = """
      setp.lt.u32 %p1, %t, 7; mov.u32 %r1, 0; @!%p1 bra VOTE;
    SLOW: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 50; @%p2 bra SLOW;
    VOTE: vote.sync.ballot.b32 %r2, %p1, 0xffffffff; cvt.u64.u32 %d1, %r2; st.global.u64 [%o], %d1;"""
    assert values(body) == [127] * 32


@pytest.mark.parametrize(
    ("mode", "by", "bound", "source"),
    [
        ("up", 3, 0, lambda i: i - 3 if i >= 3 else i),
        ("down", 5, 31, lambda i: i + 5 if i + 5 < 32 else i),
        ("bfly", 6, 31, lambda i: i ^ 6),
        ("idx", 9, 31, lambda _: 9),
        ("idx", 2, (24 << 8) | 31, lambda i: (i & 24) | 2),  # segments of 8
    ],
)
def test_shuffles(mode: str, by: int, bound: int, source: object) -> None:
    body = f"""
      mul.lo.u32 %r1, %t, 3; shfl.sync.{mode}.b32 %r2|%p1, %r1, {by}, {bound}, 0xffffffff;
      cvt.u64.u32 %d1, %r2; st.global.u64 [%o], %d1;"""
    assert values(body) == [3 * source(i) for i in range(32)]  # type: ignore[operator]


def test_match_and_redux() -> None:
    body = """
      and.b32 %r1, %t, 3; match.any.sync.b32 %r2, %r1, 0xffffffff;
      redux.sync.add.u32 %r3, %t, 0xffffffff; add.u32 %r2, %r2, %r3;
      cvt.u64.u32 %d1, %r2; st.global.u64 [%o], %d1;"""
    assert values(body) == [(0x11111111 << (i & 3)) + 496 for i in range(32)]


def test_a_barrier_orders_shared_memory_across_warps() -> None:
    body = """
      shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1; st.shared.u32 [%r3], %t;
      bar.sync 0; sub.u32 %r4, 127, %t; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2; ld.shared.u32 %r5, [%r4];
      cvt.u64.u32 %d1, %r5; st.global.u64 [%o], %d1;"""
    assert values(body, 128, inside=".shared .align 4 .b8 tile[512];") == [127 - i for i in range(128)]


def test_a_barrier_counts_and_goes_on_without_ended_threads() -> None:
    body = """
      setp.ge.u32 %p1, %t, 90; @%p1 exit;
      setp.lt.u32 %p2, %t, 40; bar.red.popc.u32 %r1, 0, %p2; cvt.u64.u32 %d1, %r1; st.global.u64 [%o], %d1;"""
    assert values(body, 96) == [40] * 90 + [0] * 6


def test_lanes_of_a_warp_may_wait_for_each_other() -> None:
    """A spin lock that every thread of two blocks takes."""
    body = """
    TRY: atom.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;
      membar.gl; ld.volatile.global.u32 %r2, [%a0+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%a0+4], %r2;
      membar.gl; atom.global.exch.b32 %r3, [%a0], 0;"""
    out = Buffer(bytes(8))
    assert module(body).run("k", out, block=64, grid=2).fault == "none"
    assert out.read("I") == [0, 128]


FACTORIAL = """
.func (.param .b64 value) factorial (.param .b64 n)
{
  .reg .b64 %x<5>; .reg .pred %q;
  ld.param.u64 %x1, [n]; setp.gt.u64 %q, %x1, 1; @%q bra MORE;
  st.param.b64 [value], 1; ret;
MORE: sub.u64 %x2, %x1, 1;
  { .param .b64 arg; .param .b64 got; st.param.b64 [arg], %x2; call (got), factorial, (arg); ld.param.b64 %x3, [got]; }
  mul.lo.u64 %x4, %x3, %x1; st.param.b64 [value], %x4; ret;
}
"""


def test_recursion_of_different_depths() -> None:
    import math

    body = """
      and.b32 %r1, %t, 15; cvt.u64.u32 %d1, %r1;
      { .param .b64 arg; .param .b64 got; st.param.b64 [arg], %d1;
        call (got), factorial, (arg); ld.param.b64 %d2, [got]; }
      st.global.u64 [%o], %d2;"""
    assert values(body, 64, before=FACTORIAL) == [math.factorial(i & 15) for i in range(64)]


def test_endless_recursion_ends() -> None:
    before = ".func f () { call f, (); ret; }"
    result, _ = outcome("call f, ();", before=before)
    assert result.fault == "stack_error"


TWO = """
.func (.param .b64 v) one (.param .b64 n)
{ .reg .b64 %x; ld.param.u64 %x, [n]; add.u64 %x, %x, 100; st.param.b64 [v], %x; ret; }
.func (.param .b64 v) two (.param .b64 n)
{ .reg .b64 %x; ld.param.u64 %x, [n]; mul.lo.u64 %x, %x, 7; st.param.b64 [v], %x; ret; }
.global .align 8 .u64 table[2] = {one, two};
"""
INDIRECT = """
  and.b32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 8; mov.u64 %d2, table; add.u64 %d2, %d2, %d1; ld.global.u64 %d3, [%d2];
  cvt.u64.u32 %d4, %t;
  { .param .b64 arg; .param .b64 got; st.param.b64 [arg], %d4;
    P: .callprototype (.param .b64 _) _ (.param .b64 _);
    call (got), %d3, (arg), P; ld.param.b64 %d5, [got]; }
  st.global.u64 [%o], %d5;"""


def test_calls_through_a_table_of_functions() -> None:
    assert values(INDIRECT, before=TWO) == [7 * i if i & 1 else i + 100 for i in range(32)]


def test_a_call_of_no_function_is_a_fault() -> None:
    result, _ = outcome(INDIRECT.replace("ld.global.u64 %d3, [%d2]", "mov.u64 %d3, 4096"), before=TWO)
    assert result.fault == "invalid_pc"


def test_a_table_of_branches() -> None:
    body = """
      T: .branchtargets A, B, C;
      rem.u32 %r1, %t, 3; brx.idx %r1, T;
    A: mov.u64 %d1, 1; bra E;
    B: mov.u64 %d1, 20; bra E;
    C: mov.u64 %d1, 300;
    E: st.global.u64 [%o], %d1;"""
    assert values(body) == [(1, 20, 300)[i % 3] for i in range(32)]


def test_atomics_of_many_blocks_add_up() -> None:
    body = """
      atom.global.add.u64 %d1, [%a0], 1; cvt.u64.u32 %d2, %t; red.global.max.u64 [%a0+8], %d2;
      red.global.add.f64 [%a0+16], 0d3FE0000000000000; atom.global.inc.u32 %r1, [%a0+24], 6;"""
    out = Buffer(bytes(32))
    assert module(body).run("k", out, block=100, grid=7).fault == "none"
    assert out.read("Q")[:2] == [700, 699]
    assert out.read("d")[2] == 350.0
    assert out.read("I")[6] == 700 % 7


def test_a_cooperative_grid_waits_for_all_its_blocks() -> None:
    body = """
      bar.sync 0; setp.ne.u32 %p1, %t, %t; mov.u32 %r1, %tid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra IN;
      atom.global.add.u32 %r2, [%a0], 1;
    WAIT: ld.acquire.gpu.global.u32 %r3, [%a0]; setp.lt.u32 %p3, %r3, 20; @%p3 bra WAIT;
    IN: bar.sync 0;"""
    out = Buffer(bytes(8))
    assert module(body).run("k", out, block=64, grid=20, cooperative=True).fault == "none"
    assert out.read("I")[0] == 20


PRINTING = """
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 text[20] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 10};
.global .align 1 .b8 word[3] = {104, 105, 0};
"""


def test_printf() -> None:
    body = """
      setp.gt.u32 %p1, %t, 0; @%p1 ret;
      mov.u64 %d1, buffer; cvta.local.u64 %d2, %d1;
      st.local.u32 [buffer], -7; st.local.f64 [buffer+8], 0d400921FB54442D18;
      mov.u64 %d3, word; st.local.u64 [buffer+16], %d3;
      mov.u64 %d4, text;
      { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %d4; st.param.b64 [b], %d2;
        call.uni (r), vprintf, (a, b); ld.param.b32 %r1, [r]; }"""
    result, _ = outcome(body, before=PRINTING, inside=".local .align 8 .b8 buffer[24];")
    assert (result.fault, result.printed) == ("none", "-7 3.14 hi\n")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("st.global.u32 [%o+65536], %t;", "illegal_address"),
        ("ld.global.u32 %r1, [%o+2];", "misaligned_address"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%o];", "misaligned_address"),  # thread 1's address is 8 mod 16
        ("ld.shared.u32 %r1, [4096];", "illegal_address"),
        ("st.u32 [64], %t;", "illegal_address"),
        ("trap;", "trap"),
        ("setp.eq.u32 %p1, %t, 5; @%p1 trap;", "trap"),
    ],
)
def test_faults(body: str, fault: str) -> None:
    result, _ = outcome(body)
    assert result.fault == fault
    assert "line" in result.message


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("foo.u32 %r1, %r2;", "unknown instruction"),
        ("add.u32.new %r1, %r1, %r1;", "unknown part '.new'"),
        ("add.u32 %d1, %r1, %r1;", "another size"),
        ("add.u32 %r1, %r99, %r1;", "%r99"),
        ("bra NOWHERE;", "NOWHERE"),
        ("mov.u64 %d1, nothing;", "nothing"),
        ("add.f32 %f1, %f2, 3;", "floating-point"),
        ("setp.foo.u32 %p1, %r1, %r2;", "comparison"),
        ("ld.global.u32 %r1, %d1;", "brackets"),
        ("add.u32 %r1, %r1", "expected ';'"),
    ],
)
def test_what_is_not_known_is_rejected_with_its_line(body: str, why: str) -> None:
    line = kernel(body).splitlines().index(body) + 1
    with pytest.raises(Rejected, match="line") as caught:
        module(body)
    assert why in str(caught.value)
    assert f"line {line};" in str(caught.value) or body.endswith("%r1")


def test_a_newer_language_is_told_apart() -> None:
    with pytest.raises(Rejected, match="too new"):
        module_text = kernel("").replace(".version 8.0", ".version 19.0")
        from tests.native.ptx.bridge import Module

        Module(module_text)
