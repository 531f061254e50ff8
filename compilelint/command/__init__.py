"""One module per command; each turns parsed options into output and an exit code."""
