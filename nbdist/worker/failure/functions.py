"""Functions as they are written. A file of a library has thousands of lines, which take long to parse: the
lines of the function that is asked for are enough."""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

_CLOSES = ("#", ")", "]", "}")
"""How a line may begin that is of a function and not further in than it."""


def alone(lines: Sequence[str], code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """A function by its own lines, numbered as in its file. None where these cannot be told from the rest,
    and of a lambda, a comprehension or a module."""
    first = code.co_firstlineno - 1
    if code.co_name.startswith("<") or not 0 <= first < len(lines):
        return None
    indent = _indent(lines[first])
    end = max((line for *_, line in code.co_lines() if line is not None), default=first + 1)
    while end < len(lines) and _is_within(lines[end], indent):
        end += 1
    cut = "".join(lines[first:end])
    try:
        tree = ast.parse(f"if 1:\n{cut}" if indent else cut)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    body = tree.body[0].body if indent and isinstance(tree.body[0], ast.If) else tree.body
    function = body[0] if len(tree.body) == len(body) == 1 else None
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name != code.co_name:
        return None
    ast.increment_lineno(tree, first - (1 if indent else 0))
    return function


def _is_within(line: str, indent: int) -> bool:
    text = line.strip()
    return not text or _indent(line) > indent or text.startswith(_CLOSES)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
