"""Sequences for a recurrent layer: which axis is the batch, its states, and how they are packed."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.clues.origins import origin_of
from nbdist.diagnosis.clues.shapes import ARRAY, FEATURES, SHAPE
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head, node_at
from nbdist.store.reports import Call
from nbdist.text import Both, both

_STATES = re.compile(
    r"Input and PreState should be equal\. But received (\d+) and (\d+)"
    r"|Expected hidden(?:\[\d\])? size \(\d+, (\d+), \d+\), got \[\d+, (\d+), \d+\]"
)
_KINDS = ("LSTM", "GRU", "RNN", "SimpleRNN")
_OF_SERIES = 3
"""Dimensions of a batch of series."""

_RECURRENT = re.compile(r"\b(LSTM|GRU|RNN|SimpleRNN)\(")
_PACKS = "pack_padded_sequence"
_OF_PACKING = re.compile(r"/torch/nn/utils/rnn\.py$")
_TENSOR = re.compile(r"Tensor \((?P<shape>[\d, ]*)\) (?P<dtype>\w+)")
_PLAIN = re.compile(r"(?:list|tuple) of ")
_SIZES = re.compile(
    r"index out of range in self|INDICES element is out of DATA bounds|Expected `len\(lengths\)` to be equal"
)
"""What torch raises where there are more lengths than sequences, or fewer."""


def of_folded(failure: Failure) -> Hint | None:
    """Of one row that has as many features as a whole batch, in a file with a recurrent layer: the last state
    of that has the layers first, and flatten() makes one row of the rest."""
    said = FEATURES.search(failure.complaint.root.text) if failure.complaint is not None else None
    if said is None or failure.place is None:
        return None
    got, wanted = (int(number) for number in said.groups() if number is not None)
    is_one_row = any(found[1] == "1" for one in failure.operands if (found := SHAPE.search(one.what)))
    # of a batch of one, nothing is folded
    if got == wanted or got % wanted or not (is_one_row or "(1x" in said[0]):
        return None
    layer = _RECURRENT.search(failure.sources.text(failure.place.file))
    values = {"got": got, "rows": got // wanted, "wanted": wanted}
    return hint("state-flattened", layer=layer[1], **values) if layer is not None else None


def of_turned(failure: Failure) -> Hint | None:
    """Of a recurrent layer that takes the first two axes of a batch the other way round: the states are for
    as many as the other axis has."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    sizes = _STATES.search(said)
    own = list(failure.own_frames)
    if sizes is None or not own:
        return None
    batch, state = (int(one) for one in sizes.groups() if one is not None)
    layers = [one.name for one in failure.operands if one.what in _KINDS]
    for one in failure.operands:
        found = ARRAY.match(one.what)
        shape = tuple(map(int, re.findall(r"\d+", found["shape"]))) if found is not None else ()
        if len(shape) != _OF_SERIES or sorted(shape[:2]) != sorted((batch, state)) or batch == state:
            continue
        at = origin_of(layers[0], own, failure) if len(layers) == 1 else None
        where = (
            both("diagnosis.value-origin", line=at.line, source=at.source) if at is not None else Both("", "")
        )
        row = "batch-is-second" if shape[1] == batch else "batch-is-first"
        row = f"paddle-{row}" if "PreState" in said else row
        return hint(row, name=one.name, shape=list(shape), state=state, batch=batch, where=where)
    return None


def of_state(failure: Failure) -> Hint | None:
    """Of the state of a GRU of torch, in whose line it was asked for what it has not."""
    last = failure.frames[-1] if failure.frames else None
    if last is None or not last.file.endswith("/torch/nn/modules/rnn.py"):
        return None
    # an LSTM asks for  hx[0]
    is_state = "hx" in last.source and "hx[" not in last.source
    return hint("state-of-gru") if is_state and failure.found.get("type") == "tuple" else None


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
