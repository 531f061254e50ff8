"""The static pass in pieces: what is walked together, by which process, and what is kept of it."""
