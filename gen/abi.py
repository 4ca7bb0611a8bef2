"""Writes `native/abi/`: the driver's ABI as a header, and its entry points as an X-macro list."""

from __future__ import annotations

from collections.abc import Iterable

from api.load import answers, functions
from api.model import Alias, Enum, Group, Record
from api.seed.constants import CONSTANTS
from api.seed.enums import ENUMS
from api.seed.types import TYPES
from gen.text import BANNER, declared

_HEADER = """
/*
 * The ABI of the CUDA driver API: types, constants and one prototype per exported symbol. Usable from C and C++.
 *
 * Prototypes carry the name of the exported symbol (cuMemAlloc_v2), never the unversioned name of the vendor's
 * header; nothing is renamed by macros. Include this or the vendor's cuda.h, not both.
 */
#ifndef TORPOR_ABI_CUDA_DRIVER_H
#define TORPOR_ABI_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TORPOR_ALIGNAS alignas
extern "C" {
#else
#define TORPOR_ALIGNAS _Alignas
#endif

"""
_FOOTER = """
#ifdef __cplusplus
}
#endif

#endif
"""


def _members(members: Iterable[str | Group], indent: str) -> str:
    lines = []
    for member in members:
        if isinstance(member, Group):
            name = f" {member.name}" if member.name else ""
            lines.append(f"{indent}{member.kind} {{\n{_members(member.members, indent + '    ')}{indent}}}{name};\n")
        else:
            lines.append(f"{indent}{member.replace('_Alignas', 'TORPOR_ALIGNAS')};\n")
    return "".join(lines)


def _enum(item: Enum) -> str:
    values = ",\n".join(f"    {name} = {value}" for name, value in item.values)
    tag = f" {item.tag}" if item.tag else ""
    if not item.name:
        return f"enum{tag} {{\n{values}\n}};\n\n"
    return f"typedef enum{tag} {{\n{values}\n}} {item.name};\n\n"


def _type(item: Alias | Record) -> str:
    if isinstance(item, Alias):
        return f"typedef {item.text};\n"
    tag = f" {item.tag}" if item.tag else ""
    body = f"{item.kind}{tag} {{\n{_members(item.members, '    ')}}}"
    return f"typedef {body} {item.name};\n" if item.name else f"{body};\n"


def _sizes() -> str:
    lines = []
    for item in TYPES:
        if isinstance(item, Record):
            name = item.name or f"{item.kind} {item.tag}"
            lines.append(f'static_assert(sizeof({name}) == {item.size}, "{name} has another size in the driver");\n')
    return "#if defined(__cplusplus) && defined(__x86_64__)\n" + "".join(lines) + "#endif\n\n"


def cuda_driver_h() -> str:
    """`native/abi/cuda_driver.h`."""
    parts = [BANNER, _HEADER]
    parts += [f"#define {name} {value}\n" for name, value in CONSTANTS]
    parts.append("\n")
    parts += [_enum(item) for item in ENUMS]
    parts += [_type(item) for item in TYPES]
    parts.append("\n")
    parts += [
        f"CUresult {function.name}({declared(function, 'void')});\n"
        for function in functions()
        if function.params is not None
    ]
    parts += ["\n", _sizes(), _FOOTER]
    return "".join(parts)


def symbols_inc() -> str:
    """`native/abi/symbols.inc`: what cuGetProcAddress answers, and the plain list of exported functions."""
    lines = [
        BANNER,
        "/*\n"
        ' * TORPOR_ANSWER(base, since, symbol, per_thread): cuGetProcAddress("base", v) with v >= since picks\n'
        " * `symbol`, and `per_thread` with the per-thread-stream flag; rows of one base stand oldest first, bases in\n"
        " * strcmp order.\n"
        " * `TORPOR_NONE` stands where that stream mode has no entry point at that version.\n"
        " *\n"
        " * TORPOR_EXPORT(symbol): every exported function whose signature is in cuda_driver.h, in strcmp order.\n"
        " * TORPOR_EXPORT_UNTYPED(symbol): exported functions and data without a public signature.\n"
        " */\n",
        "#ifdef TORPOR_ANSWER\n",
    ]
    for base, rows in sorted(answers().items()):
        for row in rows:
            symbol, own = row.symbol or "TORPOR_NONE", row.per_thread or "TORPOR_NONE"
            lines.append(f"TORPOR_ANSWER({base}, {row.since}, {symbol}, {own})\n")
    lines.append("#endif\n#ifdef TORPOR_EXPORT\n")
    lines += [f"TORPOR_EXPORT({function.name})\n" for function in functions() if function.params is not None]
    lines.append("#endif\n#ifdef TORPOR_EXPORT_UNTYPED\n")
    lines += [f"TORPOR_EXPORT_UNTYPED({function.name})\n" for function in functions() if function.params is None]
    lines.append("#endif\n")
    return "".join(lines)
