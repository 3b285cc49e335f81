"""Ranking: exact lists of the best items, and why an item is in one."""
