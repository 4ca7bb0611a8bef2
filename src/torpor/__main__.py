"""`torpor` and `python -m torpor`."""

from __future__ import annotations

import sys


def main() -> None:
    from torpor.cli import main as cli_main

    sys.exit(cli_main(sys.argv[1:]))


if __name__ == "__main__":
    main()
