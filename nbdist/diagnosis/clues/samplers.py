"""Datasets and the samplers that are given them, of which one counts other samples than the other."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head, holds, node_at
from nbdist.store.reports import Call

_OF_LOADERS = re.compile(r"/(?:torch/utils/data|paddle/io)/")
_PICKS = re.compile(r"Sampler$|^Subset$")


def of_sampler(failure: Failure) -> Hint | None:
    """Of a sample that a loader has asked for and the dataset does not have, where this says itself how many
    it has: by what was drawn from, something else than the dataset."""
    at = failure.place
    if at is None or at.function != "__getitem__":
        return None
    outer = failure.report.frames if failure.report is not None else ()
    if not any(_OF_LOADERS.search(frame.file) for frame in (*failure.frames, *outer)):
        return None
    tree = parsed(failure.sources.text(at.file)) or ast.Module([], [])
    classes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and holds(one, at.line)]
    methods = (
        {one.name: one for one in classes[-1].body if isinstance(one, ast.FunctionDef)} if classes else {}
    )
    said, read = methods.get("__len__"), methods.get("__getitem__")
    statement = node_at(Call(file=at.file, line=at.line, function=at.function), failure.sources)
    if said is None or read is None or len(read.args.args) < 2 or statement is None:
        return None
    counted = _counted(said)
    asked = f"[{read.args.args[1].arg}]"
    if counted is None or not any(
        ast.unparse(one) in (f"{counted}{asked}", f"{counted}.iloc{asked}") for one in ast.walk(statement)
    ):
        return None
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call))
    picking = [one for one in calls if _PICKS.search(ast.unparse(one.func).rpartition(".")[2])]
    if len(picking) != 1:
        return None
    (pick,) = picking
    return hint(
        "sampler-of-other-rows", line=pick.lineno, source=head(pick), counted=counted, at=said.body[-1].lineno
    )


def _counted(method: ast.FunctionDef) -> str | None:
    """``self.df`` of a method that does nothing else than to return its length."""
    last = method.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    returns = [one for one in ast.walk(method) if isinstance(one, ast.Return)]
    if len(returns) == 1 and isinstance(value, ast.Call) and ast.unparse(value.func) == "len" and value.args:
        return ast.unparse(value.args[0])
    return None
