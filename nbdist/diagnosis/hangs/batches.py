"""Where the batches of a loop come from, of which the ranks may have other numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nbdist.diagnosis.conditions import OWN_RANK, asks_for_rank
from nbdist.diagnosis.hangs.entries import Entry
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.statements import (
    LEAVING,
    LOOPS,
    around,
    exits,
    functions_of,
    head,
    iterables,
    own_nodes,
    returns_before,
    seeded_by_rank,
)
from nbdist.store.reports import Call
from nbdist.text import Both, both

_SHARES = re.compile(r"Distributed(?:Batch)?Sampler$")
_DRAWS = re.compile(r"rand|shuffle|perm|sampl|choice|generator|rng")
_OF_BATCHES = re.compile(r"BatchSampler$")
_AROUND = frozenset({"enumerate", "tqdm", "iter"})
_CHOOSES = re.compile(
    r"\b(?:Subset|random_split|choices?|sample|permutation|randperm|shuffle)\(|\.(?:random|rand)\(\)"
    r"|\.(?:random|rand|uniform)\((?:[^()\n]|\([^()\n]*\))*\)(?:\.item\(\))? *[<>]"
)
"""What takes some samples of all."""

_LISTS_FILES = re.compile(r"\b(?:exists|isfile|is_file|listdir|scandir|glob|rglob|iterdir)\(")


@dataclass(frozen=True, slots=True)
class _Share:
    """The calls that make a loader, and the distributed sampler that it is given."""

    loader: ast.Call
    sampler: ast.Call


def batches_of(loop: ast.stmt, one: Entry, sources: Sources) -> Both:
    """Which function or class of the program makes the batches of a loop: a function that leaves some out by
    what is in them; a class, and whether each rank draws other random numbers."""
    at = next(
        (call for call in one.deeper if any(node is loop for node, _ in around(call, sources))), one.here
    )
    if (left := _left_out(loop, at, sources)) is not None:
        made, test = left
        return both(
            "diagnosis.batches-left-out", name=made.name, line=made.lineno, at=test.lineno, test=head(test)
        )
    classes = iterables(one.here.file, sources)
    if len(classes) != 1:
        return drawn_by_rank(one.here.file, sources)
    draws = _DRAWS.search(ast.unparse(classes[0])) is not None
    seeds = seeded_by_rank(one.here.file, sources) if draws else None
    drawn = (
        both("diagnosis.seeded", line=seeds.lineno, source=head(seeds)) if seeds is not None else Both("", "")
    )
    return both("diagnosis.batches-of", name=classes[0].name, line=classes[0].lineno, seeded=drawn)


def drawn_by_rank(file: str, sources: Sources) -> Both:
    """What seeds each rank otherwise in a file that draws samples; empty where nothing does."""
    by_rank = seeded_by_rank(file, sources)
    if by_rank is None or not _CHOOSES.search(sources.text(file)):
        return Both("", "")
    return both("diagnosis.batches-drawn", line=by_rank.lineno, source=head(by_rank))


def _left_out(loop: ast.stmt, at: Call, sources: Sources) -> tuple[ast.FunctionDef, ast.If] | None:
    """The generator that a loop goes over, or that this is given, and what lets it go on without a yield."""
    if not isinstance(loop, ast.For):
        return None
    calls = (node for node in ast.walk(loop.iter) if isinstance(node, ast.Call))
    names = {ast.unparse(call.func).rpartition(".")[2] for call in calls}
    for function in ast.walk(parsed(sources.text(at.file)) or ast.Module([], [])):
        if not isinstance(function, ast.FunctionDef) or function.name not in names:
            continue
        nodes = [node for each in function.body for node in own_nodes(each)]
        if not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
            continue
        loops = (node for node in nodes if isinstance(node, LOOPS))
        for test in (node for each in loops for node in own_nodes(each) if isinstance(node, ast.If)):
            here = Call(file=at.file, line=test.lineno, function=function.name)
            # a share for each rank is as large on all
            if isinstance(test.body[-1], ast.Continue) and not asks_for_rank(test.test, here, sources):
                return function, test
    return None


def shared_out(way: Sequence[Call], sources: Sources) -> Mapping[str, object] | None:
    """Of ranks in a loop whose batches a distributed sampler shares out, so that they are as many on each for
    equal datasets: what this is given, and what may make it differ; None where that is not sure."""
    found = _loader_of(way, sources)
    if found is None:
        return None
    call, share = found
    # a rank may have a batch_size of its own
    if "rank" in ast.unparse(share.loader) or _sizes_by_rank(share, call, sources) is not None:
        return None
    seeds, files = seeded_by_rank(call.file, sources), _asks_for_files(call.file, sources)
    known = [
        both("diagnosis.seeded", line=seeds.lineno, source=head(seeds)) if seeds else Both("", ""),
        both("diagnosis.asks-for-files", line=files.lineno, source=head(files)) if files else Both("", ""),
    ]
    why = Both("".join(one.en for one in known), "".join(one.zh for one in known))
    data, sampler = ast.unparse(share.sampler.args[0]), ast.unparse(share.sampler.func)
    return {"data": data, "sampler": sampler, "at": share.sampler.lineno, "why": why}


def sized_by_rank(way: Sequence[Call], sources: Sources) -> Mapping[str, object] | None:
    """Of ranks in such a loop: where each has a batch_size of its own, and so another number of batches."""
    found = _loader_of(way, sources)
    sizes = _sizes_by_rank(found[1], found[0], sources) if found is not None else None
    return {"at": sizes.lineno, "source": head(sizes)} if sizes is not None else None


def _loader_of(way: Sequence[Call], sources: Sources) -> tuple[Call, _Share] | None:
    """The call in a loop that ranks are in, whose batches a distributed sampler shares out, and how; None
    where something else may end the loop on some."""
    for call in reversed(way):
        steps = [node for node, _ in around(call, sources) if not isinstance(node, ast.With)]
        loops = [node for node in steps if isinstance(node, LOOPS)]
        if not loops:
            if steps or returns_before(call, sources):
                return None
            continue
        *outer, loop = loops
        # what begins elsewhere, or is no plain count, may have been done less often, and so may a part of it
        alone = any(isinstance(node, LEAVING) for node in own_nodes(loop)) or loop is not steps[-1]
        if not isinstance(loop, ast.For) or alone or not all(map(_counts, outer)):
            return None
        over = loop.iter
        while isinstance(over, ast.Call) and over.args:
            if ast.unparse(over.func).rpartition(".")[2] not in _AROUND:
                return None
            over = over.args[0]
        shares = list(_shares(ast.unparse(over), call, sources)) if isinstance(over, ast.Name) else []
        share = shares[0] if len(shares) == 1 else None
        # what ends the process, as if all were well, may have ended one in a round
        if share is None or not share.sampler.args or exits(call.file, sources):
            return None
        return call, share
    return None


def _counts(loop: ast.stmt) -> bool:
    """Whether a loop counts from 0 to what a name or a number says."""
    over = loop.iter if isinstance(loop, ast.For) else None
    return isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and len(over.args) == 1


def _shares(loader: str, call: Call, sources: Sources) -> Iterator[_Share | None]:
    """The distributed sampler of a loader that is made by this name, or of all loaders of the file where the
    name is given to the function; None for each that has another one."""
    tree = parsed(sources.text(call.file)) or ast.Module([], [])
    sets = [one for one in ast.walk(tree) if isinstance(one, ast.Assign)]
    within: list[ast.AST] = [one for one in sets if ast.unparse(one.targets[0]) == loader]
    functions = [one for one in functions_of(call, sources) if not isinstance(one, ast.Module)]
    if not within and any(loader in [one.arg for one in each.args.args] for each in functions):
        within = [tree]
    loaders = [one for each in within for one in ast.walk(each) if isinstance(one, ast.Call)]
    for one in (one for one in loaders if ast.unparse(one.func).rpartition(".")[2] == "DataLoader"):
        given = [k.value for k in one.keywords if k.arg in ("sampler", "batch_sampler")]
        names = set(map(ast.unparse, given))
        named = [node.value for node in sets if ast.unparse(node.targets[0]) in names]
        for value in named or given or [one]:
            # also of  DistributedSampler(data) if world > 1 else None
            calls = (node for node in ast.walk(value) if isinstance(node, ast.Call) and node is not one)
            sampler = next((node for node in calls if _SHARES.search(ast.unparse(node.func))), None)
            yield _Share(one, sampler) if sampler is not None else None


def _sizes_by_rank(share: _Share, call: Call, sources: Sources) -> ast.stmt | ast.expr | None:
    """What gives each rank a batch_size of its own: the argument, or the statement that sets it."""
    given = [k.value for one in (share.loader, share.sampler) for k in one.keywords if k.arg == "batch_size"]
    given += share.loader.args[1:2]
    # the second argument of torch's sampler is the number of ranks
    given += share.sampler.args[1:2] if _OF_BATCHES.search(ast.unparse(share.sampler.func)) else []
    tree = parsed(sources.text(call.file)) or ast.Module([], [])
    for size in given:
        if _of_own_rank(size):
            return size
        if isinstance(size, ast.Name):
            branches = [one for one in ast.walk(tree) if isinstance(one, ast.If) and _of_own_rank(one.test)]
            within = {id(each) for one in branches for each in ast.walk(one)}
            for one in (one for one in ast.walk(tree) if isinstance(one, ast.Assign)):
                is_own = _of_own_rank(one.value) or id(one) in within
                if is_own and ast.unparse(one.targets[0]) == size.id:
                    return one
    return None


def _of_own_rank(value: ast.expr) -> bool:
    """Whether an expression is about the rank's own number."""
    return any(
        OWN_RANK.fullmatch(ast.unparse(one)) is not None
        for one in ast.walk(value)
        if isinstance(one, ast.Name | ast.Attribute | ast.Call)
    )


def _asks_for_files(file: str, sources: Sources) -> ast.stmt | None:
    """The one statement that makes a list of the files that there are, or of those that are missing."""
    nodes = ast.walk(parsed(sources.text(file)) or ast.Module([], []))
    sets = (one for one in nodes if isinstance(one, ast.Assign | ast.Return))
    found = [one for one in sets if one.value is not None and _LISTS_FILES.search(ast.unparse(one.value))]
    return found[0] if len(found) == 1 else None
