"""Webhooks: other systems are told that a job has ended."""
