"""Writes `native/interposer/generated/`: jumps, gate wrappers, the real driver's table, hook declarations."""

from __future__ import annotations

from collections.abc import Iterator

from api.doors import door_of
from api.load import answers, functions
from api.model import Door, Function
from gen.text import BANNER, declared, passed

HAND_WRITTEN = ("hook", "override")


def _ours() -> Iterator[tuple[int, Function, Door]]:
    """The symbols that our library exports: index in the table, function, door."""
    index = 0
    for function in functions():
        door = door_of(function.name)
        if door.kind != "absent":
            yield index, function, door
            index += 1


def symbols_h() -> str:
    """`generated/symbols.h`: one enumerator per exported symbol, and the tables that `symbols.cpp` fills."""
    names = "".join(f"  {function.name},\n" for _, function, _ in _ours())
    return (
        f'{BANNER}#pragma once\n\n#include <cstdint>\n\n#include "../../abi/cuda_driver.h"\n\nnamespace torpor {{\n\n'
        f"// Every entry point that the interposer exports, in strcmp order of its name.\n"
        f"enum class Symbol : std::uint16_t {{\n{names}  kCount,\n}};\n"
        "inline constexpr std::uint32_t kSymbols = static_cast<std::uint32_t>(Symbol::kCount);\n\n"
        "// Names by index.\nextern const char* const kSymbolNames[kSymbols];\n\n"
        "// Entry points with a body of ours; the others are handed out as the real driver's.\n"
        "struct Wrapped {\n  Symbol symbol;\n  void* entry;\n};\n"
        "extern const Wrapped kWrapped[];\nextern const std::uint32_t kWrappedCount;\n\n"
        "// What cuGetProcAddress picks from version `since` on; kCount where that stream mode has no entry point.\n"
        "struct Answer {\n  const char* base;\n  int since;\n  Symbol symbol;\n  Symbol per_thread;\n};\n"
        "// In strcmp order of the base, oldest version first.\n"
        "extern const Answer kAnswers[];\nextern const std::uint32_t kAnswerCount;\n\n}  // namespace torpor\n"
    )


def symbols_cpp() -> str:
    """`generated/symbols.cpp`: the tables declared in `symbols.h`."""
    ours = {function.name for _, function, _ in _ours()}
    names = "".join(f'    "{function.name}",\n' for _, function, _ in _ours())
    wrapped = "".join(
        f"    {{Symbol::{function.name}, reinterpret_cast<void*>(&::{function.name})}},\n"
        for _, function, door in _ours()
        if door.kind != "forward"
    )

    def enumerator(symbol: str) -> str:
        return f"Symbol::{symbol if symbol in ours else 'kCount'}"

    rows = "".join(
        f'    {{"{base}", {row.since}, {enumerator(row.symbol)}, {enumerator(row.per_thread)}}},\n'
        for base, entries in sorted(answers().items())
        for row in entries
    )
    return (
        f'{BANNER}#include "symbols.h"\n\n#include <iterator>\n\nnamespace torpor {{\n\n'
        f"const char* const kSymbolNames[kSymbols] = {{\n{names}}};\n\n"
        f"const Wrapped kWrapped[] = {{\n{wrapped}}};\nconst std::uint32_t kWrappedCount = std::size(kWrapped);\n\n"
        f"const Answer kAnswers[] = {{\n{rows}}};\nconst std::uint32_t kAnswerCount = std::size(kAnswers);\n\n"
        "}  // namespace torpor\n"
    )


