"""Writes `native/interposer/generated/`: exported functions, gate wrappers, the driver's table, hook declarations."""

from __future__ import annotations

from collections.abc import Iterator

from api.doors import door_of
from api.effects import effect_of, settles
from api.hooks import DEFERRED
from api.load import answers, functions
from api.model import Door, Function
from api.questions import LOOKUPS, QUESTIONS, SETS, SETTERS, changes_of
from gen.names import PLACE_BITS, places
from gen.text import BANNER, declared, parameter_name, passed

HAND_WRITTEN = ("hook", "override")
ANSWERS = ("answer", "note")
SETTLE = "  if (const CUresult earlier = torpor::vm::settle(); earlier != CUDA_SUCCESS) [[unlikely]] return earlier;\n"
FLUSH = "  torpor::vm::flush();\n"
ENTRY_MARK = 0x10000
"""Tells the resolver of an exported function from that of a slot; `prim/resolve.h` has it too."""


def ours() -> Iterator[tuple[int, Function, Door]]:
    """The symbols that our library exports: index in the table, function, door."""
    index = 0
    for function in functions():
        door = door_of(function.name)
        if door.kind != "absent":
            yield index, function, door
            index += 1


def symbols_h() -> str:
    """`generated/symbols.h`: one enumerator per exported symbol, and the tables that `symbols.cpp` fills."""
    names = "".join(f"  {function.name},\n" for _, function, _ in ours())
    return (
        f'{BANNER}#pragma once\n\n#include <cstdint>\n\n#include "../../abi/cuda_driver.h"\n\nnamespace torpor {{\n\n'
        f"// Every entry point that the interposer exports, in strcmp order of its name.\n"
        f"enum class Symbol : std::uint16_t {{\n{names}  kCount,\n}};\n"
        "inline constexpr std::uint32_t kSymbols = static_cast<std::uint32_t>(Symbol::kCount);\n\n"
        "// Names by index.\nextern const char* const kSymbolNames[kSymbols];\n\n"
        "// Our body of each entry point; null where the real function is all there is.\n"
        "struct Body {\n  void* function;\n  bool answers;  // of use only where questions are answered\n};\n"
        "extern const Body kBodies[kSymbols];\n\n"
        "// What cuGetProcAddress picks from version `since` on; kCount where that stream mode has no entry point.\n"
        "struct Answer {\n  const char* base;\n  int since;\n  Symbol symbol;\n  Symbol per_thread;\n};\n"
        "// In strcmp order of the base, oldest version first.\n"
        "extern const Answer kAnswers[];\nextern const std::uint32_t kAnswerCount;\n\n"
        "// Where a name's first row is, from 1 on: see prim/names.cpp.\n"
        f"inline constexpr std::uint32_t kNamePlaceBits = {PLACE_BITS};\n"
        "extern const std::uint16_t kNamePlaces[1U << kNamePlaceBits];\n\n}  // namespace torpor\n"
    )


def symbols_cpp() -> str:
    """`generated/symbols.cpp`: the tables declared in `symbols.h`."""
    known = {function.name for _, function, _ in ours()}
    names = "".join(f'    "{function.name}",\n' for _, function, _ in ours())
    bodies = "".join(
        "    {nullptr, false},\n"
        if door.kind == "forward"
        else f"    {{reinterpret_cast<void*>(&torpor_body_{function.name}), {str(door.kind in ANSWERS).lower()}}},\n"
        for _, function, door in ours()
    )

    declarations = "".join(
        f"CUresult torpor_body_{function.name}({declared(function)});\n"
        for _, function, door in ours()
        if door.kind != "forward"
    )

    def enumerator(symbol: str) -> str:
        return f"Symbol::{symbol if symbol in known else 'kCount'}"

    rows = "".join(
        f'    {{"{base}", {row.since}, {enumerator(row.symbol)}, {enumerator(row.per_thread)}}},\n'
        for base, entries in sorted(answers().items())
        for row in entries
    )
    numbers = [str(number) for number in places()]
    place_rows = "".join(f"    {', '.join(numbers[at : at + 16])},\n" for at in range(0, len(numbers), 16))
    return (
        f'{BANNER}#include "symbols.h"\n\n#include <iterator>\n\nextern "C" {{\n{declarations}}}\n\n'
        "namespace torpor {\n\n"
        f"const char* const kSymbolNames[kSymbols] = {{\n{names}}};\n\n"
        f"const Body kBodies[kSymbols] = {{\n{bodies}}};\n\n"
        f"const Answer kAnswers[] = {{\n{rows}}};\nconst std::uint32_t kAnswerCount = std::size(kAnswers);\n\n"
        f"const std::uint16_t kNamePlaces[1U << kNamePlaceBits] = {{\n{place_rows}}};\n\n"
        "}  // namespace torpor\n"
    )


