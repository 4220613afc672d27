"""What a library was given that its function does not take: the error may come many calls later."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.clues.origins import origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint, is_general
from nbdist.diagnosis.statements import head, holds, node_at
from nbdist.store.reports import Call, Given
from nbdist.text import Both, both

_MISPLACED, _ROWS = "argument-misplaced", "argument-unfit"

# an object of a class was wanted: lists and dicts may pass for one, and None for what is left out
_PLAIN = re.compile(r"ndarray|Tensor|str of|the class|the module|-?\d|True|False")
_NUMBER = re.compile(r"-?\d|True|False")
_SIMPLE = re.compile(r"\b(?:int|float|complex|bool|Number|number)\b")

_OF_CLASSES = ("property", "cached_property", "member_descriptor", "getset_descriptor", "ABCMeta")
"""What the attributes of a class are that are values of its objects."""

_FUNCTION = re.compile(r"Callable\[\[.*?\], [^\]]*\]")
_QUOTED = re.compile(r"'(?P<bare>-?[\d.]+(?:e-?\d+)?)'")
_FLOAT = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_NUMBERS = re.compile(r"\b(?:int|float)\b")
_LIST = re.compile(r"(?:list|tuple) of ")
_GIVES = {
    "numpy": r"ndarray",
    "tolist": r"list",
    "item": r"-?\d|True|False",
    "state_dict": r"OrderedDict|dict",
    "parameters": r"generator",
}
_TURNED = re.compile(r"^(?P<base>.+)\.(?P<call>\w+)\(\)$")
"""What makes another thing of what was meant to be given."""

_MENDS: tuple[tuple[str, str, str], ...] = (
    (r"None", r"", "none"),
    (r"the class ", r"", "class"),
    (r"(?:ndarray|list|tuple|-?\d)", r"^Tensor\b|\bTensor\b(?!\])", "tensor"),
    (r"(?:ndarray|Tensor)", r"\bDataset\b|\bDataLoader\b", "dataset"),
    (r"str of", r"\b(?:[Dd]ict|Mapping|OrderedDict)\b", "loaded"),
    (r"str of", r"^(?!.*\b(?:[Ll]ist|[Tt]uple|Sequence|Iterable)\b).*\b(?:int|float)\b", "number"),
    (
        r"(?!True|False)[A-Z]",
        r"\b(?:Sequence|Iterable|list)\b.*(?:Tensor|Parameter)",
        "parameters",
    ),
    (r"", r"\bCallable\b", "callable"),
)
"""What was given, what is taken, and the end of the name of the row that tells how to mend it."""


def of_argument(failure: Failure, row: str = "") -> Hint | None:
    """Of an error that this row knows, or none: Python's words alone have to name the kind of what was given;
    beside what tells more, it is one that is not named and that cannot pass for what is taken."""
    given = _given(failure)
    if given is None:
        return None
    line, source, meant = _call(given, failure)
    said, plain = _is_said(given, failure), _is_plain(given)
    if not given.takes and not source:
        sure = False  # it may be no more than a default
    elif _turned(source, given) is not None or (given.sure and given.what.startswith("the class ")):
        sure = said or (plain and not row)
    elif not given.sure:
        sure = False
    elif not row:
        sure = said or plain or bool(meant)
    elif is_general(row):
        sure = said and bool(given.takes)
    else:
        sure = plain and not said
    return _hint(given, line, source, meant) if sure else None


def _turned(source: str, given: Given) -> re.Match[str] | None:
    """What was to be given, and the call that has made another thing of it."""
    found = _TURNED.match(source)
    kind = _GIVES.get(found["call"]) if found is not None else None
    return found if kind is not None and re.match(kind, given.what) else None


def _is_plain(given: Given) -> bool:
    """Whether what was given cannot pass for what is taken."""
    is_number = _NUMBER.match(given.what) and _SIMPLE.search(_FUNCTION.sub("", given.takes))
    return _PLAIN.match(given.what) is not None and not is_number


def of_quoted(failure: Failure) -> Hint | None:
    """Of a text where a number is wanted: the one number in quotes that a call is given in the failing line,
    or in one that has set what this line works with."""
    at, own = failure.place, list(failure.own_frames)
    if at is None or not own:
        return None
    lines = {(at.file, at.line)}
    for one in failure.operands:
        if (origin := origin_of(one.name, own, failure, one.what)) is not None:
            lines.add((origin.file, origin.line))
    found = {
        (file, node.lineno, source): bare
        for file, line in lines
        for node in ast.walk(node_at(Call(file=file, line=line, function=""), failure.sources) or ast.Pass())
        if isinstance(node, ast.Call) and holds(node, line) and ast.unparse(node.func) not in ("int", "float")
        for source, bare in _numbers_in_quotes(node)
    }
    if len(found) != 1:
        return None
    (((file, line, source), bare),) = found.items()
    return hint(
        "paddle-argument-quoted",
        **failure.found,
        line=failure.sources.at(file, line),
        source=source,
        bare=bare,
    )


def _numbers_in_quotes(call: ast.Call) -> Iterator[tuple[str, str]]:
    """``std='0.1'`` and ``std=0.1`` of what a call is given."""
    for prefix, value in [("", one) for one in call.args] + [
        (f"{one.arg}=", one.value) for one in call.keywords
    ]:
        if (quoted := _QUOTED.fullmatch(ast.unparse(value))) is not None:
            yield f"{prefix}{quoted[0]}", f"{prefix}{quoted['bare']}"


def note_of_argument(failure: Failure) -> list[Both]:
    """The same as a fact beside another cause."""
    given = _given(failure)
    known = failure.hint.signature if failure.hint is not None else ""
    if given is None or known.startswith((_MISPLACED, _ROWS)):
        return []
    line, source, _ = _call(given, failure)
    values = {"of": given.of, "name": given.name, "what": _what(given, source), "line": line}
    if not given.takes:
        return [both("diagnosis.handed", **values)] if line and source and given.sure else []
    if _is_said(given, failure):
        return []
    return [both("diagnosis.argument-at" if line else "diagnosis.argument", **values, takes=given.takes)]


def _given(failure: Failure) -> Given | None:
    report = failure.report
    if report is None or not report.arguments:
        return None
    # it was told of what left the program
    if failure.complaint is not None and not failure.complaint.root.text.startswith(report.type):
        return None
    # what a library has made for itself is its own affair
    return next((one for one in report.arguments if one.line or _call(one, failure)[0]), None)


def _is_said(given: Given, failure: Failure) -> bool:
    """Whether the message names the kind of what was given."""
    if not given.takes:
        return True  # by its kind it was found
    message = failure.report.message if failure.report is not None else ""
    if _FLOAT.fullmatch(given.what) and re.search(rf"(?<![\w.]){given.what}(?!\.?\w)", message):
        return True
    if given.what.startswith("(") and given.what in message:
        return True
    kinds = "|".join(map(re.escape, _kinds(given.what)))
    return re.search(rf"\b(?:{kinds})\b", message) is not None


def _kinds(what: str) -> tuple[str, ...]:
    """What a message calls it: ``NoneType``, ``int``, ``type``."""
    if what in ("None", "True", "False"):
        return ("NoneType", "None") if what == "None" else ("bool",)
    kind, _, name = what.partition(" ")
    if kind == "the":
        kind, _, name = name.partition(" ")
        return ("type", name, *_OF_CLASSES) if kind == "class" else ("module",)
    if what.startswith("("):
        return ("tuple",)
    return ("int", "float") if _NUMBER.match(what) else (kind,)


def _hint(given: Given, line: str, source: str, meant: str) -> Hint:
    values: dict[str, object] = {"of": given.of, "name": given.name, "takes": given.takes}
    where = both("diagnosis.argument-line", line=line) if line else Both("", "")
    values |= {"what": _what(given, source), "where": where, "source": source or "x"}
    if meant:
        return hint(_MISPLACED, **values, meant=meant)
    if given.name.startswith("*") and _LIST.match(given.what) and source.isidentifier():
        return hint(f"{_ROWS}-starred", **values)
    if (turned := _turned(source, given)) is not None:
        return hint(f"{_ROWS}-turned", **values, **turned.groupdict())
    if (quoted := _QUOTED.fullmatch(source)) is not None and _NUMBERS.search(given.takes):
        return hint(f"{_ROWS}-quoted", **values, bare=quoted["bare"])
    for what, takes, end in _MENDS:
        # a word that is written there is no number
        if end == "number" and source.startswith(("'", '"')):
            continue
        if re.match(what, given.what) and re.search(takes, given.takes):
            return hint(f"{_ROWS}-{end}", **values)
    return hint(_ROWS if given.takes else f"{_ROWS}-handed", **values)


def _what(given: Given, source: str) -> str:
    """``BATCH_SIZE (16)``, ``16``."""
    return f"{source} ({given.what})" if source and source != given.what else given.what


def _call(given: Given, failure: Failure) -> tuple[str, str, str]:
    """The line of the call, what stands there for the parameter, and the parameter that was meant by it."""
    name = given.of.rpartition(".")[2]
    files = [given.file] if given.file else [failure.report.frames[0].file] if failure.report else []
    files += [] if given.file else [one.file for one in failure.frames if failure.sources.is_own(one.file)]
    for file in dict.fromkeys(files):
        tree = parsed(failure.sources.text(file)) if failure.sources.is_own(file) else None
        calls = [
            node
            for node in ast.walk(tree or ast.Module([], []))
            if isinstance(node, ast.Call) and (not given.line or holds(node, given.line))
        ]
        named = [one for one in calls if ast.unparse(one.func).rpartition(".")[2] == name] or (
            calls if given.line else []
        )
        with_it = [(one, argument) for one in named if (argument := _argument(given, one)) is not None]
        if len(with_it) > 1:
            with_it = [one for one in with_it if _names_it(one[1], given)]
        if len(with_it) == 1:
            call, argument = with_it[0]
            at = failure.sources.at(file, call.lineno)
            return at, head(argument), _meant(argument, given) if argument in call.args else ""
    return (str(given.line) if given.line else ""), "", ""


def _names_it(argument: ast.expr, given: Given) -> bool:
    """Whether an argument is written as what was given: of several calls it tells which."""
    text = ast.unparse(argument)
    if isinstance(argument, ast.Constant) and given.what.startswith("str of "):
        return isinstance(argument.value, str)
    return given.what in (text, f"the class {text.rpartition('.')[2]}")


def _argument(given: Given, call: ast.Call) -> ast.expr | None:
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if 0 <= given.place < len(call.args):
        return call.args[given.place]
    return next((one.value for one in call.keywords if one.arg == given.name), None)


def _meant(argument: ast.expr, given: Given) -> str:
    """The parameter that is called like what was given: ``batch_size`` of ``BATCH_SIZE``."""
    node: ast.expr = argument.func if isinstance(argument, ast.Call) else argument
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        words = str(node.slice.value)
    else:
        words = ast.unparse(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""
    names = [
        one
        for one in given.names.split()
        if one != given.name and words.lower() in (one, f"{one}s", one + "_")
    ]
    return names[0] if len(names) == 1 else ""
