"""Programs as trees: each can be written as CUDA C++ and evaluated with numpy, for 64 threads at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tests.conformance.random_programs import operations as op
from tests.conformance.random_programs.operations import DTYPES, Array

THREADS = 64


class Expression(Protocol):
    """`kind` is its type. `value` is what each thread gets from the variables."""

    kind: str

    def cpp(self) -> str: ...
    def value(self, variables: dict[str, Array]) -> Array: ...


@dataclass
class Constant:
    kind: str
    bits: int

    def cpp(self) -> str:
        return f"made<{self.kind}>(0x{self.bits:X}ull)"

    def value(self, variables: dict[str, Array]) -> Array:  # noqa: ARG002
        return op.made(self.kind, np.full(THREADS, self.bits, np.uint64))


@dataclass
class Variable:
    kind: str
    name: str

    def cpp(self) -> str:
        return self.name

    def value(self, variables: dict[str, Array]) -> Array:
        return variables[self.name]


@dataclass
class Unary:
    kind: str
    name: str
    a: Expression

    def cpp(self) -> str:
        return f"{self.name}({self.a.cpp()})"

    def value(self, variables: dict[str, Array]) -> Array:
        return op.UNARY[self.name][1](self.a.value(variables))


@dataclass
class Binary:
    kind: str
    name: str
    a: Expression
    b: Expression

    def cpp(self) -> str:
        return f"{self.name}({self.a.cpp()}, {self.b.cpp()})"

    def value(self, variables: dict[str, Array]) -> Array:
        function = op.COMPARE[self.name] if self.name in op.COMPARE else op.BINARY[self.name][1]
        return function(self.a.value(variables), self.b.value(variables))


@dataclass
class Choice:
    kind: str
    condition: Expression
    a: Expression
    b: Expression

    def cpp(self) -> str:
        return f"pick({self.condition.cpp()}, {self.a.cpp()}, {self.b.cpp()})"

    def value(self, variables: dict[str, Array]) -> Array:
        return op.pick(self.condition.value(variables), self.a.value(variables), self.b.value(variables))


@dataclass
class Cast:
    kind: str
    a: Expression

    def cpp(self) -> str:
        return f"cast<{self.kind}>({self.a.cpp()})"

    def value(self, variables: dict[str, Array]) -> Array:
        return op.cast(self.kind, self.a.value(variables))


class Statement(Protocol):
    """`run` changes the variables of the threads in `mask`."""

    def cpp(self) -> str: ...
    def run(self, variables: dict[str, Array], mask: Array) -> None: ...


@dataclass
class Assign:
    name: str
    a: Expression

    def cpp(self) -> str:
        return f"{self.name} = {self.a.cpp()};"

    def run(self, variables: dict[str, Array], mask: Array) -> None:
        variables[self.name] = np.where(mask, self.a.value(variables), variables[self.name])


@dataclass
class Exchange:
    """Every thread takes the value of another one; only where all threads are."""

    name: str
    how: str
    by: int

    def cpp(self) -> str:
        room = ", room" if self.how == "around" else ""
        return f"{self.name} = {self.how}({self.name}, {self.by}{room});"

    def run(self, variables: dict[str, Array], mask: Array) -> None:
        assert mask.all()
        function = op.around if self.how == "around" else op.across
        variables[self.name] = function(variables[self.name], self.by)


@dataclass
class If:
    condition: Expression
    then: list[Statement]
    otherwise: list[Statement]

    def cpp(self) -> str:
        return f"if ({self.condition.cpp()}) {{ {block(self.then)} }} else {{ {block(self.otherwise)} }}"

    def run(self, variables: dict[str, Array], mask: Array) -> None:
        chosen = self.condition.value(variables) != 0
        for part, where in ((self.then, mask & chosen), (self.otherwise, mask & ~chosen)):
            for statement in part:
                statement.run(variables, where)


@dataclass
class Loop:
    """`times & 7` rounds, counted by a variable of its own, left early when `stop` holds after a round."""

    counter: str
    times: Expression
    stop: Expression | None
    body: list[Statement]

    def cpp(self) -> str:
        leave = f" if ({self.stop.cpp()}) break;" if self.stop else ""
        k = self.counter
        head = f"for (u32 {k} = 0, n{k} = {self.times.cpp()} & 7; {k} < n{k}; ++{k})"
        return f"{head} {{ {block(self.body)}{leave} }}"

    def run(self, variables: dict[str, Array], mask: Array) -> None:
        times = self.times.value(variables) & np.uint32(7)
        variables[self.counter] = np.zeros(THREADS, np.uint32)
        while (mask := mask & (variables[self.counter] < times)).any():
            for statement in self.body:
                statement.run(variables, mask)
            if self.stop:
                mask = mask & (self.stop.value(variables) == 0)
            variables[self.counter] = variables[self.counter] + np.uint32(1)
        del variables[self.counter]


def block(statements: list[Statement]) -> str:
    return " ".join(statement.cpp() for statement in statements)


@dataclass
class Program:
    """Variables start with words of the input; what is left of them at the end is hashed, thread by thread."""

    variables: dict[str, str]
    body: list[Statement] = field(default_factory=list)

    def cpp(self, name: str) -> str:
        lines = [f"{kind} {v} = made<{kind}>(a[{n * THREADS} + threadIdx.x]);"
                 for n, (v, kind) in enumerate(self.variables.items())]  # fmt: skip
        lines += [statement.cpp() for statement in self.body]
        lines += ["u64 h = threadIdx.x;", *(f"h = mixed(h, word({v}));" for v in self.variables), "o[threadIdx.x] = h;"]
        head = f"KERNEL {name}(u64* o, const u64* a) {{"
        return "\n  ".join([head, f"__shared__ u64 room[{THREADS}]; room[threadIdx.x] = 0;", *lines]) + "\n}\n"

    def evaluate(self, words: bytes) -> bytes:
        """What the kernel writes."""
        given = np.frombuffer(words, np.uint64).reshape(-1, THREADS)
        values = {v: op.made(kind, given[n]) for n, (v, kind) in enumerate(self.variables.items())}
        assert all(values[v].dtype == DTYPES[kind] for v, kind in self.variables.items())
        everyone = np.ones(THREADS, bool)
        with np.errstate(all="ignore"):
            for statement in self.body:
                statement.run(values, everyone)
            h = np.arange(THREADS, dtype=np.uint64)
            for v in self.variables:
                h = op.mixed(h, op.word(values[v]))
        return h.tobytes()
