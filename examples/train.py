"""Train a small transformer with PyTorch on made-up text. It knows nothing of Torpor.

Each step prints its loss exactly (as a hexadecimal float), so two runs can be compared bit for bit: model, optimiser
state, dropout's random state and the data generator all have to be right for the losses to agree.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import torch
from torch import nn


class Model(nn.Module):
    """Token embedding, a few transformer layers with dropout, and a projection to the vocabulary."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits (batch, length, vocabulary) for tokens (batch, length)."""
        return self.head(self.body(self.embed(tokens)))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--width", type=int, default=512)
    arguments.add_argument("--layers", type=int, default=4)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--length", type=int, default=128)
    arguments.add_argument("--hold-gib", type=float, default=0.0, help="more device memory to hold, in GiB")
    arguments.add_argument("--delay", type=float, default=0.0, help="seconds to rest after each step")
    options = arguments.parse_args()

    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    vocabulary = 1024
    model = Model(vocabulary, options.width, options.layers).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4)
    held = [
        torch.randint(0, 2**31, (1 << 26,), dtype=torch.int32, device="cuda")  # 256 MiB each
        for _ in range(int(options.hold_gib * 4))
    ]
    sums = [piece.sum() for piece in held]
    data = torch.Generator(device="cuda").manual_seed(options.seed)
    print(f"training on {torch.cuda.get_device_name()}, {torch.cuda.memory_reserved() >> 20} MiB reserved", flush=True)
    for step in range(1, options.steps + 1):
        tokens = torch.randint(0, vocabulary, (options.batch, options.length), device="cuda", generator=data)
        tokens[:, 1::2] = tokens[:, ::2]  # something to learn: every token comes twice
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        value = loss.item()
        print(f"step {step} loss {value:.6f} {value.hex()}", flush=True)
        time.sleep(options.delay)
    intact = all(bool(piece.sum() == total) for piece, total in zip(held, sums, strict=True))
    print(f"held memory intact: {intact}", flush=True)


if __name__ == "__main__":
    main()
