"""A run that an engine has placed: watched where it was submitted, supervised on each of its nodes."""