def entries_s() -> str:
    """`generated/entries.S`: the exported functions, the tables that they go by, and the stubs that count."""
    slots, entries, exported, counting, stubs, bodies = [], [], [], [], [], []
    for index, function, _ in ours():
        slots.append(f"    .quad .Lresolve_{index}\n")
        entries.append(f"    .quad .Lenter_{index}\n")
        exported.append(f"    .quad {function.name}\n")
        counting.append(f"    .quad .Lcount_{index}\n")
        stubs.append(f"    STUBS {index}\n")
        bodies.append(f"    ENTRY {function.name} {index}\n")
    tables = "".join(
        f"""
    .section {section}, "aw", @progbits
    .p2align 6
    .globl {name}
    .hidden {name}
    .type {name}, @object
{name}:
{"".join(rows)}    .size {name}, . - {name}
"""
        for name, section, rows in (
            ("torpor_real_slots", ".data.rel.torpor_slots", slots),
            ("torpor_entries", ".data.rel.torpor_entries", entries),
            ("torpor_targets", ".data.rel.torpor_targets", entries),
            ("torpor_exported", ".data.rel.ro.torpor_exported", exported),
            ("torpor_counting", ".data.rel.ro.torpor_counting", counting),
        )
    )
    return f"""{BANNER}
/*
 * An exported function is a jump to torpor_entries[i]: at first a resolver, which keeps every argument register and has
 * the real library opened; then torpor_targets[i], which is our body of the symbol or the real function; and while
 * calls are counted the stub torpor_counting[i], which adds one in the thread's own table and goes on to the target. So
 * argument lists, stack arguments and return values pass through untouched, whatever the signature.
 * torpor_real_slots[i] holds the real driver's address of symbol i, a resolver before.
 */
    .hidden torpor_resolve_entry
    .hidden torpor_first_count_entry
    .hidden torpor_counts

.macro STUBS index
.Lresolve_\\index:
    endbr64
    pushq $\\index
    .cfi_adjust_cfa_offset 8
    jmp torpor_resolve_entry
    .cfi_adjust_cfa_offset -8
.Lenter_\\index:
    endbr64
    pushq $(\\index + {ENTRY_MARK})
    .cfi_adjust_cfa_offset 8
    jmp torpor_resolve_entry
    .cfi_adjust_cfa_offset -8
.Lfirst_\\index:
    pushq $\\index
    .cfi_adjust_cfa_offset 8
    jmp torpor_first_count_entry
    .cfi_adjust_cfa_offset -8
    .p2align 4
.Lcount_\\index:
    endbr64
    movq torpor_counts@gottpoff(%rip), %r11
    movq %fs:(%r11), %r11
    testq %r11, %r11
    jz .Lfirst_\\index
    incq 8 * \\index(%r11)
    jmp *(torpor_targets + 8 * \\index)(%rip)
.endm

.macro ENTRY name index
    .p2align 4
    .globl \\name
    .type \\name, @function
\\name:
    .cfi_startproc
    endbr64
    jmp *(torpor_entries + 8 * \\index)(%rip)
    .cfi_endproc
    .size \\name, . - \\name
.endm
{tables}
    .text
    .type torpor_stubs, @function
torpor_stubs:
    .cfi_startproc
{"".join(stubs)}    .cfi_endproc
    .size torpor_stubs, . - torpor_stubs

{"".join(bodies)}
    .section .note.GNU-stack, "", @progbits
"""


