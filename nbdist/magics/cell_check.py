"""A cell before it starts anything: its lines as the editor numbers them, and its syntax."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.magics.presentation import request_of

if TYPE_CHECKING:
    from nbdist.preflight import Origin

# how IPython writes its own commands: "%magic", "!command", "x = !ls", "x = %env A", "name?"
_COMMAND = re.compile(r"^\s*(?:[%!]|[\w, ]+=\s*[%!]\s*\w|\?|[\w.]+\?{1,2}\s*$)")
# instead of these commands of a notebook
_INSTEAD = (
    (re.compile(r"%%writefile\b"), "leave it out: nbdist writes the cell into a file itself"),
    (re.compile(r"%matplotlib\b"), "leave it out: figures are shown without it"),
    (re.compile(r"%env\s+(\w+)[= ]\s*(\S+)"), r"write  %%distributed --env \1=\2"),
    (re.compile(r"%cd\s+(\S+)"), r"write  %%distributed --cwd \1"),
    (re.compile(r"%%?(?:time|timeit|capture)\b"), "leave it out, or move what follows to a cell of its own"),
    (re.compile(r".*CUDA_VIS(?!IBLE_DEVICES)\w+"), "choose GPUs with  %%distributed --gpus 0,1"),
    (re.compile(r"[\w.]*\?{1,2}[\w.]*$"), "leave it out"),
)
_INLINE = re.compile(r"\s*%matplotlib\s+inline\s*(?:#.*)?")


def as_in_editor(shell: InteractiveShell, cell: str) -> str:
    """Return the body of a cell below an empty line for each line above it, as ``%%distributed``: so
    tracebacks, reports and checks have the editor's line numbers."""
    whole = str(request_of(shell).get("content", {}).get("code", "")).splitlines()
    above = len(whole) - len(cell.splitlines())
    # code that calls a magic has other lines above it
    if not (1 <= above <= len(whole) and whole[above - 1].lstrip().startswith(("%%distributed", "%%rank"))):
        above = 1
    return "\n" * above + _without_inline(cell)


def _without_inline(cell: str) -> str:
    """Return the cell without ``%matplotlib inline``, the default in ranks."""
    lines = cell.splitlines()
    for at, line in enumerate(lines):
        if _INLINE.fullmatch(line) and _is_command(lines, at + 1, SyntaxError()):
            indent = line[: len(line) - len(line.lstrip())]
            lines[at] = f"{indent}pass  # {line.strip()}"
    return "\n".join(lines) + "\n" * cell.endswith("\n")


@contextlib.contextmanager
def explained(cell: str) -> Iterator[None]:
    """Check the text of a cell that the block plans. Raises UsageMistake with the line and what to type."""
    if not cell.strip():
        raise UsageMistake("the cell is empty: write the program of the ranks below %%distributed")
    _check_coding(cell)
    if all(not line.strip() or line.lstrip().startswith("#") for line in cell.splitlines()):
        raise UsageMistake("the cell holds only comments: write the program of the ranks in it")
    try:
        yield
    except SyntaxError as error:
        raise UsageMistake(_about(cell, error)) from None


def name_origins(shell: InteractiveShell | None) -> Callable[[str], Origin | None]:
    """Return a function that finds the origin of a name in this notebook."""

    def origin(name: str) -> Origin | None:
        if shell is None:
            return None
        from nbdist.preflight import origin_of

        namespace = {} if name in shell.user_ns_hidden else shell.user_ns
        history = shell.history_manager
        return origin_of(name, namespace, history.input_hist_parsed if history is not None else ())

    return origin


def notebook_names(shell: InteractiveShell | None) -> runner.Namespace:
    """Return the names of this notebook, or program, for its ranks. Code has its cell's title: ``In [5]``."""
    if shell is None:
        return runner.Namespace(values=vars(sys.modules["__main__"]))

    def title(filename: str) -> str:
        cell: tuple[str, str] | None = shell.compile.format_code_name(filename)
        return cell[1].replace("In[", "In [") if cell is not None else filename

    return runner.Namespace(values=shell.user_ns, hidden=shell.user_ns_hidden, title=title)


def _check_coding(cell: str) -> None:
    """Refuse a declared encoding other than UTF-8: the ranks would read other characters."""
    try:
        coding, _ = tokenize.detect_encoding(io.BytesIO(cell.encode(errors="replace")).readline)
    except SyntaxError as error:
        raise UsageMistake(f"the cell names an unknown encoding ({error.msg}): delete this line") from None
    if coding not in ("utf-8", "utf-8-sig"):
        raise UsageMistake(f"the cell says that it is written in {coding}, and is UTF-8: delete this line")


def _about(cell: str, error: SyntaxError) -> str:
    lines = cell.splitlines()
    for number, line in enumerate(lines, start=1):
        if _is_command(lines, number, error):
            if instead := options.instead_of(line.strip().lstrip("!%").removeprefix("sh ")):
                return (
                    f"line {number} of the cell starts another launcher, and so does %%distributed: "
                    f"write  {instead}  in a cell of its own"
                )
            instead = _instead(line.strip())
            return f"line {number} of the cell is a notebook command, which ranks cannot run: {instead}"
    where = f"line {error.lineno} of the cell" if error.lineno else "the cell"
    text = lines[error.lineno - 1].strip() if error.lineno and error.lineno <= len(lines) else ""
    return f"{where} does not compile: {error.msg}" + (f": {text}" if text else "")


def _is_command(lines: list[str], number: int, error: SyntaxError) -> bool:
    """Return whether a line is an IPython command, without which the lines above it compile."""
    line = lines[number - 1]
    if not _COMMAND.match(line) or number > (error.lineno or number):
        return False
    indent = line[: len(line) - len(line.lstrip())]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile("\n".join([*lines[: number - 1], f"{indent}pass"]), "<cell>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _instead(line: str) -> str:
    for pattern, instead in _INSTEAD:
        if (match := pattern.match(line)) is not None:
            return f"{line}: {match.expand(instead)}"
    return f"move  {line}  to a cell of its own"
