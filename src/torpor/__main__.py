"""`torpor` and `python -m torpor`."""

from __future__ import annotations

import io
import os
import signal
import sys


def main() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while nothing has begun: an end without a traceback
    _fill_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # a path is told as it is, though it be no UTF-8
    from torpor.cli import interrupt
    from torpor.cli import main as cli_main

    interrupt.end_soon()
    try:
        status = cli_main(sys.argv[1:])
        interrupt.settle(status)
    except KeyboardInterrupt:  # one more, while the first was seen to
        status = interrupt.INTERRUPTED
        interrupt.settle(status)
    sys.exit(status)


def _fill_streams() -> None:
    """Have /dev/null where a standard stream is closed: the next file or socket would take its number, and be written
    to as output, or be handed to a job as its input."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


if __name__ == "__main__":
    main()
