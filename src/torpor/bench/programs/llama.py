"""A Llama-shaped decoder with a paged cache of keys and values, in plain PyTorch, for serve.py and first_token.py.

Weights are random or read from a file. Rows are padded to the same sizes with CUDA graphs and without, so that both
give the same tokens to the bit.
"""

from __future__ import annotations

import argparse
import mmap
import os
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import torch
from torch.nn import functional

THETA = 500_000.0  # base of the rotary embedding, as in Llama 3


class Decoder:
    """Weights by name in one flat piece of memory, a cache of pages, and one graph for each number of rows.

    Page 0 belongs to nobody: padding rows write there.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        """Shapes as `engines.options` defines them. Weights are undefined until `fill` or `read`."""
        self.options, self.device = options, torch.device(options.device)
        self.page, self.width = options.page, options.longest // options.page
        self.heads, self.kv_heads, self.head = options.heads, options.kv_heads, options.width // options.heads
        self.shapes = self._shapes()
        self.flat = torch.empty(
            sum(rows * columns for rows, columns in self.shapes.values()), dtype=torch.bfloat16, device=self.device
        )
        self.weights: dict[str, torch.Tensor] = {}
        at = 0
        for name, (rows, columns) in self.shapes.items():
            self.weights[name] = self.flat[at : at + rows * columns].view(rows, columns)
            at += rows * columns
        places = (1 + options.slots * self.width) * self.page
        self.keys, self.values = (
            torch.zeros(
                options.layers, self.kv_heads, places, self.head, dtype=torch.bfloat16, device=self.device
            )
            for _ in range(2)
        )
        half = torch.arange(0, self.head, 2, device=self.device) / self.head
        angles = torch.outer(torch.arange(options.longest, device=self.device).float(), 1 / THETA**half)
        self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, list[torch.Tensor], torch.Tensor]] = {}

    def _shapes(self) -> dict[str, tuple[int, int]]:
        width, inner = self.options.width, self.options.inner
        qkv = (self.heads + 2 * self.kv_heads) * self.head
        words = (self.options.vocabulary, width)
        shapes = {"embed": words, "norm": (1, width), "head": words}
        for layer in range(self.options.layers):
            shapes |= {
                f"{layer}.norm": (1, width),
                f"{layer}.qkv": (qkv, width),
                f"{layer}.out": (width, self.heads * self.head),
                f"{layer}.wide_norm": (1, width),
                f"{layer}.wide": (2 * inner, width),
                f"{layer}.narrow": (width, inner),
            }
        return shapes

    def fill(self) -> None:
        """Random weights from the seed."""
        source = torch.Generator(device=self.device).manual_seed(self.options.seed)
        for name, weight in self.weights.items():
            if name.endswith("norm"):
                weight.fill_(1)
            else:
                weight.normal_(std=0.02, generator=source)

    def write(self, path: Path) -> None:
        """All weights, one after another as they lie in memory, to the disk."""
        with path.open("wb") as file:
            for piece in self.flat.split(1 << 27):
                file.write(piece.cpu().view(torch.uint8).numpy())
            file.flush()
            os.fsync(file.fileno())

    def read(self, path: Path) -> None:
        """What `write` wrote: mapped, and copied to the GPU tensor by tensor. ValueError when the size is wrong."""
        if path.stat().st_size != self.flat.numel() * 2:
            raise ValueError(f"{path} has {path.stat().st_size} bytes, these weights have {self.flat.numel() * 2}")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)  # torch wants what it could write to
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        at = 0
        for weight in self.weights.values():
            found = torch.frombuffer(mapped, dtype=torch.bfloat16, count=weight.numel(), offset=at)
            weight.copy_(found.view_as(weight))
            at += weight.numel() * 2

    @torch.inference_mode()
    def prefill(self, tokens: list[int], table: list[int]) -> int:
        """Cache a prompt in the pages of `table`; the first new token."""
        ids, places = torch.tensor(tokens), torch.arange(len(tokens))
        slots = torch.tensor(table)[places // self.page] * self.page + places % self.page
        ids, places, slots = (each.to(self.device) for each in (ids, places, slots))
        x = functional.embedding(ids, self.weights["embed"])
        for layer in range(self.options.layers):
            query, key, value = self.heads_of(layer, x, places, slots)
            mixed = functional.scaled_dot_product_attention(
                query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), is_causal=True, enable_gqa=True
            )
            x = self.rest(layer, x, mixed[0].transpose(0, 1).flatten(1))
        return int(self.next(x[-1:]).item())

    @torch.inference_mode()
    def decode(self, tokens: list[int], places: list[int], tables: list[list[int]], graphs: bool) -> list[int]:
        """One token on for each request: its last token, where that stands, and its pages."""
        inputs = self.inputs(tokens, places, tables)
        if not graphs:
            found = self._decode(*(each.to(self.device) for each in inputs))
        else:
            rows = len(inputs[0])
            if rows not in self.graphs:
                self._capture(rows)
            graph, places_of_inputs, found = self.graphs[rows]
            for to, each in zip(places_of_inputs, inputs, strict=True):
                to.copy_(each)
            graph.replay()
        new: list[int] = found.tolist()
        return new[: len(tokens)]

    def inputs(self, tokens: list[int], places: list[int], tables: list[list[int]]) -> list[torch.Tensor]:
        """What a decoding step works on, in the host's memory: tokens, places and pages, padded to a power of two."""
        rows = min(1 << (len(tokens) - 1).bit_length(), self.options.slots)
        padding = rows - len(tokens)
        return [
            torch.tensor(tokens + [0] * padding),
            torch.tensor(places + [0] * padding),
            torch.tensor([table + [0] * (self.width - len(table)) for table in [*tables, *[[0]] * padding]]),
        ]

    def _decode(self, ids: torch.Tensor, places: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
        slots, mine, mask = self.reach(places, tables)
        x = functional.embedding(ids, self.weights["embed"])
        for layer in range(self.options.layers):
            query, _, _ = self.heads_of(layer, x, places, mine)
            x = self.rest(layer, x, self.attend(layer, query, slots, mask))
        return self.next(x)

    def reach(self, places: torch.Tensor, tables: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Slots of every cached token (rows, longest), those of the present tokens (rows), and the attention's mask."""
        rows, step = places.shape[0], torch.arange(self.page, device=self.device)
        slots = (tables[:, :, None] * self.page + step).view(rows, -1)
        mine = slots.gather(1, places[:, None]).flatten()
        reach = torch.arange(slots.shape[1], device=self.device)
        mask = torch.where(reach <= places[:, None], 0.0, float("-inf")).to(torch.bfloat16)[:, None, :]
        return slots, mine, mask

    def attend(self, layer: int, query: torch.Tensor, slots: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """What each row takes from its cached tokens (rows, heads * head)."""
        rows = slots.shape[0]
        keys, values = (
            cache[layer].index_select(1, slots.flatten()).view(self.kv_heads, rows, -1, self.head)
            for cache in (self.keys, self.values)
        )
        grouped = query.view(self.kv_heads, -1, rows, self.head).transpose(1, 2)
        scores = grouped @ keys.transpose(2, 3) / self.head**0.5 + mask
        mixed = scores.softmax(-1, dtype=torch.float32).bfloat16() @ values  # (kv heads, rows, group, head)
        return mixed.permute(1, 0, 2, 3).reshape(rows, -1)

    def heads_of(
        self, layer: int, x: torch.Tensor, places: torch.Tensor, slots: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query (heads, rows, head), key and value (kv heads, rows, head); the last two are cached at `slots`."""
        qkv = functional.linear(self._normed(x, f"{layer}.norm"), self.weights[f"{layer}.qkv"])
        parts = qkv.view(x.shape[0], -1, self.head).transpose(0, 1)
        query, key, value = parts.split([self.heads, self.kv_heads, self.kv_heads])
        query, key = self._turned(query, places), self._turned(key, places)
        self.keys[layer].index_copy_(1, slots, key)
        self.values[layer].index_copy_(1, slots, value)
        return query, key, value

    def _turned(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """With its place's rotation; (heads, rows, head)."""
        cos, sin = self.cos[places], self.sin[places]
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)

    def rest(self, layer: int, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        x = x + functional.linear(mixed, self.weights[f"{layer}.out"])
        both = functional.linear(self._normed(x, f"{layer}.wide_norm"), self.weights[f"{layer}.wide"])
        gate, up = both.chunk(2, dim=-1)
        return x + functional.linear(functional.silu(gate) * up, self.weights[f"{layer}.narrow"])

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weights[name][0], 1e-5)

    def next(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(self._normed(x, "norm"), self.weights["head"]).argmax(-1)

    def _capture(self, rows: int) -> None:
        inputs = [
            torch.zeros(rows, dtype=torch.long, device=self.device),
            torch.zeros(rows, dtype=torch.long, device=self.device),
            torch.zeros(rows, self.width, dtype=torch.long, device=self.device),
        ]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self._decode(*inputs)  # so that nothing is made for the first time while capturing
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = self._decode(*inputs)
        self.graphs[rows] = (graph, inputs, found)
