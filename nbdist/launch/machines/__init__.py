"""The other machines of a run: the lines to them, and what is agreed over those."""
