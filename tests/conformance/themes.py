"""All cases, by theme."""

from __future__ import annotations

from functools import cache

from tests.conformance import kernel_cases, probe_cases
from tests.conformance.api import programs
from tests.conformance.case import Case
from tests.conformance.random_programs import batches


@cache
def all_cases() -> tuple[Case, ...]:
    return (*kernel_cases.cases(), *programs.cases(), *probe_cases.cases(), *batches.cases())


def names() -> list[str]:
    """In a fixed order."""
    return list(dict.fromkeys(case.theme for case in all_cases()))


def of_theme(theme: str) -> list[Case]:
    return [case for case in all_cases() if case.theme == theme]
