"""Processes: the supervisor of a run and the processes of its ranks. Knows no framework."""
