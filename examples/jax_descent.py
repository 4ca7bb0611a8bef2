"""Fit a small network by gradient descent in JAX. It knows nothing of Torpor. Prints each loss exactly."""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # hold what is used, not most of the card
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")  # timing would choose other kernels in every run

import jax
import jax.numpy as jnp


def loss_of(weights, inputs, targets):
    """Mean squared error of a two-layer network; inputs (n, 256), targets (n, 1)."""
    return jnp.mean((jnp.tanh(inputs @ weights[0]) @ weights[1] - targets) ** 2)


@jax.jit
def step(weights, key):
    """One step on fresh random data: new weights, new key, loss before the step."""
    key, part = jax.random.split(key)
    inputs = jax.random.normal(part, (1024, 256))
    targets = jnp.sin(inputs.sum(axis=1, keepdims=True))
    loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, targets)
    return [w - 0.05 * g for w, g in zip(weights, gradients, strict=True)], key, loss


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--delay", type=float, default=0.0)
    options = arguments.parse_args()

    key = jax.random.key(5)
    weights = [jax.random.normal(key, (256, 512)) / 16, jax.random.normal(key, (512, 1)) / 22]
    for number in range(1, options.steps + 1):
        weights, key, loss = step(weights, key)
        print(f"step {number} loss {float(loss).hex()} on {loss.devices().pop()}", flush=True)
        time.sleep(options.delay)


if __name__ == "__main__":
    main()
