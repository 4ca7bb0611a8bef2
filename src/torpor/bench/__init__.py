"""`torpor bench`: what the layer costs and saves on this machine, natively and with the driver's own way beside it.

How it is put together:

- `results` – what is measured, as it is kept in results.json: `Measurement` (one line of a table: value by side, cost
  against native, bars), `Figure` (what is drawn), `PartResult`, `Results`.
- `settings` – `Settings`: how long, which level of `--vm`, which sizes; the sides are `NATIVE`, `TORPOR`, `CONTROL` (a
  second native one: what it differs from native is noise) and `DRIVER` (the driver's checkpoint calls + CRIU).
- `parts` – `Part` and the registry.
- `turns` – live copies of a program, one for each side, that take turns in batches.
- `verdict` – a bar beside a ratio: met, missed, or within noise.
- `runner` – runs parts one after another; what fails or is broken off is told in the results, the others go on.
- `home` – jobs and images of a run live in a folder of its own and are gone afterwards.
- `report`, `comparison` – what is made of results.json.

How to add a part. Write a module with a `PART`:

    def run(settings: Settings) -> Iterator[Measurement]:
        command = [sys.executable, str(sources.path("eager.py"))]
        kinds = [turns.Kind(name="eager add", ask="eager_add", figures=("cost",), bars=(results.within(0.01),))]
        yield from turns.compare(command, kinds, settings)

    PART = Part("eager", "Eager loop", run, needs=("torch-on-gpu",), figures=(Figure(name="cost", title="…",
    kind="cost"),))

and name it in `parts.REGISTRY`. `run` yields each measurement as soon as it is there (what was yielded before a failure
or Ctrl-C is kept), tells what it is doing by `settings.say`, and raises a TorporError (or anything else) where it
cannot go on. `needs` are keys of `parts.NEEDS`; where one is missing the part is skipped with a line; what is left out
within a part is a measurement without sides, whose note says why. Values that need
no turns are made by `results.spread` and `Measurement` directly; `settings.environment()` is what a native program runs
with.

Programs are plain scripts in `programs/` (or C in `native/`, compiled by `sources.compiled`), which import nothing of
Torpor and are started by path, natively or under `torpor run`. One that takes part in `turns` reads lines "<kind>
<count>", does the thing that often and answers with the nanoseconds of each, until its input ends. `turns.Copy` can
also be used alone for programs with another conversation: `ask(line)` gives the answer's line.

On the software GPU every part runs for its logic, with small sizes; every table, figure and file then says so.
"""
