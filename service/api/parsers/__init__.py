"""Bodies of requests: read, parsed, and checked element by element."""
