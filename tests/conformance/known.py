"""Where the software GPU is known to differ from the recordings, and why."""

from __future__ import annotations

_TWO = "both operands are no numbers; the driver's compiler has exchanged them, and the last one comes through"
_NARROW = "the driver's compiler negates in 32 bits, as if -(-32768) could not be"


DIFFERENT: dict[str, dict[str, str]] = {
    "float64/neighbours": {"column 2:": _TWO},
    "nans/f64_kept": {"column 1:": _TWO},
    "integer/narrow16": {"column 5:": _NARROW},
}
"""`theme/case` → beginning of the difference as it is told → why."""

WAITING: dict[str, str] = {}
"""`theme/case` that has to be recorded before it can be compared; until then it must only run."""
