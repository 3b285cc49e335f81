"""Measurements of the project, from a checkout only: `python -m benchmarks --help`. Not part of the wheel."""
