"""Which door each exported symbol takes, and why: by hand where `api/hooks.py` has a line, else by its effect."""

from __future__ import annotations

from functools import cache

from api.effects import MEANING, effect_of
from api.families import family_of
from api.hooks import HOOKS
from api.load import functions
from api.model import Door
from api.questions import GROUPS, QUESTIONS, changes_of

GATED_EFFECTS = ("asks", "steers", "captures", "submits", "maps", "creates", "destroys")

# cuda-gdb looks these up in the real library's symbol table and reads them from outside the process; a second
# definition in front of the real one would mislead it. A program can call only the two listed below.
DEBUGGER_FORWARDED = ("cudbgGetAPI", "cudbgGetAPIVersion")
_DEBUGGER = "part of the debugger's back end: read from outside in the real library, never called by a program"
_UNTYPED = "no public signature: forwarded by a jump, which needs none"


@cache
def door_of(symbol: str) -> Door:
    """The door of one exported symbol."""
    if symbol in HOOKS:
        return HOOKS[symbol]
    if family_of(symbol) == "debugger" and symbol not in DEBUGGER_FORWARDED:
        return Door("absent", _DEBUGGER)
    signatures = {function.name: function.params for function in functions()}
    if signatures[symbol] is None:
        return Door("forward", _UNTYPED)
    effect = effect_of(symbol)
    if effect == "waits":
        return Door("wait", MEANING[effect])
    if effect in GATED_EFFECTS:
        return Door("gate", MEANING[effect])
    if symbol in QUESTIONS:
        return Door("answer", f"depends on nothing but {', '.join(GROUPS[group] for group in QUESTIONS[symbol])}")
    if changed := changes_of(symbol):
        return Door("note", f"changes {', '.join(GROUPS[group] for group in changed)}")
    return Door("forward", MEANING[effect])
