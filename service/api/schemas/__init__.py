"""Schemas of requests, and of answers that only HTTP has."""
