"""A training job that saves itself: one line a step, a checkpoint of its own at a step, and a way to go on from it.

    python self_saving.py --steps 200 --save-at 20 --method torch.save --folder F      and after a kill
    python self_saving.py --steps 200 --resume --method torch.save --folder F

Lines: "step N LOSS AT", "saving N AT", "saved N AT"; AT is the wall clock in nanoseconds, losses are exact.
Without --save-at it saves nothing, and somebody else may save it from outside.
"""

from __future__ import annotations

import time
from pathlib import Path

from engines import engine, options


def tell(*words: object) -> None:
    print(*words, time.time_ns(), flush=True)


def main() -> None:
    parser = options(__doc__ or "", "train")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--save-at", type=int, default=0, help="the step after which it saves itself")
    parser.add_argument("--method", default="torch.save", help="torch.save, dcp, dcp-async; file with --engine driver")
    parser.add_argument("--folder", type=Path, default=Path("checkpoint"), help="an empty folder that it saves into")
    parser.add_argument("--resume", action="store_true", help="go on from what lies in the folder")
    chosen = parser.parse_args()

    trainer = engine(chosen, "train").Trainer(chosen)
    if (chosen.save_at or chosen.resume) and chosen.method not in trainer.methods:
        parser.error(f"the engine saves by {', '.join(trainer.methods)}, not by {chosen.method}")
    if chosen.resume:
        trainer.load(chosen.method, chosen.folder)
    if chosen.save_at:
        trainer.prepare(chosen.method)
    saving = False
    while trainer.number < chosen.steps:
        trainer.step()
        tell("step", trainer.number, trainer.loss())
        if trainer.number == chosen.save_at:
            chosen.folder.mkdir(parents=True, exist_ok=True)
            tell("saving", trainer.number)
            trainer.save(chosen.method, chosen.folder)
            saving = True
        if saving and trainer.saved():
            tell("saved", trainer.number)
            saving = False
    while saving and not trainer.saved():
        time.sleep(0.01)


if __name__ == "__main__":
    main()
