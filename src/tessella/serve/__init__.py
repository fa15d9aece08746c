"""Serve: a store over HTTP."""
