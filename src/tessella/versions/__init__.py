"""Versions: the state of an index after each change, and the file it is stored in."""
