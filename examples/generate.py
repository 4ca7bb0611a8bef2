"""Generate text with a Transformers model of random weights (nothing is downloaded). It knows nothing of Torpor."""

from __future__ import annotations

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=4)
    arguments.add_argument("--tokens", type=int, default=64)
    options = arguments.parse_args()

    torch.manual_seed(3)
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_head=8, n_embd=512)).cuda().eval()
    prompt = torch.randint(0, 50_000, (2, 16), device="cuda")
    for number in range(1, options.rounds + 1):
        with torch.inference_mode():
            out = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=options.tokens, do_sample=True,
                pad_token_id=0,
            )
        print(f"round {number} tokens {out[:, 16:].flatten().tolist()}", flush=True)
        prompt = out[:, -16:]


if __name__ == "__main__":
    main()
