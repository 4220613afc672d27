"""What a framework needs in the environment of each rank. Starts nothing, imports no framework."""
