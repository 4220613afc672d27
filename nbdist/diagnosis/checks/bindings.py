"""Which names a part of a program binds, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def bound_names(statements: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """The names that statements bind in their own scope, each with a line."""
    queue = list(statements)
    while queue:
        node = queue.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
                queue += node.decorator_list
                continue
            case ast.Lambda():
                continue
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield node.id, node.lineno
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    yield alias.asname or alias.name.partition(".")[0], node.lineno
            case ast.ExceptHandler(name=str(name)):
                yield name, node.lineno
            case (
                ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name))
            ):
                yield name, node.lineno
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                # only := leaves a comprehension
                yield from (
                    (inner.target.id, inner.lineno)
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name)
                )
                continue
        queue += ast.iter_child_nodes(node)


def without_additions(body: Iterable[ast.stmt]) -> list[ast.AST]:
    """The statements, but for the targets of ``+=``, which need what they bind."""
    kept: list[ast.AST] = []
    for statement in body:
        if isinstance(statement, ast.AugAssign):
            kept.append(statement.value)
        elif isinstance(
            statement, (ast.For, ast.While, ast.If, ast.With, ast.AsyncFor, ast.AsyncWith, ast.Try)
        ):
            for _, value in ast.iter_fields(statement):
                parts = value if isinstance(value, list) else [value]
                statements = [part for part in parts if isinstance(part, ast.stmt)]
                handlers = [part for part in parts if isinstance(part, ast.ExceptHandler)]
                kept += without_additions(statements)
                for handler in handlers:
                    kept += [ast.ExceptHandler(name=handler.name, body=[], lineno=handler.lineno)]
                    kept += without_additions(handler.body)
                kept += [
                    p for p in parts if isinstance(p, ast.AST) and p not in statements and p not in handlers
                ]
        else:
            kept.append(statement)
    return kept


def bound_by_global(tree: ast.Module) -> set[str]:
    """What functions give the module by ``global``."""
    found: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTION):
            sent = {n for s in statements_of(function.body) if isinstance(s, ast.Global) for n in s.names}
            if sent:
                found |= sent & {name for name, _ in bound_names(without_additions(function.body))}
    return found


def statements_of(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of a function's body, but not those of functions and classes in it."""
    queue = list(body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_FUNCTION, ast.Lambda, ast.ClassDef)):
            queue += ast.iter_child_nodes(node)


def arguments_of(arguments: ast.arguments) -> list[ast.arg]:
    more = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
