"""From the bytes of a connection to requests, with limits for each client."""
