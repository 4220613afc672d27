"""Warm ranks: processes that have imported their framework and wait for a run."""
