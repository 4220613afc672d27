"""Names that are not there: a key, a column or an attribute that is spelt otherwise, or was taken away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from nbdist.diagnosis.clues.origins import origin_of
from nbdist.diagnosis.clues.unset import uses
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import holds, node_at, own_nodes
from nbdist.store.reports import Call
from nbdist.text import Both, both

_KEY = re.compile(r"^KeyError: '(?P<key>[^']+)'$")

_KEYS = re.compile(r"dict of \d+ \((?P<keys>.+)\)$")

_NUMBER_KEY = re.compile(r"^KeyError: (?P<key>-?\d+)$")

_LISTED = re.compile(
    r"(?:not (?:be )?f(?:ou|i)nd|not in|unknown|invalid|available|not a valid|must be one of|expected one of)"
    r"[^\[\](){}]{0,200}(?:[\[{]|\((?='[^']*',))(?P<names>'[^\])}]+')[\])}]",
    re.IGNORECASE,
)

_OF_PANDAS = re.compile(r"/pandas/core/indexes/")
_LEAVES_OUT = re.compile(
    r"\.(?:dropna|drop_duplicates|drop|query|sample|head|nlargest|merge|isin)\(|[<>]|[=!]="
)
_QUOTED = re.compile(r"['`]([\w./:-]+)['`]")

_SHOWN = 200

_MISSING = re.compile(r"(?:no attribute|^name) '(?P<name>\w+)'")

_FETCHES = re.compile(r"/torch/utils/data/_utils/fetch\.py$")

_TRAINER = re.compile(r"/transformers/trainer\.py$")

_KEEPS_COLUMNS = re.compile(r"remove_unused_columns['\"]?\s*[=:]\s*False")

_LABELS = frozenset({"label", "labels", "label_ids"})
"""Columns that the Trainer keeps, whatever forward() names."""

_TIMES = re.compile(
    r"'(?:eval_(?:\w+_)?(?:runtime|samples_per_second|steps_per_second|model_preparation_time|jit_compilation_time)"
    r"|epoch)'"
)
"""What the Trainer adds to an evaluation, whatever came of it."""

_BEST = re.compile(r"`metric_for_best_model` training argument is set to '[^']+'[^\[]*\[(?P<names>[^\]]*)\]")

_EVALUATES = re.compile(r"def (?:prediction_step|evaluation_loop|evaluate)\b.*\bself\b")
"""What a Trainer of the program's own may do instead."""

_LEAST = 5
"""Letters of a word in which a slip can be told from another word."""


def of_key(failure: Failure) -> Hint | None:
    """Of a key that is missing: one that is nearly the same in the program, or those that there are."""
    said = failure.said
    found, at = _KEY.match(said), failure.place
    if found is None or at is None:
        return None
    key = found["key"]
    for node in ast.walk(parsed(failure.sources.text(at.file)) or ast.Module([], [])):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_slip(key, node.value):
            return hint("key-misspelt", key=repr(key), near=repr(node.value), line=node.lineno)
    if failure.report is not None and failure.report.near:
        return hint("key-nearly", key=repr(key), near=repr(failure.report.near))
    return _row_of_table(repr(key), failure) or _not_in(repr(key), failure)


def _row_of_table(key: str, failure: Failure) -> Hint | None:
    """Of a row that a table does not have, with the line that leaves rows out."""
    at, own = failure.place, list(failure.own_frames)
    if at is None or not own or not _OF_PANDAS.search(failure.frames[-1].file):
        return None
    call = Call(file=at.file, line=at.line, function=at.function)
    for node in ast.walk(node_at(call, failure.sources) or ast.Pass()):
        # of  df.loc[rows, columns]  it may be a column
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Tuple):
            continue
        if isinstance(node.value, ast.Attribute) and node.value.attr in ("loc", "at"):
            name = ast.unparse(node.value.value)
            made = origin_of(name, own, failure)
            leaves = made is not None and _LEAVES_OUT.search(made.source)
            told = (
                both("diagnosis.leaves-rows-out", line=made.line, source=made.source)
                if made is not None and leaves
                else Both("", "")
            )
            return hint("row-not-there", name=name, key=key, left=told)
    return None


def of_number_key(failure: Failure) -> Hint | None:
    """Of a number that is missing in a dict which has it as a text, or in the only one that the line asks."""
    said = failure.said
    found = _NUMBER_KEY.match(said)
    if found is None:
        return None
    for one in failure.operands:
        keys = _KEYS.search(one.what)
        if keys is not None and f"'{found['key']}'" in keys["keys"].split(", "):
            return hint("key-of-other-type", name=one.name, key=found["key"], near=repr(found["key"]))
    return _not_in(found["key"], failure) if failure.frames[-1] == failure.place else None


def _not_in(key: str, failure: Failure) -> Hint | None:
    """Of a key, as it is written, that the dicts in the failing line lack: with what the first has."""
    keys = {one.name: found["keys"] for one in failure.operands if (found := _KEYS.search(one.what))}
    others = _asked_for_others(key, failure)
    for name, those in keys.items():
        if name not in others and key not in those.split(", "):
            return hint("key-not-there", name=name, key=key, keys=those)
    return None


