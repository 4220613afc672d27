"""Warm ranks: processes that import their framework and then wait for a run."""