def forward_s() -> str:
    """`generated/forward.S`: the table of real addresses, a resolver per slot, and the pure forwards."""
    slots, stubs, jumps = [], [], []
    for index, function, door in _ours():
        slots.append(f"    .quad .Lresolve_{index}\n")
        stubs.append(f"    STUB {index}\n")
        if door.kind == "forward":
            jumps.append(f"    FORWARD {function.name} {index}\n")
    return f"""{BANNER}
/*
 * torpor_real_slots[i] holds the real driver's address of symbol i. Until the first call it holds a resolver, which
 * keeps every argument register, has the real library opened, and goes on to the real function: argument lists,
 * stack arguments and return values pass through untouched, whatever the signature.
 */
    .hidden torpor_resolve_entry

.macro STUB index
.Lresolve_\\index:
    endbr64
    pushq $\\index
    .cfi_adjust_cfa_offset 8
    jmp torpor_resolve_entry
    .cfi_adjust_cfa_offset -8
.endm

.macro FORWARD name index
    .p2align 4
    .globl \\name
    .type \\name, @function
\\name:
    .cfi_startproc
    endbr64
    jmp *(torpor_real_slots + 8 * \\index)(%rip)
    .cfi_endproc
    .size \\name, . - \\name
.endm

    .section .data.rel.torpor_slots, "aw", @progbits
    .p2align 6
    .globl torpor_real_slots
    .hidden torpor_real_slots
    .type torpor_real_slots, @object
torpor_real_slots:
{"".join(slots)}    .size torpor_real_slots, . - torpor_real_slots

    .text
    .type torpor_resolvers, @function
torpor_resolvers:
    .cfi_startproc
{"".join(stubs)}    .cfi_endproc
    .size torpor_resolvers, . - torpor_resolvers

{"".join(jumps)}
    .section .note.GNU-stack, "", @progbits
"""


def _call(function: Function) -> str:
    return f"torpor::real::{function.name}({passed(function)})"


def wrappers_cpp() -> str:
    """`generated/wrappers.cpp`: exported bodies of everything that is not a pure forward."""
    parts = [
        f'{BANNER}#include "../gate/gate.h"\n#include "hooks.h"\n#include "real.h"\n\n'
        'using torpor::gate::Scope;\n\nextern "C" {\n\n#pragma GCC visibility push(default)\n'
    ]
    for _, function, door in _ours():
        if door.kind == "forward":
            continue
        scope = f'  const Scope inside("{function.name}");\n'
        if door.kind in HAND_WRITTEN:
            scope = scope if door.gated else ""
            body = f"{scope}  return torpor_hook_{function.name}({passed(function)});"
        elif door.kind == "refuse":
            body = f"  return {door.status};"
        else:
            body = f"{scope}  return {_call(function)};"
        params = declared(function) if door.kind != "refuse" else _unnamed(function)
        parts.append(f"\n// {door.kind}: {door.reason}\nCUresult {function.name}({params}) {{\n{body}\n}}\n")
    parts.append('\n#pragma GCC visibility pop\n\n}  // extern "C"\n')
    return "".join(parts)


def _unnamed(function: Function) -> str:
    return ", ".join(f"[[maybe_unused]] {param}" for param in function.params or ())


def real_h() -> str:
    """`generated/real.h`: the real driver as typed inline functions."""
    parts = [
        f'{BANNER}#pragma once\n\n#include "symbols.h"\n\n'
        "// Resolved addresses; see forward.S.\n"
        'extern "C" __attribute__((visibility("hidden"))) void* torpor_real_slots[];\n\n'
        "// The real driver, past the gate and past our own bodies. Each function may be called at any time from any\n"
        "// thread; the first call opens the real library. Without one, every call returns CUDA_ERROR_NO_DEVICE; a\n"
        "// symbol that the real library lacks returns CUDA_ERROR_NOT_SUPPORTED.\n"
        "namespace torpor::real {\n\n"
        "// Whether the real library is there and exports the symbol.\nbool has(Symbol symbol);\n\n"
        "// The address that calls go to at present.\n"
        "inline void* address(Symbol symbol) {\n"
        "  return __atomic_load_n(&torpor_real_slots[static_cast<std::uint32_t>(symbol)], __ATOMIC_RELAXED);\n}\n"
    ]
    for _, function, _ in _ours():
        if function.params is None:
            continue
        params = declared(function)
        call = f"(address(Symbol::{function.name}))({passed(function)})"
        parts.append(
            f"\ninline CUresult {function.name}({params}) {{\n"
            f"  return reinterpret_cast<CUresult (*)({params})>{call};\n}}\n"
        )
    parts.append("\n}  // namespace torpor::real\n")
    return "".join(parts)


def hooks_h() -> str:
    """`generated/hooks.h`: declarations of the hand-written bodies."""
    lines = "".join(
        f"CUresult torpor_hook_{function.name}({declared(function)});\n"
        for _, function, door in _ours()
        if door.kind in HAND_WRITTEN
    )
    return (
        f'{BANNER}#pragma once\n\n#include "../../abi/cuda_driver.h"\n\n'
        "// Bodies written by hand (api/hooks.py). A body calls the real driver through torpor::real, throws nothing.\n"
        f'extern "C" {{\n{lines}}}\n'
    )
