"""What the program and the values in the failing line tell of an error: a key that is spelt otherwise, a
sample that a dataset left out, a column that was matched with a row, the first variable that is nan."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from nbdist.diagnosis.origins import ZEROS, Origin, origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LOOPS, around, functions_of, head, holds, node_at, own_nodes, under
from nbdist.store.reports import Call
from nbdist.text import Both, both

_KEY = re.compile(r"^KeyError: '(?P<key>[^']+)'$")
_KEYS = re.compile(r"dict of \d+ \((?P<keys>.+)\)$")
_NUMBER_KEY = re.compile(r"^KeyError: (?P<key>-?\d+)$")
_ADDS = re.compile(r"operand type\(s\) for \+=?: ")
_TEXT = re.compile(r"str of \d+ characters$")
_TOO_MUCH = re.compile(r"(?:Unable to|tried to) allocate ([\d.]+ (?:[KMGTPE]iB|bytes))")
_SHAPE = re.compile(r"(?:Tensor|ndarray) \(([\d, ]+?),?\)")
_MANY = 1_000
_LISTED = re.compile(
    r"(?:not (?:be )?f(?:ou|i)nd|not in|unknown|invalid|available|not a valid|must be one of|expected one of)"
    r"[^\[\](){}]{0,200}(?:[\[{]|\((?='[^']*',))(?P<names>'[^\])}]+')[\])}]",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"['`]([\w./:-]+)['`]")
_SHOWN = 200
_VALUES = {
    ("None",): re.compile(r"^(?:Type|Attribute)Error: .*\bNoneType\b|\bmust be Tensor, but got None\b"),
    ZEROS: re.compile(r"^ZeroDivisionError: "),
}
_OF_TENSORS = re.compile(r"must be Tensor, (?:but got|not) None")
_LAYERS = re.compile(r"/(?:torch|paddle)/(?:nn|_tensor|tensor)\b")
"""Where a layer or a function checks what the program's line gave it."""

_MISSING = re.compile(r"(?:no attribute|^name) '(?P<name>\w+)'")
# of masks and the best so far, infinity is meant
_MEANT = re.compile(r"mask|bias|best|lowest|highest|min|max", re.IGNORECASE)
_IS_INFINITE = re.compile(r"""float\(['"][+-]?(?:inf|nan)|\b(?:math|np|numpy|torch|paddle)\.(?:inf|nan)\b""")
"""What makes it on purpose."""

_OF_RESULTS = re.compile(
    r" in .*(?:\.(?:items|values|parameters|buffers|modules)\(|loss|metric|output|grad|result|score)"
)
"""A loop over what the model made, and not over data."""

_NOT_FINITE = re.compile(r" (?:nan|inf)$")
_OF_EMPTY = re.compile(r"^IndexError: (?:(?:list|tuple) index out of range|pop from empty list)$")
_EMPTY = re.compile(r"(?:list|tuple) of 0")
_LISTS_FILES = re.compile(r"\b(?:r?glob|listdir|iterdir|scandir)\(")
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

_GOT_IDS = re.compile(
    r"Embedding with weight \((?P<rows>\d+),.*, got Tensor .*\bint\d+, (?P<low>-?\d+) to (?P<high>-?\d+)$"
)
_OF_POSITIONS = re.compile(r"(?<!\.[xyhw])[._](?:wpe|positions?)(?:_\w+)?$")
"""Of places in a text: coordinates of a page are x, y, height and width."""

_OF_TYPES = re.compile(r"\.token_type_embeddings?$")
_CUT = 80
"""Names as long as this may have lost their end."""

_COLLATE = re.compile(r"/(?:_utils|dataloader)/collate\.py$")
_OF_PLAIN = re.compile(r"\b(?:item|tolist|float|int|len)\(|^[\d.]+$")
"""What adds a plain number."""

