"""Front processes, which speak HTTP, before one engine process; and the parent that starts both."""
