"""Ctrl-C and SIGTERM at the command line: a KeyboardInterrupt, whatever the command waits for.

While a store's server does not answer, the command ends soon, however long that may take. A KeyboardInterrupt undoes
what is under way, and threads that wait for an answer are waited for, which takes minutes where none comes. What a
command leaves then is what one leaves that is killed: parts and packs that no image needs, and a lock whose holder is
gone.

When a keeper has ended a verb, none is raised any more (`hold`): it would end the command before that has told what is
so by now, and whoever pressed Ctrl-C would take the verb for undone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from types import FrameType

from torpor.cli import output

LEAVE_SECONDS = 1.5

_NUDGE_SECONDS = 0.1

INTERRUPTED = 130

_ours: list[signal.Signals] = []
_held = False
_over = False
_last: int | None = None
_leaving: list[threading.Timer] = []


def end_soon() -> None:
    """From now on in this process; not by a signal that is ignored, as SIGINT is in a shell's background."""
    usual = (signal.default_int_handler, signal.SIG_DFL)
    _ours[:] = [number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) in usual]
    if _ours:
        _nudge()
        for number in _ours:  # last: from here on one is raised
            signal.signal(number, _interrupted)


def hold() -> None:
    """From now on none is raised: the command is about to say what has been done. Until `heed`."""
    global _held
    _held = True


def heed() -> int | None:
    """From now on one is raised again. Returns the last signal that came by now, if one did."""
    global _held
    _held = False
    for timer in _leaving:
        timer.cancel()
    return _last


def leave() -> None:
    """The verb has ended: from now on one ends the process without a traceback or, while held, does nothing."""
    global _over
    _over = True  # first: what has come by now is handed on as a handler is set
    for number in _ours:
        signal.signal(number, signal.SIG_IGN if _held else signal.SIG_DFL)


def settle(status: int) -> None:
    """Before the process ends with this exit code: what was told stands; and SIGTERM that ended it is seen as such."""
    leave()
    if not _held and status == INTERRUPTED and _last == signal.SIGTERM:
        os.kill(os.getpid(), signal.SIGTERM)


def _nudge() -> None:
    """Have no signal wait for the end of what the main thread waits for.

    Python looks for signals before it begins to wait, and the kernel interrupts a wait that has begun; for one that
    comes in between, the wait is interrupted once more by a signal that means nothing.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGURG, lambda _number, _frame: None)
    main = threading.get_ident()

    def watch() -> None:
        while True:
            if any(number != signal.SIGURG for number in os.read(reader, 4096)):
                time.sleep(_NUDGE_SECONDS)
                signal.pthread_kill(main, signal.SIGURG)

    threading.Thread(target=watch, name="nudge", daemon=True).start()


def _interrupted(number: int, frame: FrameType | None) -> None:
    global _last
    _last = number
    if _waits_for_server():
        timer = threading.Timer(LEAVE_SECONDS, partial(_leave, number))
        timer.daemon = True
        timer.start()
        _leaving.append(timer)
    if not (_held or _over):
        signal.default_int_handler(number, frame)


def _waits_for_server() -> bool:
    # Whoever has opened none, as most verbs, need not load what would tell; nor has who is just about to.
    reaches_out = getattr(sys.modules.get("torpor.store.location"), "reaches_out", None)
    is_talking = getattr(sys.modules.get("torpor.keeper.client"), "is_talking", None)
    return reaches_out is not None and reaches_out() and not (is_talking is not None and is_talking())


def _leave(number: int) -> None:
    what = "the verb is done" if _held else "what it was asked for last may still be done"
    output.note(f"the store does not answer; {what}")
    sys.stderr.flush()
    os._exit(128 + number)