def _settle(symbol: str) -> str:
    if symbol in DEFERRED or not settles(symbol):
        return ""
    return FLUSH if effect_of(symbol) == "destroys" else SETTLE


def _call(function: Function) -> str:
    return f"torpor::real::{function.name}({passed(function)})"


def wrappers_cpp() -> str:
    """`generated/wrappers.cpp`: our bodies of everything that is not a pure forward."""
    headers = (
        "../arena/pools.h",
        "../gate/gate.h",
        "../hooks/residual.h",
        "../vm/answers.h",
        "../vm/lookups.h",
        "../vm/loss.h",
        "../vm/policy.h",
        "../vm/settle.h",
        "hooks.h",
        "real.h",
    )
    includes = "".join(f'#include "{header}"\n' for header in headers)
    parts = [
        f"{BANNER}#include <type_traits>\n\n{includes}\n"
        "using torpor::gate::Scope;\nusing torpor::gate::Waiting;\nusing torpor::vm::noticed;\n"
        "using torpor::Symbol;\nusing torpor::vm::Group;\n\n"
        "namespace {\n\n// A number, enumerator or handle as a word.\ntemplate <typename Value>\n"
        "std::uint64_t word(Value value) {\n  if constexpr (std::is_pointer_v<Value>) {\n"
        "    return reinterpret_cast<std::uint64_t>(value);\n  } else {\n"
        "    return static_cast<std::uint64_t>(value);\n  }\n}\n\n}  // namespace\n\n"
        'extern "C" {\n'
    ]
    for _, function, door in ours():
        if door.kind == "forward":
            continue
        if door.kind == "answer":
            body = _answer(function)
        elif function.name in SETS:
            body = _set(function)
        elif function.name in LOOKUPS:
            body = _look_up(function)
        elif door.kind == "refuse":
            body = f"  return {door.status};"
        else:
            body = _wrapped(function, door)
        params = declared(function) if door.kind != "refuse" else _unnamed(function)
        if _may_be_left_out(function, door):
            parts.append(_change(function))
        head = f"CUresult torpor_body_{function.name}({params})"
        parts.append(f"\n// {door.kind}: {door.reason}\n{head} {{\n{body}\n}}\n")
    parts.append('\n}  // extern "C"\n')
    return "".join(parts)


def _changes(function: Function) -> str:
    """The notes that a call of the function changes answers, as a statement; empty where it changes none."""
    groups = ", ".join(f"Group::{group}" for group in changes_of(function.name))
    return f"  torpor::vm::changed<{groups}>();\n" if groups else ""


def _may_be_left_out(function: Function, door: Door) -> bool:
    """Whether the body decides if there is a call that changes answers at all."""
    return function.name in DEFERRED and door.gated and bool(changes_of(function.name))


def _change(function: Function) -> str:
    changed = _changes(function)
    return (
        f"\nCUresult torpor_change_{function.name}({declared(function)}) {{\n"
        f"{changed}  const CUresult result = {_call(function)};\n{changed}  return result;\n}}\n"
    )


def _wrapped(function: Function, door: Door) -> str:
    """The body of a wrapper that makes the call: ours where there is one, else the driver's."""
    waits = effect_of(function.name) == "waits"
    presence = "Waiting waiting" if waits else "Scope inside"
    inside = door.gated or door.kind in ("gate", "wait")
    lines = [f'  const {presence}("{function.name}");\n'] if inside else []
    left_out = _may_be_left_out(function, door)
    real = f"noticed(torpor_change_{function.name}({passed(function)}))" if left_out else f"noticed({_call(function)})"
    call = f"noticed(torpor_hook_{function.name}({passed(function)}))" if door.kind in HAND_WRITTEN else real
    lines.append(_settle(function.name))
    if function.name in DEFERRED and door.gated:  # the common case without a detour
        if function.name in SETTERS:
            words = ", ".join(f"word({parameter_name(param)})" for param in function.params or ())
            groups = ", ".join(f"Group::{group}" for group in SETTERS[function.name])
            real = (
                f"torpor::vm::set_unless_last_set<\n            Symbol::{function.name}, {groups}>(\n"
                f"            torpor::vm::asked_with({words}), [&] {{ return {real}; }})"
            )
        call = f"torpor::vm::is_off() ? {real}\n      : {call}"
    if door.kind == "wait":
        return _then_after_wait(lines, call)
    changed = "" if left_out else _changes(function)
    if not changed:
        return "".join(lines) + f"  return {call};"
    return "".join(lines) + f"{changed}  const CUresult result = {call};\n{changed}  return result;"


