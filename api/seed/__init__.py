"""The machine-seeded part of the API data; `python -m gen.seed` rewrites it."""
