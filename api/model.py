"""The shapes in which the driver API is described: types, functions, versions and what we do with each symbol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alias:
    """`typedef target name;`: a scalar, another type's name, an opaque handle or a function type.

    `text` is the C declaration without `typedef` and `;`, for example `struct CUctx_st *CUcontext`.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Enum:
    """A C enumeration; `values` are (enumerator, value as C text) in declaration order."""

    name: str
    tag: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A struct or union inside another one. `name` is empty for an anonymous member."""

    kind: str
    name: str
    members: tuple[str | Group, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A struct or union (`kind`). Members are C declarations; `size` is its size in bytes on x86-64."""

    name: str
    kind: str
    tag: str
    size: int
    members: tuple[str | Group, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """One exported function: `name` is the ELF symbol, `params` are C declarations in order.

    Every function of the driver returns `CUresult`. `params` is None where no public header gives the signature;
    such a symbol is forwarded by a jump, which needs none.
    """

    name: str
    params: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What `cuGetProcAddress(base, version >= since)` picks: `symbol`, or `per_thread` with the per-thread flag."""

    since: int
    symbol: str
    per_thread: str


@dataclass(frozen=True, slots=True)
class Door:
    """How a symbol leaves our library.

    `kind`: `forward` (a jump to the real function), `gate` (a generated wrapper that marks its thread as inside),
    `wait` (one that marks it as waiting for the GPU), `answer` (one that may know the answer already), `note` (one that
    notes that answers change; both are jumps in all but form, and passed over where nothing is answered),
    `hook` (our body observes, the real function always runs), `override` (our body decides), `refuse` (an error is
    returned, the real function never runs), `absent` (not exported by us). `gated` tells whether a hook or override
    runs inside the gate. `status` is the CUresult of a refusal. `reason` is one line of plain English.
    """

    kind: str
    reason: str
    gated: bool = False
    status: str = ""