def _then_after_wait(lines: list[str], call: str) -> str:
    """A wait for the GPU; what may be done after it is done outside of it."""
    inside = "".join("  " + line for line in lines)
    after = "  torpor::arena::pools::after_wait();\n  return result;"
    return f"  CUresult result;\n  {{\n{inside}    result = {call};\n  }}\n{after}"


def _answer(function: Function) -> str:
    """The body of a question: what it is asked with, and where its results go."""
    params = function.params or ()
    results = [parameter_name(param) for param in params if "*" in param]
    asked = [parameter_name(param) for param in params if "*" not in param]
    words = ", ".join(f"word({name})" for name in asked)
    groups = ", ".join(f"Group::{group}" for group in QUESTIONS[function.name])
    told = "".join(f", {name}" for name in results)
    unknown = ""
    if "capture" in QUESTIONS[function.name]:  # a stream joins a capture by calls that change nothing otherwise
        unknown = f"  if (torpor::captures_unclear()) [[unlikely]] return {_call(function)};\n"
    return (
        f"{unknown}  return torpor::vm::answer<Symbol::{function.name}, {groups}>(\n"
        f"      torpor::vm::asked_with({words}), [&] {{ return {_call(function)}; }}{told});"
    )


def _look_up(function: Function) -> str:
    """The body of a question by name: name, version and flags, and where the answer goes."""
    groups = ", ".join(f"Group::{group}" for group in LOOKUPS[function.name])
    name, address, version, flags, *status = [parameter_name(param) for param in function.params or ()]
    told = ", ".join([address, *status])
    real = f"[&] {{ return noticed(torpor_hook_{function.name}({passed(function)})); }}"
    return (
        f"  return torpor::vm::answer_look_up<Symbol::{function.name}, {groups}>(\n"
        f"      {name}, {version}, {flags}, {real}, {told});"
    )


def _set(function: Function) -> str:
    """The body of a call that sets what a question asks for."""
    question = SETS[function.name]
    groups = ", ".join(f"Group::{group}" for group in QUESTIONS[question])
    (value,) = [parameter_name(param) for param in function.params or ()]
    return (
        f"  return torpor::vm::set_unless_set<Symbol::{question}, {groups}>(\n"
        f"      word({value}), [&] {{ return noticed({_call(function)}); }});"
    )


def _unnamed(function: Function) -> str:
    return ", ".join(f"[[maybe_unused]] {param}" for param in function.params or ())


def real_h() -> str:
    """`generated/real.h`: the real driver as typed inline functions."""
    parts = [
        f'{BANNER}#pragma once\n\n#include "symbols.h"\n\n'
        "// Resolved addresses; see entries.S.\n"
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
    for _, function, _ in ours():
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
        for _, function, door in ours()
        if door.kind in HAND_WRITTEN
    )
    changes = "".join(
        f"CUresult torpor_change_{function.name}({declared(function)});\n"
        for _, function, door in ours()
        if _may_be_left_out(function, door)
    )
    return (
        f'{BANNER}#pragma once\n\n#include "../../abi/cuda_driver.h"\n\n'
        "// Bodies written by hand (api/hooks.py). A body calls the real driver through torpor::real, throws nothing.\n"
        f'extern "C" {{\n{lines}}}\n\n'
        "// The real driver, with the notes that answers change: for bodies that may leave such a call out.\n"
        f'extern "C" {{\n{changes}}}\n'
    )
