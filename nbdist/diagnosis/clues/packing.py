"""Sequences that are packed for a recurrent layer: which axis is the batch, which argument the lengths."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head, node_at
from nbdist.store.reports import Call

_PACKS = "pack_padded_sequence"
_OF_PACKING = re.compile(r"/torch/nn/utils/rnn\.py$")
_TENSOR = re.compile(r"Tensor \((?P<shape>[\d, ]*)\) (?P<dtype>\w+)")
_PLAIN = re.compile(r"(?:list|tuple) of ")
_SIZES = re.compile(
    r"index out of range in self|INDICES element is out of DATA bounds|Expected `len\(lengths\)` to be equal"
)
"""What is said where there are more lengths than sequences, or fewer."""


def of_packed(failure: Failure) -> Hint | None:
    """Of an error within ``pack_padded_sequence()``: by what it was given."""
    last, report = failure.frames[-1] if failure.frames else None, failure.report
    if last is None or report is None or last.function != _PACKS or not _OF_PACKING.search(last.file):
        return None
    inside = {one.name: one.what for one in report.inside if (one.file, one.line) == (last.file, last.line)}
    first = inside.get("input", "")
    lengths = _shape(inside.get("sorted_indices") or inside.get("lengths", ""))
    sequences, (x, second) = _shape(first), _given(failure)
    if len(lengths) > 1:
        # torch takes floats for lengths as well, and cuts them off
        swapped = _PLAIN.match(first) or (len(sequences) == 1 and " int" in first)
        if swapped:
            return hint("packed-swapped", lengths=x, x=second)
        return hint("lengths-on-gpu") if len(sequences) > 1 else None
    if len(lengths) != 1 or len(sequences) <= 1 or not _SIZES.search(failure.said):
        return None
    (count,) = lengths
    if sequences[:2].count(count) == 1:
        row = "packed-batch-first" if sequences[1] == count else "packed-batch-second"
        return hint(row, name=x, shape=f"({', '.join(map(str, sequences))})", count=count)
    axis = inside.get("batch_dim")
    return hint("lengths-of-batch", got=count, batch=sequences[int(axis)]) if axis in ("0", "1") else None


def _shape(what: str) -> tuple[int, ...]:
    """Empty of what is no tensor."""
    found = _TENSOR.match(what)
    return tuple(map(int, re.findall(r"\d+", found["shape"]))) if found is not None else ()


def _given(failure: Failure) -> tuple[str, str]:
    """What the program's line gives for the sequences and for their lengths, as it is written there."""
    at = failure.place
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources) if at else None
    for node in ast.walk(statement or ast.Pass()):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == _PACKS:
            named = {one.arg: one.value for one in node.keywords}
            found = [*node.args, *(named[key] for key in ("input", "lengths") if key in named)]
            if len(found) > 1 and not any(isinstance(one, ast.Starred) for one in found[:2]):
                return head(found[0]), head(found[1])
    return "x", "lengths"
