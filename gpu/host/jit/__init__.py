"""What Numba compiles: where it is kept, and what is compiled by now."""
