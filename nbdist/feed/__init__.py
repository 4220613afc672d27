"""What a screen gets of a run: its state, its logs, its charts and progress, as plain values."""
