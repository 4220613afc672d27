"""Ranks that are in one call of a library, and went different ways in it.

The loop of a library (``trainer.fit()``) calls the program back. Where a callback stops, skips or logs by
what its rank alone knows, the ranks part inside of the library, and the line of the program says nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.hangs.batches import drawn_by_rank
from nbdist.diagnosis.places import WRAPPERS, Sources, as_written, parsed
from nbdist.diagnosis.sides import Side, by_ranks, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    LEAVING,
    around,
    calls_of_function,
    exchanges,
    is_collective,
    is_quiet,
    own_nodes,
    told,
)
from nbdist.store.reports import Call
from nbdist.text import Both, both

_MOST = 3
"""Of what may have parted the ranks, so many are named."""

_LOGS = re.compile(r"log(?:_dict|_metrics)?|manual_backward|gather_for_metrics")
# what all ranks decide alike
_ALIKE = re.compile(r"(?:\w+\.)*\w*(?:step|epoch|idx|index|iteration)s?\b[\s\d%=<>!\w.]*|.* is (?:not )?None")

# functions of libraries that are a loop, and call the program back
_TRAINS = re.compile(r"fit|train|eval|predict|test|valid|learn")

_ENDS = re.compile(r"epoch_end|update_\w+_epoch_metrics|on_advance_end|on_run_end")
_OWN_BATCHES = re.compile(r"use_distributed_sampler=False|IterableDataset|def __iter__")
_TRAINED = re.compile(r"_finalize_training|on_train_end")
_METRIC = re.compile(r"\bcompute_metrics\b|def evaluate\(self")
_ADDS_UP = re.compile(r"/logger_connector/result\.py$")

# what a library, or the program, exchanges by; not a list or a file of theirs
_EXCHANGING = re.compile(r"self|(?:.*\.)?(?:trainer|\w*module|model|strategy|accelerator|fabric|engine)")
_FLAG = re.compile(r"should_\w*(?:stop|evaluate|save)\w*|stop_training")

_GRADIENT_HOOK = re.compile(r"\.register_(?:post_accumulate_grad_)?hook$")

Deciding = ast.If | ast.For | ast.While | ast.Assign


def of_hooks(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that all wait, where the way to it parts in the code of a library."""
    depth = _parted_at(sides)
    calls = sides[0].calls
    own = [at for at, call in enumerate(calls[:depth]) if sources.is_own(call.file)]
    if depth is None or not own or any(len({side.calls[at] for side in sides}) > 1 for at in own):
        return None
    ways = [_function(side, depth) for side in sides]
    if len(set(ways)) < 2:
        return None
    if (logged := _of_logged(sides, sources)) is not None:
        return logged
    last, tests = calls[own[-1]], _deciding(calls[own[-1]].file, sources)
    # a flag is to be known to all ranks, and not to be set by each of them
    ifs = [node.test for node in tests if isinstance(node, ast.If) and not _sets(node)]
    of_rank = bool(tests) and len(ifs) == len(tests) and all(asks_for_rank(one, last, sources) for one in ifs)
    values = {
        "call": _entered(calls, last, sources),
        "line": last.line,
        "ways": by_ranks((side.ranks, way) for side, way in zip(sides, ways, strict=True)),
    }
    if not tests and (at := _stopped_early(sides, ways, last.file, sources)) is not None:
        return hint("hang-hooks-early", **values, at=at)
    told = _told(tests)
    ended = [_ENDS.search(way) is not None for way in ways]
    if not tests and any(ended) and not all(ended):
        # of some the batches are used up
        told = drawn_by_rank(last.file, sources)
    return hint("hang-hooks-of-rank" if of_rank else "hang-hooks", **values, tests=told)


