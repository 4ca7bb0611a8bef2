"""The CUDA driver API as data. Nothing in here depends on the rest of the project."""
