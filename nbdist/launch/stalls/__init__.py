"""Stalls: the difference between ranks that only wait and ranks that work, and the stacks of both."""
