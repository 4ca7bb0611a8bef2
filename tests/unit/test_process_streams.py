"""A job's output on its way to its log."""

from __future__ import annotations

import fcntl
import os

from torpor.process.loop import Loop
from torpor.process.streams import Streams


def test_a_log_that_could_not_be_written_says_how_much_is_missing() -> None:
    inside, log = os.pipe2(os.O_NONBLOCK)  # takes a page and no more, as a full disk would
    room = fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 4096)
    streams = Streams(Loop(), log, "null", False)
    job = os.dup(streams.job_ends["stdout"])

    def say(text: bytes) -> None:
        os.write(job, text)
        streams.drain()

    say(b"a" * (room + 100))
    say(b"b" * 20)
    assert os.read(inside, 2 * room) == b"a" * room
    say(b"c")
    assert os.read(inside, room) == b"\ntorpor: 120 bytes of output are missing here, the log could not be written\nc"
    say(b"d")
    assert os.read(inside, room) == b"d"
