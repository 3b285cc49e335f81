"""Readers of files of ratings and items."""
