"""The text of a program: what ``preflight`` reads before a run and ``diagnosis`` after one."""
