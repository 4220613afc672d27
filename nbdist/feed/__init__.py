"""A run as plain values for a screen: its state, its logs, its charts and progress."""
