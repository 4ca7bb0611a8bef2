"""`python -m torpor.keeper --backend gpu|sim`: the daemon itself. Clients start it by need."""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import sys

from torpor import paths
from torpor.keeper import fault
from torpor.keeper.server import Server
from torpor.keeper.watch import Watch
from torpor.process import limits


def main() -> int:
    """Serve until a client says stop. Returns 0 also when another keeper has the lock: then that one serves."""
    parser = argparse.ArgumentParser(prog="torpor.keeper")
    parser.add_argument("--backend", choices=("gpu", "sim"), required=True)
    backend = parser.parse_args().backend
    logging.basicConfig(
        level=os.environ.get("TORPOR_LOG", "INFO").upper(),
        format="%(asctime)s %(levelname)s %(threadName)s %(message)s",
        stream=sys.stderr,
    )
    limits.shed()  # not least of descriptors: one per block of a job, and one per segment
    paths.make_private(paths.home())
    paths.make_private(paths.keeper_dir())
    lock = os.open(paths.keeper_dir() / f"{backend}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    fault.arm()
    watch = Watch()
    watch.start(backend)
    try:
        Server(backend).serve()
    finally:
        watch.dismiss()
    return 0


if __name__ == "__main__":
    sys.exit(main())
