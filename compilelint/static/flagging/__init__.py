"""Asks the rules about traced frames and makes findings of their hits."""
