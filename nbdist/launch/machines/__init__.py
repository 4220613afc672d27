"""Other machines of a run: the lines to them, and the agreement over those."""
