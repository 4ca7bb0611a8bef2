"""Runs test suites that lie in installed packages, and notes what became of each test.

    python installed_suite.py OUT SHARD SHARDS PACKAGE …

Of the packages' test cases (`unittest`), every SHARDS-th is run, from number SHARD on; a line of JSON in OUT for each
test: its name and its outcome. Whatever the tests print goes where it goes.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import unittest
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from _pytest.outcomes import Skipped


class Noted(unittest.TestResult):
    """Writes each outcome down at once, so that a process that dies has told all it knew."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        outcome = "passed"
        told: dict[str, list[Any]] = {
            "failed": self.failures,
            "error": self.errors,
            "skipped": self.skipped,
            "failed as expected": self.expectedFailures,
            "passed against expectation": [(each, "") for each in self.unexpectedSuccesses],
        }
        for kind, tests in told.items():
            for _, text in tests:
                outcome = kind
                print(test.id(), kind, text, file=sys.stderr)
            tests.clear()
        self.unexpectedSuccesses.clear()
        print(json.dumps([test.id(), outcome]), file=self._out, flush=True)


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """All test cases of a suite, whatever it is nested in."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from cases(one)
        else:
            yield one


def modules(package: str) -> Iterator[ModuleType]:
    """Those of a package whose name begins with `test_`; without those that say of themselves that they cannot run."""
    folder = importlib.import_module(package)
    for module in pkgutil.iter_modules(folder.__path__, f"{package}."):
        if module.name.rpartition(".")[2].startswith("test_"):
            with suppress(unittest.SkipTest, Skipped, ImportError):
                yield importlib.import_module(module.name)


def main() -> None:
    out, shard, shards, *packages = sys.argv[1:]
    loader = unittest.defaultTestLoader
    classes: dict[type, list[unittest.TestCase]] = {}
    found = (loader.loadTestsFromModule(module) for package in packages for module in modules(package))
    for case in cases(unittest.TestSuite(found)):
        classes.setdefault(type(case), []).append(case)
    mine = list(classes.values())[int(shard) :: int(shards)]
    with Path(out).open("w", encoding="utf-8") as file:
        unittest.TestSuite(unittest.TestSuite(each) for each in mine).run(Noted(file))


if __name__ == "__main__":
    main()
