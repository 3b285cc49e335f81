"""What every kernel family needs of CUDA: launches, structures, scratch memory, arrays that grow."""
