"""Neighbors of items: simLSH ([004] eq. 3), what it is compared with, and exact counts of what is liked together."""
