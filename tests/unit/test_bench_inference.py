"""The inference part, on the software GPU, and the schedule that its program keeps."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from torpor.bench import inference, models, sources, turns
from torpor.bench.settings import CONTROL, NATIVE, TORPOR, Settings
from torpor.errors import TorporError

TINY: dict[str, Any] = {"groups": 1, "rounds": 1, "batch": 0.001, "quick": True}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program as a module; its neighbours are found as they are when it is started by path."""
    monkeypatch.syspath_prepend(str(sources.path("serve.py").parent))
    return import_module("serve")


class Ledger:
    """A decoder that keeps account: whose page is whose, how far each request is, how many are at work at once."""

    def __init__(self, page: int) -> None:
        self.page, self.most = page, 0
        self.cached: dict[tuple[int, ...], int] = {}

    def prefill(self, tokens: list[int], table: list[int]) -> int:
        assert 0 not in table
        for other in list(self.cached):
            if set(other) & set(table):
                del self.cached[other]  # it must be over: `decode` would miss it
        self.cached[tuple(table)] = len(tokens)
        return 7

    def decode(self, tokens: list[int], places: list[int], tables: list[list[int]], graphs: bool) -> list[int]:
        assert not graphs
        used = [page for table in tables for page in table]
        assert len(used) == len(set(used))
        for place, table in zip(places, tables, strict=True):
            assert self.cached[tuple(table)] == place
            assert place < len(table) * self.page
            self.cached[tuple(table)] += 1
        self.most = max(self.most, len(tokens))
        return [token + 1 for token in tokens]


@pytest.mark.parametrize(("slots", "pages", "at_once"), [(4, 1000, 4), (100, 16, None), (1, 8, 1)])
def test_requests_wait_for_slots_and_pages_and_all_end(serve: Any, slots: int, pages: int, at_once: int | None) -> None:
    wanted = serve.requests(20, 40, 24, 1000, seed=3)
    assert wanted == serve.requests(20, 40, 24, 1000, seed=3)
    ledger = Ledger(8)
    serve.serve(ledger, wanted, slots, pages, graphs=False)
    assert all(len(request.tokens) == request.length for request in wanted)
    assert all(request.tokens[: len(request.prompt)] == list(request.prompt) for request in wanted)
    assert at_once is None or ledger.most == at_once
    assert ledger.most > 1 or slots == 1


def test_requests_and_tokens_in_both_modes(home: Path) -> None:
    del home
    found = {one.name: one for one in inference.run(Settings(backend="sim", **TINY))}
    assert list(found) == [
        f"toy, {mode}: {what}/s"
        for mode in ("kernel by kernel", "CUDA graphs")
        for what in ("output tokens", "requests", "total tokens")
    ]
    for one in found.values():
        assert set(one.sides) == {NATIVE, TORPOR, CONTROL}
        assert one.note == ""  # graphs give the same tokens
    [output, requests, total] = [found[f"toy, CUDA graphs: {what}/s"].sides[NATIVE].median
                                 for what in ("output tokens", "requests", "total tokens")]  # fmt: skip
    assert requests < output < total


def test_other_tokens_under_torpor_are_no_result(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del home

    class Differing(turns.Copy):
        def __init__(self, command: list[str], side: str, settings: Settings) -> None:
            super().__init__([*command, "--seed", "2"] if side == TORPOR else command, side, settings)

    monkeypatch.setattr(turns, "Copy", Differing)
    with pytest.raises(TorporError, match="answers differ"):
        list(inference.run(Settings(backend="sim", **TINY)))


def test_a_set_that_the_cache_cannot_hold_is_refused() -> None:
    settings = Settings(backend="sim", **TINY)
    command = models.command("serve.py", models.TOY_LLAMA["toy"], settings, "--longest-prompt", "100")
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "the longest prompt" in done.stderr
