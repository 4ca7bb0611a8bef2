"""How train.py, self_saving.py, serve.py and first_token.py are told what to run: their options, and the engine."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

MODULES = {
    ("torch", "train"): "gpt",
    ("torch", "decode"): "llama",
    ("driver", "train"): "toy",
    ("driver", "decode"): "toy",
}


def options(about: str, kind: str) -> argparse.ArgumentParser:
    """A parser with what both engines understand; `kind` is `train` or `decode`."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--engine", choices=("torch", "driver"), default="torch", help="PyTorch, or driver calls alone")
    parser.add_argument("--device", default="cuda", help="of PyTorch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    if kind == "train":
        parser.add_argument("--batch", type=int, default=8)
        parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    else:
        parser.add_argument("--kv-heads", type=int, default=12)
        parser.add_argument("--inner", type=int, default=2048, help="width inside of the feed-forward layers")
        parser.add_argument("--page", type=int, default=16, help="tokens of a page of the cache")
        parser.add_argument("--longest", type=int, default=768, help="tokens of a request at most, whole pages")
        parser.add_argument("--slots", type=int, default=32, help="requests at work at once, at most")
    return parser


def engine(chosen: argparse.Namespace, kind: str) -> Any:
    """The module of that engine, with its `Trainer` or `Decoder`."""
    return import_module(MODULES[chosen.engine, kind])