def _asked_for_others(key: str, failure: Failure) -> set[str]:
    """What the failing line asks for keys that are written there, and not for this one:  row["id"] ."""
    at = failure.place
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources) if at else None
    asked: dict[str, set[str | None]] = {}
    for node in own_nodes(statement) if statement is not None else ():
        if isinstance(node, ast.Subscript):
            written = repr(node.slice.value) if isinstance(node.slice, ast.Constant) else None
            asked.setdefault(ast.unparse(node.value), set()).add(written)
    return {name for name, those in asked.items() if None not in those and key not in those}


def _is_slip(one: str, other: str) -> bool:
    """Whether two words differ by capitals, by letters that changed places, or by one letter within."""
    shorter, longer = sorted((one, other), key=len)
    if one == other or len(shorter) < _LEAST:
        return False
    within = range(1, len(longer) - 1) if len(longer) == len(shorter) + 1 else ()
    swapped = sorted(one) == sorted(other) and one.isalpha()
    return (
        one.lower() == other.lower()
        or swapped
        or any(longer[at].isalpha() and longer[:at] + longer[at + 1 :] == shorter for at in within)
    )


def of_names(failure: Failure) -> Hint | None:
    """Of a name that is not among those that the error's own text lists, with the nearest of them."""
    report = failure.report
    said = report.message if report is not None else ""
    listed = _LISTED.search(said)
    if listed is None:
        return None
    names = _QUOTED.findall(listed["names"])
    before = [name for name in _QUOTED.findall(said[: listed.start("names")]) if name not in names]
    if not before or not names:
        return None
    alike = [one for one in names if _ends_alike(before[-1], one)]
    near = next(iter(get_close_matches(before[-1], alike or names, n=1, cutoff=0 if alike else 0.6)), None)
    told = both("diagnosis.nearest", near=repr(near)) if near is not None else Both("", "")
    return hint("name-not-listed", name=repr(before[-1]), names=", ".join(names)[:_SHOWN], near=told)


def _ends_alike(one: str, other: str) -> bool:
    """Whether the last words of two names are the same: ``val/snr``, ``snr``."""
    return re.split(r"[/_.]", one)[-1] == re.split(r"[/_.]", other)[-1]


def of_best(failure: Failure) -> Hint | None:
    """Of a metric by which transformers' Trainer looks for the best model, where an evaluation gave nothing
    but times: without labels in its batches there is neither a loss nor a call of compute_metrics()."""
    if failure.report is None:
        return None
    found = _BEST.search(failure.report.message)
    if found is None or not found["names"] or _TIMES.sub("", found["names"]).strip(", "):
        return None
    files = {frame.file for frame in failure.report.frames if failure.sources.is_own(frame.file)}
    if any(_EVALUATES.search(failure.sources.text(file)) for file in files):
        return None
    return hint("no-labels-evaluated")


def of_columns(failure: Failure) -> Hint | None:
    """Of a key that a collator or a compute_loss() misses, which transformers' Trainer has called: it drops
    the columns that forward() does not name, unless it is told to keep them."""
    said = failure.said
    found = _KEY.match(said)
    collates = any(
        _FETCHES.search(frame.file) and frame.source.startswith("return self.collate_fn")
        for frame in failure.frames
    )
    trains = any(_TRAINER.search(frame.file) for frame in failure.frames)
    if found is None or not trains or not (collates or _is_of_batch(found["key"], failure)):
        return None
    files = {frame.file for frame in failure.frames if failure.sources.is_own(frame.file)}
    if any(_KEEPS_COLUMNS.search(failure.sources.text(file)) for file in files):
        return None
    return hint("columns-dropped", key=repr(found["key"]))


def _is_of_batch(key: str, failure: Failure) -> bool:
    """Whether a compute_loss() that the Trainer has called was the first to ask its batch for a key."""
    at = failure.place
    if at is None or at.function != "compute_loss" or key in _LABELS or failure.frames[-1] != at:
        return False
    callers = [frame for frame in failure.frames[:-1] if not failure.sources.is_own(frame.file)]
    tree = parsed(failure.sources.text(at.file)) or ast.Module([], [])
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and holds(node, at.line)
    ]
    if not callers or _TRAINER.search(callers[-1].file) is None or not functions:
        return False
    names = {one.arg for one in functions[-1].args.args}
    asked = [line for name, line in _asked_of(functions[-1], key) if name in names]
    return asked != [] and min(asked) == at.line


def _asked_of(function: ast.FunctionDef, key: str) -> Iterator[tuple[str, int]]:
    """What a key is taken from in a function,  inputs["weight"]  or  inputs.pop("weight") , and the lines."""
    for node in ast.walk(function):
        of, by = (node.value, node.slice) if isinstance(node, ast.Subscript) else (None, None)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop":
            of, by = node.func.value, next(iter(node.args), None)
        if isinstance(of, ast.Name) and isinstance(by, ast.Constant) and by.value == key:
            yield of.id, of.lineno


def of_near(failure: Failure) -> Hint | None:
    """Of a name or an attribute that is missing, and nearly the same as one that there is."""
    missing = _MISSING.search(failure.report.message) if failure.report is not None else None
    if missing is None or failure.report is None or not failure.report.near:
        return None
    # a slip is made once
    if failure.report.type == "NameError" and failure.place is not None:
        tree = parsed(failure.sources.text(failure.place.file))
        if tree is not None and len(uses(missing["name"], tree)) > 1:
            return None
    return hint("name-misspelt", name=missing["name"], near=failure.report.near)
