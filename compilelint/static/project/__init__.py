"""Reads a project: which files there are, what each defines, and how their names hang together."""
