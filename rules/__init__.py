"""The rules: one file each, loaded by name through compilelint.rulebook, never imported by name."""
