"""Question: what does one iteration of data-parallel training on several GPUs cost?  (`torpor bench` runs it.)

    python train_parallel.py --gpus N [the options of train.py]

One process for each GPU, started and asked by this one, which uses no GPU itself. It speaks as train.py does: "step
<count>" is answered with the nanoseconds of each step by the slowest process, any other word with the number of the
last step and its loss, which must be the same in all processes: all have the same data. With PyTorch they exchange
gradients (NCCL; gloo on the CPU); with the engine of driver calls each trains alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from engines import engine, options
from train import answer

RANK, STORE = "TRAIN_PARALLEL_RANK", "TRAIN_PARALLEL_STORE"


def parser() -> argparse.ArgumentParser:
    """What train.py understands, and how many GPUs."""
    known: argparse.ArgumentParser = options(__doc__ or "", "train")
    known.add_argument("--gpus", type=int, default=2)
    known.add_argument("--folder", type=Path, help="where the processes meet")
    return known


def parallel(chosen: argparse.Namespace, rank: int) -> Any:
    """PyTorch's trainer of this process, with a model that exchanges its gradients with the others."""
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    on_gpu = chosen.device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(rank)
        chosen.device = f"cuda:{rank}"
    trainer = engine(chosen, "train").Trainer(chosen)
    store = distributed.FileStore(os.environ[STORE], chosen.gpus)
    distributed.init_process_group("nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=chosen.gpus)
    trainer.model = DistributedDataParallel(trainer.model, device_ids=[rank] if on_gpu else None)
    return trainer


def train(chosen: argparse.Namespace, rank: int) -> None:
    """One process's part."""
    if chosen.engine != "torch":
        answer(engine(chosen, "train").Trainer(chosen))
        return
    from torch import distributed

    answer(parallel(chosen, rank))
    distributed.destroy_process_group()


def coordinate(gpus: int, where: Path | None) -> int:
    """Start the processes, pass on what is asked, and answer with what they say. The first bad exit status, else 0."""
    with tempfile.TemporaryDirectory(dir=where) as folder:
        started = [started_for(rank, Path(folder) / "store") for rank in range(gpus)]
        try:
            for line in sys.stdin:
                said = asked(started, line)
                if not all(said):
                    break  # one has ended, which its exit status tells
                said_together = one_answer(line, said)
                if said_together is None:
                    print(f"the processes are not of one mind: {said}", file=sys.stderr)
                    return 1
                print(said_together, flush=True)
        finally:
            for process in started:
                assert process.stdin
                process.stdin.close()
        return next((status for process in started if (status := process.wait()) != 0), 0)


def one_answer(line: str, said: list[str]) -> str | None:
    """Of times the longest; of anything else what all have said, None where they have not said the same."""
    if line.startswith("step"):
        return max(said, key=float)
    return said[0] if len(set(said)) == 1 else None


def started_for(rank: int, store: Path) -> subprocess.Popen[str]:
    """This program again, for one GPU. The engine of driver calls sees that one only."""
    env = {**os.environ, RANK: str(rank), STORE: str(store)}
    if parser().parse_args().engine != "torch":
        visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        env["CUDA_VISIBLE_DEVICES"] = visible[rank] if visible else str(rank)
    return subprocess.Popen(
        [sys.executable, *sys.argv], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def asked(started: list[subprocess.Popen[str]], line: str) -> list[str]:
    """What each process answers, without the end of the line; empty where it has ended."""
    for process in started:
        assert process.stdin
        try:
            process.stdin.write(line)
        except BrokenPipeError:
            continue
    return [process.stdout.readline().strip() if process.stdout else "" for process in started]


def main() -> int:
    chosen = parser().parse_args()
    rank = os.environ.get(RANK)
    if rank is None:
        return coordinate(chosen.gpus, chosen.folder)
    train(chosen, int(rank))
    return 0


if __name__ == "__main__":
    sys.exit(main())
