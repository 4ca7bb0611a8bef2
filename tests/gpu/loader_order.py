"""Trains on samples that forked DataLoader workers prepare, and prints in which order they came.

The workers are made after CUDA was initialised and last for all epochs, so they have copies of the driver's device
files.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset[torch.Tensor]):
    """Sample n is 256 numbers that only n decides, but for the second: whether CUDA can be used where it was made."""

    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(index)
        row = torch.rand(256, generator=generator)
        row[0] = index
        row[1] = float(torch.cuda.is_initialized())
        return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    device = torch.device("cuda")
    weights = torch.rand(256, 64, device=device)
    loader = DataLoader(
        Numbers(),
        batch_size=8,
        shuffle=True,
        num_workers=4,
        persistent_workers=True,
        pin_memory=True,
        multiprocessing_context="fork",
        generator=torch.Generator().manual_seed(2),
    )
    for epoch in range(arguments.epochs):
        for number, batch in enumerate(loader):
            order = batch[:, 0].int().tolist()
            usable = bool(batch[:, 1].any())
            step = torch.tanh(batch.to(device) @ weights)
            weights = weights - 1e-3 * batch.to(device).T @ step
            print(f"batch {epoch}.{number} {order} {usable} {weights.double().sum().item().hex()}", flush=True)
            time.sleep(arguments.delay)


main()
