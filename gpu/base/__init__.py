"""What every room needs: errors, the choice of host or device, memory, and how Numba compiles."""
