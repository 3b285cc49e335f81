"""Training: one loop, a trainer for each algorithm, and what judges and tunes the models."""
