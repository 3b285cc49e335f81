"""Neighbors of items: simLSH ([004] eq. 3), and what it is compared with."""