_REPEATED = 2
_OF_MODULES = frozenset({"Module", "Layer", "LightningModule"})
_NO_TENSOR = re.compile(
    r"must be Tensor, not (?!None)\w+"
    r"|^AttributeError: '(?:float|int|str|list|tuple|dict|ndarray)' object has no attribute"
)
_IN_MODULE = re.compile(r"/torch/nn/modules/module\.py$")
_TAKES_HOOKS = "register_forward_hook"
_OF_NO_TENSOR = frozenset({"item", "tolist", "numpy", "float", "int", "str", "len", "list", "dict", "tuple"})
"""Calls whose result is none."""

_DEEPEST = 4
"""So many functions and names of a program are followed to see what a hook gives back."""

_LEAST = 5
"""Letters of a word in which a slip can be told from another word."""


def of_key(failure: Failure) -> Hint | None:
    """Of a key that is missing: one that is nearly the same in the program, or those that there are."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    found, at = _KEY.match(said), failure.place
    if found is None or at is None:
        return None
    key = found["key"]
    for node in ast.walk(parsed(failure.sources.text(at.file)) or ast.Module([], [])):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_slip(key, node.value):
            return hint("key-misspelt", key=repr(key), near=repr(node.value), line=node.lineno)
    if failure.report is not None and failure.report.near:
        return hint("key-nearly", key=repr(key), near=repr(failure.report.near))
    for one in failure.operands:
        if (keys := _KEYS.search(one.what)) is not None:
            return hint("key-not-there", name=one.name, key=repr(key), keys=keys["keys"])
    return None


def of_number_key(failure: Failure) -> Hint | None:
    """Of a number that is missing in a dict which has it as a text."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    found = _NUMBER_KEY.match(said)
    for one in failure.operands if found is not None else ():
        keys = _KEYS.search(one.what)
        if found is not None and keys is not None and f"'{found['key']}'" in keys["keys"].split(", "):
            return hint("key-of-other-type", name=one.name, key=found["key"], near=repr(found["key"]))
    return None


def of_text(failure: Failure) -> Hint | None:
    """Of a text where a number is wanted: by its name, where it is the one in the failing line, and what is
    below that speaks of it, too."""
    place = failure.place
    texts = [one for one in failure.operands if _TEXT.match(one.what)]
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    said = failure.complaint.root.text if failure.complaint is not None else ""
    # what is added may be meant to be a text
    if place is None or not own or _ADDS.search(said):
        return None
    if failure.frames[-1] is own[-1]:
        return hint("text-for-number", name=texts[0].name) if len(texts) == 1 else None
    call = Call(file=place.file, line=place.line, function=place.function)
    inner = failure.frames[-1].source
    for node in ast.walk(node_at(call, failure.sources) or ast.Pass()):
        name = ast.unparse(node.value) if isinstance(node, ast.keyword) else ""
        asked = (
            re.search(rf"\b{node.arg}\b(\[\d)?", inner)
            if isinstance(node, ast.keyword) and node.arg
            else None
        )
        if asked is not None and name in {one.name for one in texts}:
            return hint("text-for-numbers" if asked[1] else "text-for-number", name=name)
    return None


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


def of_sample(failure: Failure) -> Hint | None:
    """Of a batch that a DataLoader could not make since a sample was None."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    if "NoneType" not in said or not failure.frames or _COLLATE.search(failure.frames[-1].file) is None:
        return None
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    at = own[-1] if own else failure.place
    lines = _nothing_given(failure.sources.text(at.file)) if at is not None else []
    told = both("diagnosis.gives-none", lines=", ".join(map(str, lines))) if lines else Both("", "")
    return hint("sample-none", late=(failure.rank,), lines=told)


def of_broadcast(failure: Failure) -> Hint | None:
    """Of memory for each element of one value with each of another: one is a column, the other a row."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    size = _TOO_MUCH.search(said)
    shapes = {
        one.name: found[1].replace(",", "") for one in failure.operands if (found := _SHAPE.search(one.what))
    }
    for column, rows in shapes.items():
        for row, count in shapes.items():
            if size is not None and rows == f"{count} 1" and " " not in count and int(count) >= _MANY:
                shape = f"({count}, {count})"
                return hint("arrays-broadcast", size=size[1], column=column, row=row, shape=shape)
    return None


