"""HTTP: everything from the connection to the routes."""
