"""Which of a job's records are the same memory: processes that share some each bring out a descriptor of it.

Device memory has no name that two processes would know, and all its descriptors are one file to `fstat`; but those that
lead to the same *open file* are the same memory, and the kernel orders open files (kcmp(2), KCMP_FILE).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cmp_to_key
from itertools import groupby

from torpor.errors import TorporError
from torpor.process import open_files


def groups(descriptors: Sequence[int]) -> list[list[int]]:
    """Positions of the descriptors, together where the open file is the same, each group in ascending order.

    TorporError where the kernel does not compare.
    """
    if len(descriptors) < 2:
        return [[position] for position in range(len(descriptors))]

    def compare(one: int, other: int) -> int:
        return _compare(descriptors[one], descriptors[other])

    key = cmp_to_key(compare)
    order = sorted(range(len(descriptors)), key=key)  # a stable sort keeps equal ones ascending
    return sorted(list(group) for _key, group in groupby(order, key=key))


def _compare(one: int, other: int) -> int:
    try:
        return open_files.order(os.getpid(), one, os.getpid(), other)
    except OSError as error:
        raise TorporError(
            f"which descriptors are the same memory is not known: {error}",
            hint="processes of the job share device memory; run the keeper where kcmp is allowed (CAP_SYS_PTRACE)",
        ) from error