def of_hook(failure: Failure) -> Hint | None:
    """Of what is no tensor, in a model with a forward hook that gives one such back: torch puts that in the
    place of what the layer gave."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    own = [frame.file for frame in failure.frames if failure.sources.is_own(frame.file)]
    within = any(_IN_MODULE.search(frame.file) for frame in failure.frames)
    if not within or not _NO_TENSOR.search(said):
        return None
    for file in dict.fromkeys(own):
        tree = parsed(failure.sources.text(file)) or ast.Module([], [])
        functions: dict[str, list[ast.FunctionDef]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
        for given in _hooks(tree):
            for back, value in _given_by(given, functions):
                if _is_no_tensor(value, back, functions):
                    return hint("hook-gives-back", line=back.lineno, source=head(back))
    return None


def _hooks(tree: ast.Module) -> Iterator[ast.expr]:
    """What is registered as a forward hook."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(_TAKES_HOOKS):
            yield node.args[0]


def _given_by(
    hook: ast.expr, functions: Mapping[str, Sequence[ast.FunctionDef]]
) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr]]:
    """What a hook gives back, with the place: a function, a lambda, or a function that another one makes."""
    if isinstance(hook, ast.Lambda):
        yield hook, hook.body
        return
    made = isinstance(hook, ast.Call)
    name = ast.unparse(hook.func if isinstance(hook, ast.Call) else hook).rpartition(".")[2]
    for function in functions.get(name, ()) if len(functions.get(name, ())) == 1 else ():
        inner = [node for node in function.body if isinstance(node, ast.FunctionDef)]
        for one in inner if made else [function]:
            yield from _returned(one)


def _returned(function: ast.FunctionDef) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr]]:
    for node in (node for child in function.body for node in own_nodes(child)):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node, node.value


def _is_no_tensor(
    value: ast.expr, back: ast.AST, functions: Mapping[str, Sequence[ast.FunctionDef]], depth: int = 0
) -> bool:
    """Whether a value is surely no tensor, nor None, which a hook may give back."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, ast.Call):
        name = ast.unparse(value.func).rpartition(".")[2]
        made = functions.get(name, ())
        if len(made) == 1:
            return any(_is_no_tensor(one, node, functions, depth + 1) for node, one in _returned(made[0]))
        return name in _OF_NO_TENSOR
    if isinstance(value, ast.Name):
        line: int = getattr(back, "lineno", 0)
        within = (one for some in functions.values() for one in some if holds(one, line))
        inner = max(within, key=lambda one: one.lineno, default=ast.Module([], []))
        sets = [
            node.value
            for node in ast.walk(inner)
            if isinstance(node, ast.Assign) and value.id in map(ast.unparse, node.targets)
        ]
        return bool(sets) and all(_is_no_tensor(one, back, functions, depth + 1) for one in sets)
    constant = isinstance(value, ast.Constant) and value.value is not None
    return constant or isinstance(value, ast.JoinedStr | ast.List | ast.Dict | ast.ListComp | ast.DictComp)


def of_nan(failure: Failure) -> Hint | None:
    """Of a value that is not finite: the variable that was so first, in the outermost function with one."""
    values = failure.report.values if failure.report is not None else ()
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    for depth in range(1, len(own) + 1):
        at = own[depth - 1]
        here = [one for one in values if (one.file, one.line) == (at.file, at.line)]
        bad = {
            one.name: one.what for one in here if _NOT_FINITE.search(one.what) and not _MEANT.search(one.name)
        }
        set_at = (origin_of(name, own[:depth], failure) for name in bad)
        found = (one for one in set_at if one is not None and not _IS_INFINITE.search(one.source))
        if known := sorted(found, key=lambda one: one.line):
            return _nan(known[0], bad[known[0].name], failure)
    return None


def _nan(first: Origin, what: str, failure: Failure) -> Hint:
    of_data = first.source.startswith("for ") and not _OF_RESULTS.search(first.source)
    name = "nan-in-data" if of_data else "nan-first"
    values = {"name": first.name, "what": what, "line": first.line, "source": first.source}
    return hint(name, late=(failure.rank,), **values)


def of_empty(failure: Failure) -> Hint | None:
    """Of a place in a list that has none: with the line that set it. In a library it may be another list."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    if not _OF_EMPTY.search(said) or not own or failure.frames[-1] is not own[-1]:
        return None
    here = Call(file=own[-1].file, line=own[-1].line, function=own[-1].function)
    empty = {one.name for one in failure.operands if _EMPTY.fullmatch(one.what)} & set(_lists(here, failure))
    if len(empty) != 1:
        return None
    name = empty.pop()
    at = origin_of(name, own, failure)
    if at is None:
        return hint("list-empty", name=name, set=Both("", ""))
    row = "list-empty-files" if _LISTS_FILES.search(at.source) else "list-empty"
    return hint(row, name=name, set=both("diagnosis.set-at", line=at.line, source=at.source))


