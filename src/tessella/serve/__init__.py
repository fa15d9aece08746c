"""Serve: a store behind HTTP."""
