"""The environment that a framework needs in each rank. Starts nothing, imports no framework."""
