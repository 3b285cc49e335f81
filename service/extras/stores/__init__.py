"""Stores outside the machine: what a worker publishes and replicas follow."""
