"""Answers to queries: ranked lists and lookups, from the state and the live models."""
