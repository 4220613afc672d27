"""Ranks that do nothing, or nothing but wait: how that is told from work, and where they are."""
