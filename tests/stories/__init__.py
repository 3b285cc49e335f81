"""Adoptions as their users would live them, over HTTP, the commands and the Python client alone."""
