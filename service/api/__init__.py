"""HTTP: what stands between a connection and the routes."""
