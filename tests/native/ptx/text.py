"""Short PTX texts for tests."""

from __future__ import annotations

from tests.native.ptx.bridge import Module


def kernel(body: str, before: str = "", inside: str = "") -> str:
    """A kernel `k` whose parameters p0 to p3 are in %a0 to %a3; %t is the thread, %o the address p0 + 8 · thread.

    Registers to use: %p (predicates), %h (16 bits), %r (32), %d (64), %f (f32), %g (f64).
    """
    return f""".version 8.0
.target sm_80
.address_size 64
{before}
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{{
  .reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .f32 %f<20>; .reg .f64 %g<20>;
  .reg .b64 %a<4>; .reg .b32 %t, %n; .reg .b64 %o, %w;
  {inside}
  ld.param.u64 %a0, [p0]; ld.param.u64 %a1, [p1]; ld.param.u64 %a2, [p2]; ld.param.u64 %a3, [p3];
  mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %r39, %ctaid.x; mad.lo.u32 %t, %n, %r39, %t;
  mul.wide.u32 %w, %t, 8; add.u64 %o, %a0, %w;
{body}
  ret;
}}
"""


def module(body: str, before: str = "", inside: str = "") -> Module:
    """That kernel, loaded."""
    return Module(kernel(body, before, inside))
