"""Versions: the items of an index, change by change, and their file."""
