"""Kernels compiled by Numba: their cache, and which of them are compiled."""