def _lists(call: Call, failure: Failure) -> Iterator[str]:
    """What a place is asked of in a line, or an item taken from."""
    for node in ast.walk(node_at(call, failure.sources) or ast.Module([], [])):
        asked = isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "pop")
        if asked and holds(node, call.line):
            yield ast.unparse(node.value)  # type: ignore[attr-defined]


def of_ids(failure: Failure) -> Hint | None:
    """Of an id that an embedding within a model does not have: of its positions, its kinds of token or its
    vocabulary, as the name of the layer tells."""
    for one in failure.operands:
        found = _GOT_IDS.match(one.what)
        if found is None or len(one.name) >= _CUT:
            continue
        rows, low, high = int(found["rows"]), int(found["low"]), int(found["high"])
        if low < 0:
            return hint("ids-negative", name=one.name, low=low)
        if high >= rows:
            row = "ids-past-vocabulary"
            if _OF_POSITIONS.search(one.name):
                row = "ids-past-positions"
            elif _OF_TYPES.search(one.name):
                row = "ids-past-types"
            return hint(row, name=one.name, rows=rows, last=rows - 1, high=high, count=high + 1)
    return None


def of_labels(label: str, failure: Failure) -> Hint | None:
    """Of a negative label that all samples of the batch have: they may never have been set."""
    alike = re.compile(rf"(?:Tensor|ndarray) .*\bint\d+, {re.escape(label)} to {re.escape(label)}$")
    named = [one.name for one in failure.operands if alike.match(one.what)]
    return hint("target-negative-all", name=named[0], label=label) if len(named) == 1 else None


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
    said = failure.complaint.root.text if failure.complaint is not None else ""
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
    return hint("name-misspelt", name=missing["name"], near=failure.report.near)


def of_value(failure: Failure) -> Hint | None:
    """Of the one value in the failing line that is None or 0, where the error is of such a one: with the line
    that set it."""
    said = failure.complaint.root.text if failure.complaint is not None else ""
    found = next((what for what, pattern in _VALUES.items() if pattern.search(said)), ())
    named = [one for one in failure.operands if one.what in found]
    if found is ZEROS and (divisors := _divisors(failure)):
        named = [one for one in named if one.name in divisors]
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    if len(named) != 1 or not own:
        return None
    within = failure.frames[failure.frames.index(own[-1]) + 1 :]
    if within and not (_OF_TENSORS.search(said) and all(_LAYERS.search(frame.file) for frame in within)):
        return None
    at = origin_of(named[0].name, own, failure, named[0].what)
    if at is None:
        return None
    if found is ZEROS:
        never = _never_added(at, failure) or _never_counted(at, failure)
        return never or hint("value-zero", name=at.name, line=at.line, source=at.source)
    if (given_back := _given_back(at, failure)) is not None:
        return given_back
    return hint("value-none", name=at.name, line=at.line, source=at.source)


