"""Numba primitives of the engine: arrays in, arrays out, one module per kernel family."""
