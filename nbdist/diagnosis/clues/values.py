"""What the values in the failing line tell: None where a tensor belongs, the first that was nan, a list
that is empty, a mean of nothing, a number that lies outside of a table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.clues.origins import ZEROS, Origin, origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LOOPS, around, functions_of, head, holds, node_at, own_nodes, under
from nbdist.store.reports import Call
from nbdist.text import Both, both

_ADDS = re.compile(r"operand type\(s\) for \+=?: ")

_TEXT = re.compile(r"str of \d+ characters$")

_TOO_MUCH = re.compile(r"(?:Unable to|[Tt]ried to) allocate (([\d.]+) ([KMGTPE]iB|bytes))")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

_LEAST_BYTES, _MOST_BYTES = 0.9, 17
"""Of a number, from a bool to a complex one, and somewhat more, since sizes are rounded."""

_SHAPE = re.compile(r"(?:Tensor|ndarray) \(([\d, ]+?),?\)")

_MANY = 1_000

_VALUES = {
    ("None",): re.compile(r"^(?:Type|Attribute)Error: .*\bNoneType\b|\bmust be Tensor, but got None\b"),
    ZEROS: re.compile(r"^ZeroDivisionError: "),
}

_OF_TENSORS = re.compile(r"must be Tensor, (?:but got|not) None")

_LAYERS = re.compile(r"/(?:torch|paddle)/(?:nn|_tensor|tensor|utils/decorator_utils|base/dygraph)\b")
"""Where a layer or a function checks what the program's line gave it."""


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

_GOT_IDS = re.compile(
    r"Embedding with weight \((?P<rows>\d+),.*, got Tensor .*\bint\d+, (?P<low>-?\d+) to (?P<high>-?\d+)$"
)

_OF_POSITIONS = re.compile(r"(?<!\.[xyhw])[._](?:wpe|positions?)(?:_\w+)?$")
"""Of places in a text: coordinates of a page are x, y, height and width."""

_OF_TYPES = re.compile(r"\.token_type_embeddings?$")

_CUT = 80
"""Names as long as this may have lost their end."""

_COLLATE = re.compile(r"/(?:_utils|dataloader)/collate\.py$")

_OF_PLAIN = re.compile(r"\.(?:item|tolist)\(|(?<!\.)\b(?:float|int|len)\(|^[\d.]+$")
"""What adds a plain number."""

_PADDLE = re.compile(r"^\s*(?:import|from)\s+paddle\b", re.MULTILINE)
_MAKES_ARRAYS = re.compile(
    r"\b(?:array|asarray|stack|to_tensor|Tensor|zeros|full|ones|concatenate|default_collate_fn)\("
)

_REPEATED = 2

_OF_MODULES = frozenset({"Module", "Layer", "LightningModule"})


def of_text(failure: Failure) -> Hint | None:
    """Of a text where a number is wanted: by its name, where it is the one in the failing line, and what is
    below that speaks of it, too."""
    place = failure.place
    texts = [one for one in failure.operands if _TEXT.match(one.what)]
    own = list(failure.own_frames)
    said = failure.said
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


def of_sample(failure: Failure) -> Hint | None:
    """Of a batch that a DataLoader could not make since a sample was None."""
    said = failure.said
    if "NoneType" not in said or not failure.frames or _COLLATE.search(failure.frames[-1].file) is None:
        return None
    own = list(failure.own_frames)
    at = own[-1] if own else failure.place
    lines = _nothing_given(failure.sources.text(at.file)) if at is not None else []
    told = both("diagnosis.gives-none", lines=", ".join(map(str, lines))) if lines else Both("", "")
    return hint("sample-none", late=(failure.rank,), lines=told)


def of_broadcast(failure: Failure) -> Hint | None:
    """Of memory for each element of one value with each of another: one is a column, the other a row."""
    said = failure.said
    size = _TOO_MUCH.search(said)
    shapes = {
        one.name: found[1].replace(",", "") for one in failure.operands if (found := _SHAPE.search(one.what))
    }
    for column, rows in shapes.items():
        for row, count in shapes.items():
            if size is None or rows != f"{count} 1" or " " in count or int(count) < _MANY:
                continue
            # a GPU may be full for other reasons
            if _LEAST_BYTES < float(size[2]) * 1024 ** _UNITS.index(size[3]) / int(count) ** 2 < _MOST_BYTES:
                shape = f"({count}, {count})"
                return hint("arrays-broadcast", size=size[1], column=column, row=row, shape=shape)
    return None


def of_nan(failure: Failure) -> Hint | None:
    """Of a value that is not finite: the variable that was so first, in the outermost function with one."""
    values = failure.report.values if failure.report is not None else ()
    own = list(failure.own_frames)
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


def of_given_nan(failure: Failure) -> Hint | None:
    """Of what is to lie between two numbers, where something in the line is nan."""
    return of_nan(failure) if any(one.what.endswith(" nan") for one in failure.operands) else None


def _nan(first: Origin, what: str, failure: Failure) -> Hint:
    of_data = first.source.startswith("for ") and not _OF_RESULTS.search(first.source)
    name = "nan-in-data" if of_data else "nan-first"
    values = {"name": first.name, "what": what, "line": first.line, "source": first.source}
    return hint(name, late=(failure.rank,), **values)


def of_empty(failure: Failure) -> Hint | None:
    """Of a place in a list that has none: with the line that set it. In a library it may be another list."""
    said = failure.said
    own = list(failure.own_frames)
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


def of_decoder(failure: Failure) -> Hint | None:
    """Of a model that got no ids, where the part that asked for them is its decoder."""
    asked = any(one.name.endswith((".decoder", "_decoder")) for one in failure.operands)
    return hint("decoder-without-input") if asked else None


def of_labels(failure: Failure) -> Hint | None:
    """Of a negative label that all samples of the batch have: they may never have been set."""
    label = failure.found.get("label") or ""
    alike = re.compile(rf"(?:Tensor|ndarray) .*\bint\d+, {re.escape(label)} to {re.escape(label)}$")
    named = [one.name for one in failure.operands if alike.match(one.what)]
    return hint("target-negative-all", name=named[0], label=label) if len(named) == 1 else None


def of_value(failure: Failure) -> Hint | None:
    """Of the one value in the failing line that is None or 0, where the error is of such a one: with the line
    that set it."""
    said = failure.said
    found = next((what for what, pattern in _VALUES.items() if pattern.search(said)), ())
    named = [one for one in failure.operands if one.what in found]
    if found is ZEROS and (divisors := _divisors(failure)):
        named = [one for one in named if one.name in divisors]
    own = list(failure.own_frames)
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
    if at.later:
        return hint("value-none-at-first", name=at.name, line=at.line, later=at.later)
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
    row = (
        "value-zero-silent-loader"
        if _collates_lists(failure.sources.text(at.file))
        else "value-zero-never-added"
    )
    return hint(row, late=(failure.rank,), **values)


def _collates_lists(text: str) -> bool:
    """Whether a program of paddle has a ``collate_fn`` that makes no array: its loader ends then."""
    tree = parsed(text)
    if tree is None or not _PADDLE.search(text):
        return False
    given = {
        ast.unparse(node.value).rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "collate_fn"
    }
    made = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name in given]
    return bool(made) and not any(_MAKES_ARRAYS.search(ast.unparse(one)) for one in made)


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
    own = list(failure.own_frames)
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
    own = list(failure.own_frames)
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
    own = list(failure.own_frames)
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
