"""CUDA support for every kernel family: launches, structures, scratch memory, and arrays that grow."""