def _divisors(failure: Failure) -> set[str]:
    """What the failing statement divides by, as it is written."""
    at = failure.place
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources) if at else None
    found: set[str] = set()
    for node in own_nodes(statement) if statement is not None else ():
        by = node.right if isinstance(node, ast.BinOp) else None
        by = node.value if isinstance(node, ast.AugAssign) else by
        if by is not None and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):  # type: ignore[attr-defined]
            found |= {ast.unparse(one) for one in ast.walk(by) if isinstance(one, ast.Name | ast.Attribute)}
    return found


def _never_added(at: Origin, failure: Failure) -> Hint | None:
    """Of a sum or a count that is 0 still: with the loop of the failing function that would have added to it,
    and is over."""
    loop = _adding_loop(at, failure)
    if loop is None:
        return None
    values = {"name": at.name, "line": loop.lineno, "loop": head(loop)}
    return hint("value-zero-never-added", late=(failure.rank,), **values)


def _adding_loop(at: Origin, failure: Failure) -> ast.stmt | None:
    """The loop of the failing function that adds to a name, and is over."""
    place = failure.place
    tree = parsed(failure.sources.text(at.file))
    if place is None or place.file != at.file or tree is None:
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.AugAssign) or ast.unparse(node.target) != at.name:
            continue
        here = Call(file=at.file, line=node.lineno, function="")
        loops = [step for step, _ in around(here, failure.sources) if isinstance(step, LOOPS)]
        over = [loop for loop in loops if at.line < loop.lineno and (loop.end_lineno or 0) < place.line]
        if over:
            return over[-1]
    return None


def _never_counted(at: Origin, failure: Failure) -> Hint | None:
    """Of a sum or a count of an object, as a meter has it: with the loop of a caller that would have called
    the method which adds to it, and is over."""
    tree = parsed(failure.sources.text(at.file)) or ast.Module([], [])
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and holds(node, at.line)]
    adds = {
        method.name
        for one in classes[-1:]
        for method in one.body
        if isinstance(method, ast.FunctionDef)
        for node in ast.walk(method)
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == at.name
    }
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    for frame, inner in zip(own[-2::-1], own[:0:-1], strict=True):
        # the line is told without its file
        if not failure.sources.is_program(frame.file):
            continue
        here = Call(file=frame.file, line=frame.line, function=frame.function)
        nodes = ast.walk(node_at(here, failure.sources) or ast.Pass())
        asked = [one for one in nodes if isinstance(one, ast.Attribute) and one.attr == inner.function]
        # of two meters, one may be of another loop
        found = [
            next(_over(here, {f"{ast.unparse(one.value)}.{add}" for add in adds}, failure), None)
            for one in asked
        ]
        loops = [loop for loop in found if loop is not None]
        if loops and len(loops) == len(asked):
            values = {"name": at.name, "line": loops[0].lineno, "loop": head(loops[0])}
            return hint("value-zero-never-added", late=(failure.rank,), **values)
    return None


def _over(here: Call, called: set[str], failure: Failure) -> Iterator[ast.stmt]:
    """The loops above a line of its function that call one of these."""
    for function in functions_of(here, failure.sources):
        for loop in (node for child in function.body for node in own_nodes(child)):
            if isinstance(loop, LOOPS) and (loop.end_lineno or 0) < here.line and _calls(loop, called):
                yield loop


def _calls(loop: ast.stmt, methods: set[str]) -> bool:
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) in methods for node in own_nodes(loop))


