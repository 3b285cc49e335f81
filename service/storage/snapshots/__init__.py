"""Trained models on disk: snapshots, which of them are live, and parts of models under way."""
