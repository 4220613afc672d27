"""Samples of a dataset: some of which a DataLoader cannot make a batch, and one that is taken for a batch."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import around, head, iterables, node_at
from nbdist.store import ErrorFrame
from nbdist.store.reports import Call

_OF_LOADER = re.compile(r"/(?:torch/utils/data|paddle/io/dataloader)/")
_COLLATE = re.compile(r"/(?:_utils|dataloader)/collate\.py$")
_STACKED = re.compile(
    r"(?:list|tuple) of \d+ \(\w+ \((?P<one>[\d, ]+)\), at (?P<at>\d+): \((?P<other>[\d, ]+)\)\)$"
)
_SAID = re.compile(
    r"equal size, but got \[(?P<one>[\d, ]+)\] at entry 0 and \[(?P<other>[\d, ]+)\] at entry (?P<at>\d+)"
)
_CHANNELS = frozenset({1, 3, 4})
_FLAT, _ROWS, _PICTURE = 1, 2, 3
_MOST_NUMBERS = 100
"""What stands for one row of a table, and not of a picture."""

_LEAST_SIDE = 16
"""Of a picture: what is smaller counts persons, boxes or points."""


_OF_SHAPES = re.compile(
    r"shape|size|dim|channel|elements|axis|\d-?D\b|must be Tensor, but got (?:numpy|int|float)|multiplied"
    r"|must be Tensor, not|invalid combination"
)
_OF_ITEMS = re.compile(r"too many indices|values to unpack")
"""What a line of the program says that goes over samples."""

_DATASETS = re.compile(r"(?P<name>(?!\w*(?:Batch|Web))\w*Dataset|Subset)\b")
_MAKES_BATCH = re.compile(
    r"unsqueeze_?\((?:\w+=)?\[?0\b|expand_dims|newaxis|\[None\b|stack|collate|(?:view|reshape)\(1\b"
)
_PASSES_ON = ("enumerate", "tqdm")


def of_single(failure: Failure) -> Hint | None:
    """Of a loop over the dataset in place of its loader, the samples of which a library takes for batches."""
    said = failure.said
    own = not failure.frames or failure.sources.is_own(failure.frames[-1].file)
    if (_OF_ITEMS if own else _OF_SHAPES).search(said) is None:
        return None
    for frame in reversed(list(failure.own_frames)):
        call = Call(file=frame.file, line=frame.line, function=frame.function)
        for loop, part in reversed(around(call, failure.sources)):
            if not isinstance(loop, ast.For) or not _is_over_dataset(loop, frame, failure):
                continue
            line = failure.sources.at(frame.file, loop.lineno)
            # what it takes apart has not as many parts as a batch
            if frame.line == loop.lineno and own and isinstance(loop.target, ast.Tuple):
                return hint("loop-over-dataset", loop=head(loop), line=line)
            if part == "body":
                if _MAKES_BATCH.search("\n".join(map(ast.unparse, loop.body))):
                    return None
                statement = node_at(call, failure.sources)
                reads = {one.id for one in ast.walk(statement or loop) if isinstance(one, ast.Name)}
                given = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
                return hint("loop-over-dataset", loop=head(loop), line=line) if reads & given else None
    return None


def _is_over_dataset(loop: ast.For, frame: ErrorFrame, failure: Failure) -> bool:
    over = loop.iter
    while isinstance(over, ast.Call) and over.args and ast.unparse(over.func) in _PASSES_ON:
        over = over.args[0]
    if isinstance(over, ast.Attribute) and over.attr == "dataset":
        return True
    values = failure.report.values if failure.report is not None else ()
    what = {one.name: one.what for one in values if (one.file, one.line) == (frame.file, loop.lineno)}
    kind = _DATASETS.match(what.get(ast.unparse(over), ""))
    # one of the program may say itself what a round has
    own = {one.name for one in iterables(frame.file, failure.sources)}
    return kind is not None and kind["name"] not in own


def of_shapes(failure: Failure) -> Hint | None:
    """Of samples that a loader could not stack: by their shapes, which the error or the failing call has."""
    if not any(_OF_LOADER.search(frame.file) for frame in failure.frames):
        return None
    operands = failure.report.operands if failure.report is not None else ()
    said = [one.what for one in operands if one.name == "batch" and _COLLATE.search(one.file)]
    message = failure.said
    found = next(filter(None, map(_STACKED.match, said)), None) or _SAID.search(message)
    if found is None:
        return None
    one, other = (tuple(map(int, re.findall(r"\d+", found[name]))) for name in ("one", "other"))
    values = {"one": str(list(one)), "other": str(list(other)), "at": found["at"]}
    if len(one) == len(other) == _FLAT:
        return hint("collate-lengths", **values)
    if len(one) == len(other) == _ROWS and one[1] == other[1] < _MOST_NUMBERS:
        return hint("collate-rows", one=one[0], other=other[0], numbers=one[1])
    if {len(one), len(other)} == {_ROWS, _PICTURE} or _differ_in_channels(one, other):
        return hint("collate-channels", **values)
    if len(one) == len(other) == _PICTURE and _channels(one) & _channels(other):
        return hint("collate-pictures", **values)
    return None


def _differ_in_channels(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    if not len(one) == len(other) == _PICTURE:
        return False
    unlike = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    alike = [a for a, b in zip(one, other, strict=True) if a == b]
    return len(unlike) == 1 and {*unlike[0]} <= _CHANNELS and min(alike) >= _LEAST_SIDE


def _channels(shape: tuple[int, ...]) -> set[tuple[int, int]]:
    """The first or the last size, where it may be that of the channels of a picture."""
    sides = {0: shape[1:], -1: shape[:-1]}
    return {(at, shape[at]) for at in sides if shape[at] in _CHANNELS and min(sides[at]) >= _LEAST_SIDE}
