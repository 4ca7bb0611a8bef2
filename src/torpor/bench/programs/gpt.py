"""A GPT-like decoder and its training, in plain PyTorch, for train.py and self_saving.py.

Bit for bit the same in every run with the same seed: deterministic kernels, and each step's data follow from its
number.
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Attention and a four times wider layer, each behind a norm, on (batch, length, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x)), approximate="tanh"))


class Gpt(nn.Module):
    """Embeddings of tokens and places, blocks, and a projection that shares the tokens' embedding."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits (batch, length, vocabulary) for tokens (batch, length)."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


class Trainer:
    """Model and optimiser in float32, products in bfloat16, on made-up text in which every token comes twice."""

    methods = ("torch.save", "dcp", "dcp-async")

    def __init__(self, options: argparse.Namespace) -> None:
        """Device, seed, sizes of the model and of a batch as `describe` defines them."""
        torch.manual_seed(options.seed)
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads what it has not written
        self.device, self.options, self.number = torch.device(options.device), options, 0
        with self.device:
            self.model = Gpt(options.vocabulary, options.width, options.layers, options.heads, options.length)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, fused=True if self.device.type == "cuda" else None
        )
        self.last: torch.Tensor | None = None
        self.pending: Any = None

    def step(self) -> None:
        """Advance by one; on a GPU this merely queues the work."""
        self.number += 1
        options = self.options
        source = torch.Generator(device=self.device).manual_seed(options.seed << 32 | self.number)
        tokens = torch.randint(
            0, options.vocabulary, (options.batch, options.length + 1), device=self.device, generator=source
        )
        tokens[:, 1::2] = tokens[:, : tokens.shape[1] // 2 * 2 : 2]
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            logits = self.model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.last = loss.detach()

    def wait(self) -> None:
        """Until the GPU has done all steps."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def loss(self) -> str:
        """Of the last step, exactly, as a hexadecimal float; waits for it."""
        return "none" if self.last is None else float(self.last.item()).hex()

    def state(self) -> dict[str, Any]:
        """All that a run goes on from."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "number": torch.tensor(self.number),
        }

    def prepare(self, method: str) -> None:
        """Do what a first `save` needs and later ones find done."""
        if method != "torch.save":
            from torch import distributed

            import_module("torch.distributed.checkpoint")
            if not distributed.is_initialized():  # a group of this process alone: an asynchronous save wants one
                distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)

    def save(self, method: str, folder: Path) -> None:
        """Write the state, to the disk; `dcp-async` returns when it has its own copy, see `saved`."""
        if method == "torch.save":
            with (folder / "state.pt").open("wb") as file:
                torch.save(self.state(), file)
                file.flush()
                os.fsync(file.fileno())
            return
        from torch.distributed import checkpoint

        if method == "dcp":
            checkpoint.save(self.state(), checkpoint_id=folder)
        else:
            self.pending = checkpoint.async_save(self.state(), checkpoint_id=folder)

    def saved(self) -> bool:
        """Whether what `save` began is complete. Raises what went wrong."""
        if self.pending is not None and self.pending.done():
            self.pending.result()
            self.pending = None
        return self.pending is None

    def load(self, method: str, folder: Path) -> None:
        """Go on from what `save` wrote."""
        if method == "torch.save":
            found = torch.load(folder / "state.pt", map_location=self.device, weights_only=True)
        else:
            from torch.distributed import checkpoint

            self._make_optimiser_state()
            found = self.state()
            checkpoint.load(found, checkpoint_id=folder)
        self.model.load_state_dict(found["model"])
        self.optimiser.load_state_dict(found["optimiser"])
        self.number = int(found["number"])

    def _make_optimiser_state(self) -> None:
        """Have the optimiser's tensors, which it makes in its first step, for a load in place."""
        for weight in self.model.parameters():
            weight.grad = torch.zeros_like(weight)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