def of_number(failure: Failure) -> Hint | None:
    """Of a collective that is given the 0 which a sum began with: with the loop that would have made a tensor
    of it. What adds numbers leaves a number."""
    place = failure.place
    named = [one for one in failure.operands if one.what in ZEROS]
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    if place is None or len(named) != 1:
        return None
    at = origin_of(named[0].name, own, failure, named[0].what)
    loop = _adding_loop(at, failure) if at is not None else None
    sums = [
        ast.unparse(node.value)
        for node in ast.walk(parsed(failure.sources.text(place.file)) or ast.Module([], []))
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == named[0].name
    ]
    if at is None or loop is None or any(map(_OF_PLAIN.search, sums)):
        return None
    values = {"name": at.name, "set": at.line, "line": loop.lineno, "loop": head(loop)}
    return hint("number-never-added", late=(failure.rank,), **values)


def of_recursion(failure: Failure) -> Hint | None:
    """Of a ``__getattr__`` that calls itself: with the attribute that it asks for and does not have."""
    place = failure.place
    own = [frame for frame in failure.frames if failure.sources.is_own(frame.file)]
    if place is None or {frame.function for frame in own[-_REPEATED:]} != {"__getattr__"}:
        return None
    if len({frame.line for frame in own[-_REPEATED:]}) > 1:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    statement = node_at(here, failure.sources)
    asked = {
        node.attr
        for node in ast.walk(statement or ast.Pass())
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and node.attr[:2] != "__"
    }
    if len(asked) != 1:
        return None
    tree = parsed(failure.sources.text(place.file)) or ast.Module([], [])
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and holds(node, place.line)]
    bases = {ast.unparse(base).rpartition(".")[2] for one in classes[-1:] for base in one.bases}
    return hint("getattr-of-module" if bases & _OF_MODULES else "getattr-of-itself", name=asked.pop())


def _given_back(at: Origin, failure: Failure) -> Hint | None:
    """Of None from a function of the program: where that gives nothing back."""
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources)
    called = getattr(statement, "value", None)
    name = ast.unparse(called.func).rpartition(".")[2] if isinstance(called, ast.Call) else ""
    tree = parsed(failure.sources.text(at.file)) or ast.Module([], [])
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    if not functions and isinstance(called, ast.Call):
        functions = _forward_of(ast.unparse(called.func), tree)
        name = "forward"
    if len(functions) != 1:
        return None
    nodes = [node for each in functions[0].body for node in own_nodes(each)]
    returns = [node for node in nodes if isinstance(node, ast.Return)]
    nothing = [node for node in returns if node.value is None or ast.unparse(node.value) == "None"]
    values = {"name": at.name, "line": at.line, "function": name}
    if not returns:
        return hint("value-none-no-return", **values, at=functions[0].lineno)
    if len(nothing) != 1 or len(returns) == 1:
        return None
    back = nothing[0].lineno
    where = under(Call(file=at.file, line=back, function=name), failure.sources)
    return hint("value-none-returned", **values, at=back, under=where)


def _forward_of(name: str, tree: ast.Module) -> list[ast.FunctionDef]:
    """The forward() that a call of this name runs, where all that is assigned to the name in the file is made
    of one class of the program's: a wrapper around it is called the same way."""
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    made: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            used = [one for one in ast.walk(node.value) if isinstance(one, ast.Name | ast.Attribute)]
            read = set(map(ast.unparse, used))
            if not read & {name, *classes}:
                return []
            made |= read & classes.keys()
    if len(made) != 1:
        return []
    body = classes[made.pop()].body
    return [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "forward"]


def _nothing_given(text: str) -> list[int]:
    """The lines of the datasets in a program that return None for a sample."""
    return [
        node.lineno
        for method in ast.walk(parsed(text) or ast.Module([], []))
        if isinstance(method, ast.FunctionDef) and method.name in ("__getitem__", "__iter__")
        for node in ast.walk(method)
        if isinstance(node, ast.Return) and (node.value is None or ast.unparse(node.value) == "None")
    ]
