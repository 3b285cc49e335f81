"""What answers and learns: one thread owns ratings and live models, and all others wait for it."""
