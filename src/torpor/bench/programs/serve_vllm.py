"""Question: how fast does vLLM answer the fixed set of requests?  (`torpor bench` runs it where vLLM is installed.)

A model of the same shape as `serve.py`'s, with vLLM's own random weights, and driven by the same lines. An engine
launches either kernel by kernel or CUDA graphs: it knows "eager" or "graphs", as --mode says. It runs in this process,
with the cache that the requests need and no more, since copies share the GPU; and it keeps no prefix, so that every
turn does the same work. All that vLLM prints goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from engines import options
from serve import asked_for, chosen_by, converse


def model(chosen: argparse.Namespace, folder: Path) -> str:
    """A folder with nothing but the description of the model: vLLM makes up the weights."""
    described = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": chosen.width,
        "intermediate_size": chosen.inner,
        "num_hidden_layers": chosen.layers,
        "num_attention_heads": chosen.heads,
        "num_key_value_heads": chosen.kv_heads,
        "head_dim": chosen.width // chosen.heads,
        "vocab_size": chosen.vocabulary,
        "max_position_embeddings": chosen.longest,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(described))
    return str(folder)


def cache_bytes(chosen: argparse.Namespace) -> int:
    """Of keys and values in bfloat16: all slots at their longest, and a page to spare for each."""
    tokens = (chosen.longest + chosen.page) * chosen.slots
    return int(4 * chosen.layers * chosen.kv_heads * (chosen.width // chosen.heads) * tokens)


def main() -> None:
    parser = options(__doc__ or "", "decode")
    parser.add_argument("--mode", choices=("eager", "graphs"), required=True)
    parser.add_argument("--folder", type=Path, help="where the model is described, for as long as it is read")
    chosen = chosen_by(parser)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
    import vllm

    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        engine = vllm.LLM(
            model(chosen, Path(folder)),
            skip_tokenizer_init=True,
            load_format="dummy",
            dtype="bfloat16",
            seed=chosen.seed,
            max_model_len=chosen.longest,
            max_num_seqs=chosen.slots,
            kv_cache_memory_bytes=cache_bytes(chosen),
            enable_prefix_caching=False,
            enforce_eager=chosen.mode == "eager",
        )
    wanted = asked_for(chosen)
    prompts: list[Any] = [{"prompt_token_ids": list(request.prompt)} for request in wanted]
    ways = [
        vllm.SamplingParams(
            temperature=0.0,
            ignore_eos=True,
            max_tokens=request.length - len(request.prompt),
            detokenize=False,
        )
        for request in wanted
    ]

    def answer(_mode: str) -> None:
        for request, found in zip(wanted, engine.generate(prompts, ways, use_tqdm=False), strict=True):
            request.tokens = [*request.prompt, *found.outputs[0].token_ids]

    converse(wanted, answer, (chosen.mode,), answers)


if __name__ == "__main__":
    main()
