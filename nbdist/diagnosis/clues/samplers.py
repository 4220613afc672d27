"""Datasets and the samplers that are given them, of which one counts other samples than the other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head, holds, node_at
from nbdist.store.reports import Call

_OF_LOADERS = re.compile(r"/(?:torch/utils/data|paddle/io)/")
_FETCHES = re.compile(r"/(?:torch/utils/data/_utils/fetch|paddle/io/dataloader/fetcher)\.py$")
_DATASETS = re.compile(r"/(?:torch/utils/data|paddle/io/dataloader)/dataset\.py$")
_BEYOND = re.compile(r"^IndexError: .*out of (?:bounds|range)")
_LONG = re.compile(r"(?:list|tuple) of (\d+)")
_LOADER = "DataLoader"
_SOURCES = ("sampler", "dataset", "data_source", "indices", "weights")
_Drawn = tuple[ast.Call, ast.expr]
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
    subscripts = map(ast.unparse, (one for one in ast.walk(statement) if isinstance(one, ast.Subscript)))
    by_index = {one for one in subscripts if one.endswith(asked)}
    # labels may be fewer than inputs
    if not by_index or not by_index <= {f"{counted}{asked}", f"{counted}.iloc{asked}"}:
        return None
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call))
    picking = [one for one in calls if _PICKS.search(ast.unparse(one.func).rpartition(".")[2])]
    if len(picking) != 1:
        return None
    (pick,) = picking
    return hint(
        "sampler-of-other-rows", line=pick.lineno, source=head(pick), counted=counted, at=said.body[-1].lineno
    )


def of_fetched(failure: Failure) -> Hint | None:
    """Of an index that a loader has asked its dataset for, which is an array or a dataset of the framework's
    and counts its own rows: by a sampler of something else."""
    at, frames = failure.place, failure.frames
    fetched = [number for number, one in enumerate(frames) if _FETCHES.search(one.file)]
    if at is None or not fetched or not _BEYOND.match(failure.said):
        return None
    within = frames[fetched[-1] + 1 :]
    # one dataset within another may have asked it for what that has not
    named = [one for one in within if not one.function.startswith("<")]
    if len(named) > 1 or not all(_DATASETS.search(one.file) for one in within):
        return None
    if within and "self.indices" in within[-1].source and not _is_past_indices(failure):
        return None
    found = [
        (file, *told)
        for file in dict.fromkeys([at.file, *(one.file for one in failure.own_frames)])
        for told in _unlike(parsed(failure.sources.text(file)) or ast.Module([], []))
    ]
    if len(found) != 1:
        return None
    ((file, loader, data, (pick, drawn)),) = found
    lines = {"line": failure.sources.at(file, loader.lineno), "at": failure.sources.at(file, pick.lineno)}
    return hint("sampler-of-other-data", **lines, data=head(data), drawn=head(drawn))


def _is_past_indices(failure: Failure) -> bool:
    """Whether a part of a dataset was asked for more than it has indices."""
    if "range object" in failure.said:
        return True
    inside = failure.report.inside if failure.report is not None else ()
    what = {one.name: one.what for one in inside}
    length, asked = _LONG.match(what.get("self.indices", "")), what.get("idx", "")
    return length is not None and asked.isdecimal() and int(asked) >= int(length[1])


def _unlike(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.expr, _Drawn]]:
    """The loaders of a program that are given a sampler of something else than their dataset, with both."""
    nodes = list(ast.walk(tree))
    for call in nodes:
        if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] != _LOADER:
            continue
        given = {one.arg: one.value for one in call.keywords}
        data = call.args[0] if call.args else given.get("dataset")
        sampler = given.get("sampler") or given.get("batch_sampler")
        drawn = _drawn(sampler, nodes) if sampler is not None else None
        if data is not None and drawn is not None and ast.unparse(drawn[1]) != ast.unparse(data):
            yield call, data, drawn


def _drawn(sampler: ast.expr, nodes: Sequence[ast.AST]) -> _Drawn | None:
    """The call that makes a sampler, and what that draws from; None where it may be one of several."""
    if isinstance(sampler, ast.Name | ast.Attribute):
        name = ast.unparse(sampler)
        made = [one for one in nodes if isinstance(one, ast.Assign) and name in map(ast.unparse, one.targets)]
        return (
            _drawn(made[0].value, nodes) if len(made) == 1 and isinstance(made[0].value, ast.Call) else None
        )
    kind = ast.unparse(sampler.func).rpartition(".")[2] if isinstance(sampler, ast.Call) else ""
    if not isinstance(sampler, ast.Call) or not kind.endswith("Sampler"):
        return None
    given = {one.arg: one.value for one in sampler.keywords}
    first = sampler.args[0] if sampler.args else next((given[key] for key in _SOURCES if key in given), None)
    if kind == "BatchSampler" and first is not None and "dataset" not in given:
        # that of paddle may be given a dataset, and that of torch is not
        return _drawn(first, nodes)
    return (sampler, first) if first is not None and not isinstance(first, ast.Starred) else None


def _counted(method: ast.FunctionDef) -> str | None:
    """``self.df`` of a method that does nothing else than to return its length."""
    last = method.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    returns = [one for one in ast.walk(method) if isinstance(one, ast.Return)]
    if len(returns) == 1 and isinstance(value, ast.Call) and ast.unparse(value.func) == "len" and value.args:
        return ast.unparse(value.args[0])
    return None
