"""Ctrl-C while a store's server does not answer: the command ends soon, however long that may take.

A KeyboardInterrupt undoes what is under way, and threads that wait for an answer are waited for, which takes minutes
where none comes. What a command leaves then is what one leaves that is killed: parts and packs that no image needs, and
a lock whose holder is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

from torpor.cli import output

LEAVE_SECONDS = 1.5

_NUDGE_SECONDS = 0.1

INTERRUPTED = 130


def end_soon() -> None:
    """From now on in this process; not where SIGINT is ignored, as in a shell's background."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        _nudge()
        signal.signal(signal.SIGINT, _interrupted)  # last: from here on one is raised


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
    if _waits_for_server():
        timer = threading.Timer(LEAVE_SECONDS, _leave)
        timer.daemon = True
        timer.start()
    signal.default_int_handler(number, frame)


def _waits_for_server() -> bool:
    # Whoever has opened none, as most verbs, need not load what would tell.
    location, client = sys.modules.get("torpor.store.location"), sys.modules.get("torpor.keeper.client")
    return location is not None and location.reaches_out() and not (client is not None and client.is_talking())


def _leave() -> None:
    output.note("the store does not answer; what it was asked for last may still be done")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
