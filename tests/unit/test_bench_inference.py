"""The inference part, on the software GPU, and the schedule that its program keeps."""

from __future__ import annotations

import json
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from torpor.bench import inference, models, parts, results, sources, turns
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


@pytest.mark.usefixtures("home")
def test_a_mode_that_fails_is_told_in_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = turns.Copies.tried

    def fails_in_graphs(copies: turns.Copies, kind: turns.Kind) -> int:
        if kind.ask == "graphs":
            raise turns.ProgramFailed("no graphs today")
        return tried(copies, kind)

    monkeypatch.setattr(turns.Copies, "tried", fails_in_graphs)
    found = []
    with pytest.raises(turns.ProgramFailed, match="no graphs today"):
        for one in inference.run(Settings(backend="sim", **TINY)):
            found.append(one)
    assert [(one.name, one.note) for one in found if not one.sides] == [
        ("toy, CUDA graphs: output tokens/s", "left out: no graphs today")
    ]


def test_native_copies_that_differ_are_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be said of Torpor's answers then."""
    del home
    seeds = {NATIVE: "1", TORPOR: "2", CONTROL: "3"}

    class Differing(turns.Copy):
        def __init__(self, command: list[str], side: str, settings: Settings) -> None:
            super().__init__([*command, "--seed", seeds[side]], side, settings)

    monkeypatch.setattr(turns, "Copy", Differing)
    found = results.final(inference.run(Settings(backend="sim", **TINY)))
    assert [one.note for one in found if one.bars] == ["two native copies give different tokens"] * 2


VLLM = '''
import json, os
from pathlib import Path
from types import SimpleNamespace


class SamplingParams(SimpleNamespace):
    pass


class LLM:
    def __init__(self, model, **given):
        described = json.loads((Path(model) / "config.json").read_text())
        Path(os.environ["TOLD"]).write_text(json.dumps({"model": described, "at": str(model), **given}))
        os.write(1, b"what an engine prints is no answer\\n")

    def generate(self, prompts, ways, use_tqdm):
        assert all(way.ignore_eos and way.temperature == 0 for way in ways) and not use_tqdm
        firsts = [sum(prompt["prompt_token_ids"]) for prompt in prompts]
        told = [range(first, first + way.max_tokens) for first, way in zip(firsts, ways)]
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=one)]) for one in told]
'''


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that is asked as vLLM is, in its place. Where it writes what its engine was made with."""
    (tmp_path / "vllm.py").write_text(VLLM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TOLD", str(tmp_path / "told.json"))
    return tmp_path / "told.json"


@pytest.mark.parametrize("mode", ["eager", "graphs"])
def test_vllm_is_asked_for_the_same_requests(mode: str, vllm: Path, serve: Any) -> None:
    settings = Settings(backend="gpu", **TINY)
    shape = models.Llama(256, 2, 4, 2, 512, 5000, longest=128, slots=4)
    few = ("--requests", "6", "--longest-prompt", "40", "--longest-answer", "20")
    command = models.command("serve_vllm.py", shape, settings, *few, "--mode", mode)
    lines = f"requests 1\n{mode} 2\ntokens 1\n"
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=60)
    counts, time_of_one, tokens = done.stdout.splitlines()
    wanted = serve.requests(6, 40, 20, 5000, seed=1)
    prompts = sum(len(request.prompt) for request in wanted)
    assert counts == f"6 {prompts} {sum(request.length for request in wanted) - prompts}"
    assert float(time_of_one) > 0 and len(tokens) == 64
    assert "no answer" in done.stderr
    told = json.loads(vllm.read_text())
    assert told["enforce_eager"] == (mode == "eager")
    assert told["kv_cache_memory_bytes"] == 2 * 2 * 2 * 2 * 64 * (128 + 16) * 4  # both, 2 bytes, layers, heads, tokens
    assert (told["model"]["hidden_size"], told["model"]["num_key_value_heads"], told["max_num_seqs"]) == (256, 2, 4)
    other = {"eager": "graphs", "graphs": "eager"}[mode]
    failed = subprocess.run(command, input=f"{other} 1\n", capture_output=True, text=True, check=False, timeout=60)
    assert failed.returncode == 1 and f"'{other}' is none of {mode}" in failed.stderr


@pytest.mark.usefixtures("home")
def test_vllm_takes_its_turns_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, vllm: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(inference, "_has_vllm", lambda _settings: True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    found = {one.name: one for one in inference.run(Settings(backend="sim", scratch=scratch, **TINY))}
    described = Path(json.loads(vllm.read_text())["at"])
    assert described.parent == scratch and not described.exists()  # one that is killed leaves nothing elsewhere
    for mode in ("kernel by kernel", "CUDA graphs"):
        by_vllm = found[f"toy by vLLM, {mode}: output tokens/s"]
        assert set(by_vllm.sides) == {NATIVE, TORPOR, CONTROL} and by_vllm.note == ""
    assert len(found) == 12


@pytest.mark.parametrize("there", [True, False])
def test_vllm_is_left_out_where_it_is_not(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "has", lambda module: there and module == "vllm")
    said: list[str] = []
    assert inference._has_vllm(Settings(backend="gpu", say=said.append)) == there
    assert said == [] if there else ["vLLM is not installed, and left out"]
    assert not inference._has_vllm(Settings(backend="sim", say=said.append))
