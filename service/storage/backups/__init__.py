"""Backups of a data folder, at one position."""
