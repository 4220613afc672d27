"""``nbdist`` on the command line: parse, call, present, and an exit code that scripts can use."""

from nbdist.cli.commands import main

__all__ = ["main"]
