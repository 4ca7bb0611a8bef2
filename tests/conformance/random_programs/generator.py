"""Draws random programs. Whoever draws decides: a seed, or hypothesis."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.conformance import values
from tests.conformance.random_programs import operations as op
from tests.conformance.random_programs import trees as t

Pick = Callable[[int], int]
"""A number below the given one."""
DEPTH = 4
VARIABLES = {"i0": "s32", "i1": "s32", "u0": "u32", "u1": "u32", "l0": "s64", "m0": "u64", "m1": "u64", "f0": "f32",
             "f1": "f32", "d0": "f64", "d1": "f64", "h0": "f16"}  # fmt: skip


class Generator:
    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.counters: list[str] = []
        self.loops = 0

    def any_of(self, things: list[str] | tuple[str, ...]) -> str:
        return things[self.pick(len(things))]

    def constant(self, kind: str) -> t.Expression:
        edges = values.EDGES[kind]
        # The compiler makes an infinity of a signalling NaN when it narrows a constant.
        return t.Constant(kind, op.quiet(kind, edges[self.pick(len(edges))]))

    def leaf(self, kind: str) -> t.Expression:
        known = [name for name, of in VARIABLES.items() if of == kind]
        if kind == "u32":
            known += self.counters
        return self.constant(kind) if self.pick(4) == 0 else t.Variable(kind, self.any_of(known))

    def expression(self, kind: str, depth: int = DEPTH) -> t.Expression:
        if depth == 0:
            return self.leaf(kind)
        choice = self.pick(10)
        if choice < 5:
            name = self.any_of([name for name, (kinds, _) in op.BINARY.items() if kind in kinds])
            return t.Binary(kind, name, self.expression(kind, depth - 1), self.expression(kind, depth - 1))
        if choice == 5:
            name = self.any_of([name for name, (kinds, _) in op.UNARY.items() if kind in kinds])
            return t.Unary(kind, name, self.expression(kind, depth - 1))
        if choice == 6:
            return t.Choice(
                kind, self.condition(depth - 1), self.expression(kind, depth - 1), self.expression(kind, depth - 1)
            )
        if choice == 7:
            other = self.any_of([one for one in op.ALL if one != kind])
            return t.Cast(kind, self.expression(other, depth - 1))
        return self.leaf(kind)

    def condition(self, depth: int) -> t.Expression:
        kind = self.any_of(op.ALL)
        name = self.any_of(tuple(op.COMPARE))
        return t.Binary("u32", name, self.expression(kind, min(depth, 2)), self.expression(kind, min(depth, 2)))

    def statement(self, depth: int, together: bool) -> t.Statement:
        """`together`: all threads come here at the same time."""
        choice = self.pick(8)
        name = self.any_of(tuple(VARIABLES))
        if choice == 0 and together:
            how = self.any_of(("across", "around"))
            return t.Exchange(name, how, 1 + self.pick(31))
        if choice == 1 and depth:
            condition = self.condition(2)
            return t.If(condition, self.block(depth - 1, False), self.block(depth - 1, False))
        if choice == 2 and depth:
            times, counter = self.expression("u32", 1), f"k{self.loops}"
            self.loops += 1
            self.counters.append(counter)
            body = self.block(depth - 1, False)
            stop = self.condition(1) if self.pick(2) else None
            self.counters.pop()
            return t.Loop(counter, times, stop, body)
        return t.Assign(name, self.expression(VARIABLES[name]))

    def block(self, depth: int, together: bool) -> list[t.Statement]:
        return [self.statement(depth, together) for _ in range(1 + self.pick(3))]

    def program(self) -> t.Program:
        body = [self.statement(3, True) for _ in range(3 + self.pick(6))]
        return t.Program(dict(VARIABLES), body)


def of_seed(seed: int) -> t.Program:
    chance = random.Random(f"program {seed}")
    return Generator(chance.randrange).program()


def inputs(seed: object) -> bytes:
    """Words for all variables of all threads."""
    out = b""
    for name, kind in VARIABLES.items():
        data = values.draw(kind, t.THREADS, f"{seed} {name}")
        letter = values.LETTERS[values.SIZES[kind]]
        out += struct.pack(f"<{t.THREADS}Q", *(word for (word,) in struct.iter_unpack(f"<{letter}", data)))
    return out
