"""Ranks that wait for a run, and whether a run may have them."""
