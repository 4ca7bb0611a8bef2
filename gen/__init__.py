"""The generator: reads `api/`, writes `native/abi/` and `native/interposer/generated/`."""
