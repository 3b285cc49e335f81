"""Deterministic simulation: the durable parts of the service in virtual time, on a disk and a Redis that fail."""
