"""Durable state: the stream in Redis, and files that several processes share."""
