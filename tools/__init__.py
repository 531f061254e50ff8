"""What maintainers run by hand, with `python -m tools.<name>` from the root of the repository."""
