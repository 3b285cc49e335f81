"""Exports of ratings, events and items, made by a process of their own."""
