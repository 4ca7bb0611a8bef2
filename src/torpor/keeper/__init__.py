"""The keeper: one daemon per user, host and driver, which holds jobs' device memory and runs the flows."""
