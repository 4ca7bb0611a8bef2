"""The benchmark's models on a real GPU: the same tokens and losses on every side, in every mode, before and after."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from torpor.bench import application, cold_start, home, inference, models, results, training
from torpor.bench.models import Llama
from torpor.bench.settings import CONTROL, DRIVER, NATIVE, TORPOR, Settings

pytestmark = pytest.mark.timeout(600)

SMALL = Llama(512, 6, 8, 2, 1408, 8192, longest=256, slots=8)


@pytest.fixture
def settings() -> Iterator[Settings]:
    with home.own("gpu") as scratch:
        yield Settings(backend="gpu", quick=True, groups=1, rounds=1, batch=0.05, repeats=1, scratch=scratch)


def chosen(settings: Settings, model: str) -> Settings:
    return replace(settings, models=(model,))


def test_graphs_give_the_tokens_that_single_kernels_give(settings: Settings) -> None:
    requests = ["--requests", "20", "--longest-prompt", "100", "--longest-answer", "60"]
    said = []
    for order in (("eager", "graphs", "eager"), ("graphs",)):
        lines = "".join(f"{mode} 1\ntokens 1\n" for mode in order)
        done = subprocess.run(
            models.command("serve.py", SMALL, settings, *requests),
            input=lines, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said += done.stdout.splitlines()[1::2]
    assert len(said) == 4
    assert len(set(said)) == 1


def test_inference(settings: Settings) -> None:
    found = results.final(inference.run(chosen(settings, "0.5b")))
    assert len(found) == 6
    assert all(set(one.sides) == {NATIVE, TORPOR, CONTROL} and one.note == "" for one in found)


def test_training(settings: Settings) -> None:
    found = results.final(training.run(chosen(settings, "120m")))
    assert found[0].name == "120m parameters"
    assert set(found[0].sides) == {NATIVE, TORPOR, CONTROL}
    assert "same loss" in found[-1].note


def test_cold_starts_give_the_native_tokens(settings: Settings) -> None:
    cached, dropped = results.final(cold_start.run(chosen(settings, "0.5b")))
    assert set(cached.sides) == {NATIVE, DRIVER, "torpor hbm", "torpor dram", "torpor disk", f"{DRIVER} disk"}
    assert set(dropped.sides) == {NATIVE, "torpor disk", f"{DRIVER} disk"}
    assert cached.sides["torpor hbm"].median < cached.sides[NATIVE].median


def test_a_job_goes_on_from_every_kind_of_checkpoint(settings: Settings) -> None:
    rows = results.final(application.run(chosen(settings, "30m")))
    assert len(rows) == 6
    assert all(list(row.sides) == [*application.METHODS, *application.TIERS] for row in rows)
