"""The check of a cell before anything is started: is it a program that a rank can run?"""

from __future__ import annotations

import re
import warnings

from nbdist.errors import UsageMistake

# how IPython writes its own commands: "%magic", "!command", "x = !ls", "x = %env A", "name?"
_COMMAND = re.compile(r"^\s*(?:[%!]|[\w, ]+=\s*[%!]\s*\w|\?|[\w.]+\?{1,2}\s*$)")


def check_cell(cell: str) -> None:
    """Raises UsageMistake, with the line, for a cell that is empty or does not compile."""
    if not cell.strip():
        raise UsageMistake("the cell is empty: write the program of the ranks below %%distributed")
    try:
        with warnings.catch_warnings():
            # the ranks give the same warnings, with the line
            warnings.simplefilter("ignore")
            tree = compile(cell, "<cell>", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UsageMistake(_about(cell, error)) from None
    except ValueError as error:  # a NUL character
        raise UsageMistake(f"the cell does not compile: {error}") from None
    if (
        not tree.co_names
        and not tree.co_consts[:-1]
        and all(not line.strip() or line.lstrip().startswith("#") for line in cell.splitlines())
    ):
        raise UsageMistake("the cell holds only comments: write the program of the ranks in it")


def _about(cell: str, error: SyntaxError) -> str:
    lines = cell.splitlines()
    for number, line in enumerate(lines, start=1):
        if _COMMAND.match(line) and number <= (error.lineno or number):
            return (
                f"line {number} of the cell is a notebook command, which ranks cannot run: "
                f"move  {line.strip()}  to a cell of its own"
            )
    where = f"line {error.lineno} of the cell" if error.lineno else "the cell"
    text = lines[error.lineno - 1].strip() if error.lineno and error.lineno <= len(lines) else ""
    return f"{where} does not compile: {error.msg}" + (f": {text}" if text else "")