def _stopped_early(sides: Sequence[Side], ways: Sequence[str], file: str, sources: Sources) -> int | None:
    """The line of transformers' EarlyStoppingCallback, which asks for the metrics of its own rank, where some
    ranks have ended their training and others have not; None where their batches may be fewer, or the metric
    is the loss, which is the mean of all ranks."""
    ended = {way for way in ways if _TRAINED.fullmatch(way)}
    text = sources.text(file)
    if not ended or len(ended) == len(set(ways)) or _OWN_BATCHES.search(text) or not _METRIC.search(text):
        return None
    if not any("/transformers/" in call.file for side in sides for call in side.calls):
        return None
    made = calls_of_function("EarlyStoppingCallback", file, sources)
    return made[0].line if made else None


def _of_logged(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that add up what was logged, in lightning, where others do not."""
    adding = [side for side in sides if any(_ADDS_UP.search(call.file) for call in side.calls)]
    if not 0 < len(adding) < len(sides):
        return None
    others = tuple(rank for side in sides if side not in adding for rank in side.ranks)
    file = adding[0].way[-1].file
    tree = parsed(sources.text(file)) or ast.Module([], [])
    lines = sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(one.arg == "sync_dist" for one in node.keywords)
    )
    within = {node: None for line in lines for node in _depends_on(line, file, sources)}
    # what is logged in each step is as much on all ranks, and a flag sends them different ways
    flags = (not isinstance(one, ast.If) or _sets(one) for one in _deciding(file, sources) if not _loops(one))
    if not within and any(flags):
        return None
    given = both("diagnosis.logged-at", lines=", ".join(map(str, lines))) if 0 < len(lines) <= _MOST else None
    if given is not None and 0 < len(within) <= _MOST:
        given = both("diagnosis.logged-within", said=given, tests=told(list(within)))
    who = tuple(rank for side in adding for rank in side.ranks)
    if _OWN_BATCHES.search(sources.text(file)) and any(
        _ENDS.search(call.function) for side in adding for call in side.calls
    ):
        return hint("hang-logged-at-the-end", who=who, others=others)
    return hint("hang-logged", who=who, others=others, lines=given or Both("", ""))


def _depends_on(line: int, file: str, sources: Sources) -> list[Deciding]:
    """The ifs and loops by which a line is executed or not, or more often."""
    steps = around(Call(file=file, line=line, function=""), sources)
    return [node for node, _ in steps if isinstance(node, Deciding)]


def of_library(inside: Side, outside: Side, here: Call, sources: Sources) -> Hint | None:
    """Of ranks in the loop of a library that is entered ``here``, which others have come past."""
    after = inside.calls[inside.calls.index(here) + 1 :] if here in inside.calls else ()
    if not after or sources.is_own(after[0].file) or not _TRAINS.search(after[0].function):
        return None
    call, tests = _entered(inside.calls, here, sources), _told(_deciding(here.file, sources))
    ranks = {"inside": inside.ranks, "outside": outside.ranks}
    return hint("hang-in-library", **ranks, call=call, line=here.line, tests=tests)


def is_in_loop_of_library(side: Side, sources: Sources) -> bool:
    """Whether ranks are in a loop of a library over the batches, as that of  trainer.fit() ."""
    return any(
        sources.is_own(call.file) and not sources.is_own(after.file) and _TRAINS.search(after.function)
        for call, after in pairwise(side.calls)
    )


def reduces_by_hook(file: str, sources: Sources) -> bool:
    """Whether a file gives gradients a hook of its own that calls a collective."""
    nodes = list(ast.walk(parsed(sources.text(file)) or ast.Module([], [])))
    given = [
        one.args[0]
        for one in nodes
        if isinstance(one, ast.Call) and one.args and _GRADIENT_HOOK.search(ast.unparse(one.func))
    ]
    names = {ast.unparse(one.func if isinstance(one, ast.Call) else one).rpartition(".")[2] for one in given}
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef) and one.name in names]
    inside = (inner for one in (*functions, *given) for inner in ast.walk(one))
    return any(isinstance(one, ast.Call) and is_collective(ast.unparse(one.func)) for one in inside)


def _entered(calls: Sequence[Call], own: Call, sources: Sources) -> str:
    """The function of a library that is called there, as it is written."""
    function = calls[calls.index(own) + 1].function
    return as_written(function, own.line, sources.text(own.file))


def _told(tests: Sequence[Deciding]) -> Both:
    return both("diagnosis.called-back", tests=told(tests)) if 0 < len(tests) <= _MOST else Both("", "")


def _parted_at(sides: Sequence[Side]) -> int | None:
    """How many calls the ways have in common, and those of one function at different lines; None where one
    ends there."""
    for depth, calls in enumerate(zip(*(side.calls for side in sides), strict=False)):
        if len({(call.file, call.function) for call in calls}) > 1:
            return depth
    return None


def _function(side: Side, depth: int) -> str:
    named = (call.function for call in side.calls[depth:] if call.function not in WRAPPERS)
    return next(named, side.call)


def _deciding(file: str, sources: Sources) -> list[Deciding]:
    """In the methods by which a file extends the classes of others: the ifs that stop, skip or exchange
    something, and the loops that log."""
    methods = [
        method
        for node in ast.walk(parsed(sources.text(file)) or ast.Module([], []))
        if isinstance(node, ast.ClassDef) and node.bases
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name != "forward" and method.name[:2] != "__"
    ]
    return [
        node
        for method in methods
        for node in _own_decisions(method)
        if not isinstance(node, ast.If) or not _is_of_rank_and_quiet(node, method, file, sources)
    ]


def _is_of_rank_and_quiet(node: ast.If, method: ast.FunctionDef, file: str, sources: Sources) -> bool:
    """Whether what one rank alone does by this ``if`` only prints, counts and writes, as it may."""
    here = Call(file=file, line=node.lineno, function=method.name)
    if not asks_for_rank(node.test, here, sources) or _sets(node):
        return False
    alone: list[ast.stmt] = node.body
    if isinstance(node.body[-1], LEAVING):
        alone = [*node.body, *(one for one in method.body if one.lineno > node.lineno)]
    calls = [one for each in alone for one in own_nodes(each) if isinstance(one, ast.Call)]
    return all(is_quiet(call) and not _EXCHANGING.fullmatch(_owner(call)) for call in calls)


def _owner(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[0]


def _own_decisions(method: ast.FunctionDef) -> Iterator[Deciding]:
    given = {one.arg for one in method.args.args}
    for node in (node for each in method.body for node in own_nodes(each)):
        if isinstance(node, ast.For | ast.While):
            if _logs(node):
                yield node
        elif isinstance(node, ast.Assign):
            if _is_flag(node) and not _ALIKE.fullmatch(ast.unparse(node.value)):
                yield node
        elif isinstance(node, ast.If):
            test = ast.unparse(node.test)
            if all(map(_ALIKE.fullmatch, re.split(r" and | or ", test))):
                continue
            leaves = isinstance(node.body[-1], LEAVING) and test not in given
            if leaves or _logs(node) or exchanges(node) or _sets(node):
                yield node


def _is_flag(node: ast.Assign) -> bool:
    """Whether a library is told to stop by a value that is worked out there."""
    target = node.targets[0]
    asked = isinstance(target, ast.Attribute) and _FLAG.fullmatch(target.attr) is not None
    return asked and not isinstance(node.value, ast.Constant)


def _loops(node: Deciding) -> bool:
    return isinstance(node, ast.For | ast.While)


def _logs(node: ast.If | ast.For | ast.While) -> bool:
    calls = (one for each in node.body for one in own_nodes(each) if isinstance(one, ast.Call))
    return any(_LOGS.fullmatch(ast.unparse(call.func).rpartition(".")[2]) for call in calls)


def _sets(node: ast.If) -> bool:
    """Whether the body sets a flag: ``control.should_training_stop = True``."""
    assigned = (one for each in node.body for one in own_nodes(each) if isinstance(one, ast.Assign))
    return any(
        isinstance(one.targets[0], ast.Attribute)
        and isinstance(one.value, ast.Constant)
        and isinstance(one.value.value, bool)
        for one in assigned
    )
