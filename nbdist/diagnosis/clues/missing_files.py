"""What a program tells of a file that is missing or ends too early: what saves, removes and names it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from nbdist.diagnosis.checks.program import Program
from nbdist.diagnosis.checks.texts import Compared, compared_texts
from nbdist.diagnosis.clues.origins import Origin, origin_of
from nbdist.diagnosis.conditions import asks_for_rank
from nbdist.diagnosis.hangs.moments import own_names
from nbdist.diagnosis.numpy_files import named_by, removing, saved_by_numpy
from nbdist.diagnosis.places import Sources
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    around,
    calls_of_function,
    functions_of,
    head,
    holds,
    node_at,
    own_nodes,
    under,
)
from nbdist.model import RankState, Run
from nbdist.store.reports import Call
from nbdist.text import Both, both

_LONG_ENOUGH = 5
"""Letters of the end of a path by which a text of the program is known as a part of it."""

_SAVES = (
    *("save", "dump", "to_csv", "to_parquet", "save_pretrained", "save_checkpoint", "savez", "savetxt"),
    *("savez_compressed", "save_file", "save_inference_model", "write_text", "write_bytes", "open"),
)

# what writes lines keeps its file open for long, and no rank waits for that one
_WRITES = frozenset({*_SAVES, "dumps"}) - {"open"}

_MODULES = frozenset({"json", "yaml", "pickle", "torch", "paddle", "np", "numpy"})

_WORKERS = re.compile(
    r"/(?:torch/utils/data/_utils|paddle/io/dataloader)/worker\.py$|/multiprocessing/pool\.py$"
)
_BITS = re.compile(r"\d+(?=['\"]?$)")
_OPENS = re.compile(r"\b(?:load|open|\w*ZipFile|GzipFile)\(")

_OF_MOMENT = re.compile(r"\d\d[-_:.hT]?\d\d[-_:.mT]?\d\d|[0-9a-f]{8}-?[0-9a-f]{4}|/tmp\w{8}(?:/|$)")
"""What a path has of the time, a random name or a temporary folder."""

_REMOVES = frozenset({"remove", "unlink", "rmdir", "rmtree", "removedirs"})
_REMOVED_BY_SHUTIL = re.compile(r"/shutil\.py$")

_OF_MODELS = re.compile(r"\bjit\.save\(|\bsave_inference_model\(|\.save\(.*\btraining=False")
"""What writes a model that ``paddle.jit.load()`` reads."""

_BY_RANK = re.compile(r"\b(?:\w+\.)*(?:\w*_)?(?:get_)?rank\b|process_index|RANK\b")
_FEW = 3
_ALIKE = 0.8
_NUMBERS = re.compile(r"\d+")
"""Of the lines that make or remove files, so many are named."""


def of_path(failure: Failure, run: Run, path: str) -> Hint | None:
    """Of a file that is missing, by what the program does with files."""
    return (
        of_rank_0(failure, path)
        or of_never(failure, run, path)
        or of_ending(failure, run, path)
        or of_file(failure, run, path)
        or of_missing(failure, run, path)
    )


def of_rank_0(failure: Failure, path: str) -> Hint | None:
    """Of a path with the number of the rank in it, which is there with a 0 in its place."""
    for one in failure.report.folders if failure.report is not None and failure.rank else ():
        missing = one.path.removeprefix(one.folder).strip(os.sep).partition(os.sep)[0]
        other = re.sub(rf"(?<!\d){failure.rank}(?!\d)", "0", missing)
        if one.path == path and other != missing and other in (name.rstrip(os.sep) for name in one.names):
            return hint(
                "file-of-rank-0", path=path, rank=str(failure.rank), other=os.path.join(one.folder, other)
            )
    return None


def path_of_line(failure: Failure) -> str:
    """The first text in the failing line, as it is written there; empty for none."""
    at = failure.place
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources) if at else None
    texts = (
        node.value for node in ast.walk(statement or ast.Module([], [])) if isinstance(node, ast.Constant)
    )
    return next((one for one in texts if isinstance(one, str)), "")


def of_folder(failure: Failure, path: str) -> Hint | None:
    """Of a file that its folder has by nearly the same name."""
    for one in failure.report.folders if failure.report is not None else ():
        within, base = os.path.split(path)
        # another number is another file, which may be yet to come
        others = [name for name in one.names if _NUMBERS.sub("0", name) != _NUMBERS.sub("0", base)]
        near = get_close_matches(base, others, n=2, cutoff=_ALIKE)
        if near and one.path == path and one.folder.endswith(within):
            return hint("file-named-nearly", path=path, folder=one.folder, near=" and ".join(near))
    return None


def of_file(failure: Failure, run: Run, path: str, saves: re.Pattern[str] | None = None) -> Hint | None:
    """Of a file that is missing on other ranks than 0, which saves it in the program, by a statement with
    ``saves`` where that is given, and has not failed."""
    first = run.ranks[0]
    raised = first.errored is not None and first.freed is None
    if failure.rank == 0 or raised or first.state is RankState.FAILED:
        return None
    own = own_names(run.spec.program, failure.sources)
    for call in _saving(path, run.spec.program, failure):
        if saves is not None and not saves.search(ast.unparse(node_at(call, failure.sources) or ast.Pass())):
            continue
        if own is not None and _OF_MOMENT.search(path):
            return hint(
                "file-of-own-name", path=path, line=own.lineno, source=head(own), late=(failure.rank,)
            )
        if (by_rank := _path_by_rank(path, failure)) is not None:
            values = {"path": path, "line": by_rank.line, "source": by_rank.source, "at": call.line}
            return hint("file-of-own-path", **values, late=(failure.rank,))
        called = [call, *calls_of_function(call.function, call.file, failure.sources)]
        if any(_is_alone(one, failure.sources) for one in called):
            values = {"path": path, "line": call.line, "late": (failure.rank,)}
            if (gone := _removed_below(call, path, failure)) is not None:
                return hint("file-made-and-removed", **values, at=gone.lineno)
            return hint("file-not-made-yet", **values)
    return None


def _path_by_rank(path: str, failure: Failure) -> Origin | None:
    """What has made a path with the number of the rank in it, by that number."""
    own = list(failure.own_frames)
    if not own or re.search(rf"(?<!\d){failure.rank}(?!\d)", path) is None:
        return None
    for one in failure.operands:
        at = origin_of(one.name, own, failure, one.what) if one.what.startswith("str of ") else None
        call = Call(file=at.file, line=at.line, function="") if at is not None else None
        statement = node_at(call, failure.sources) if call is not None else None
        if at is not None and statement is not None and _BY_RANK.search(ast.unparse(statement)):
            return at
    return None


def of_model(failure: Failure, run: Run, path: str) -> Hint | None:
    """The same of a model that ``paddle.jit.load()`` does not find: weights alone are none."""
    return of_file(failure, run, path, _OF_MODELS)


def of_ending(failure: Failure, run: Run, path: str) -> Hint | None:
    """Of a file that is there under a longer name, which numpy gave it in this program."""
    files = {run.spec.program} | ({failure.place.file} if failure.place is not None else set())
    for call, saved in saved_by_numpy(files, failure.sources):
        function, ending = named_by(saved)
        if os.path.exists(os.path.join(run.spec.cwd, path + ending)):
            return hint("file-named-longer", path=path, call=function, line=call.line, ending=ending)
    return None


def of_never(failure: Failure, run: Run, path: str) -> Hint | None:
    """Of a file that is made where no rank comes: under an ``if`` that asks whether a rank's number is one,
    where it is a text of the environment."""
    files = dict.fromkeys([run.spec.program, *([failure.place.file] if failure.place is not None else ())])
    for file in files:
        compared = {(one.line, one.test): one for one in _compared(file, failure.sources)}
        for call in _saving(path, file, failure) if compared else ():
            for node, part in around(call, failure.sources):
                tests = _needed(node.test) if isinstance(node, ast.If) and part == "body" else ()
                for test in tests:
                    if (one := compared.get((node.lineno, ast.unparse(test)))) is not None:
                        values = {"name": one.name, "key": one.key, "line": node.lineno, "test": head(node)}
                        return hint("file-made-by-none", path=path, at=call.line, **values)
    return None


def _compared(file: str, sources: Sources) -> list[Compared]:
    try:
        return compared_texts(Program.of(sources.text(file)))
    except (SyntaxError, ValueError, RecursionError):
        return []


def _needed(test: ast.expr) -> Sequence[ast.expr]:
    """What has to hold, each for itself."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else (test,)


def of_writing(failure: Failure, sides: Iterable[Side]) -> Hint | None:
    """Of a file that ends too early, where another rank was then writing one: it is there, and empty, from
    the moment on in which it is opened."""
    at = failure.place
    if at is None:
        return None
    read = _modules(node_at(Call(file=at.file, line=at.line, function=""), failure.sources))
    for side in sides:
        for call in reversed(side.way) if failure.rank not in side.ranks else ():
            if (line := _being_written(call, read, failure.sources)) is not None:
                return hint("file-being-written", writing=side.ranks, line=line, late=(failure.rank,))
    return None


def of_mapped(failure: Failure) -> Hint | None:
    """Of a file that is mapped with a larger dtype than the program has written it with, as many."""
    at = failure.place
    if at is None:
        return None
    calls = {
        one.lineno: one
        for call in calls_of_function("memmap", at.file, failure.sources)
        for one in own_nodes(node_at(call, failure.sources) or ast.Pass())
        if isinstance(one, ast.Call) and ast.unparse(one.func).endswith("memmap") and one.args
    }
    reads = [one for one in calls.values() if holds(one, at.line)]
    for read in reads if len(reads) == 1 else ():
        for wrote in calls.values():
            of_both = [{k.arg: ast.unparse(k.value) for k in one.keywords} for one in (read, wrote)]
            mine, theirs = of_both
            alike = ast.unparse(read.args[0]) == ast.unparse(wrote.args[0])
            alike = alike and mine.get("shape") == theirs.get("shape") and "w" in theirs.get("mode", "")
            sizes = [int(found[0]) for one in of_both if (found := _BITS.search(one.get("dtype", "")))]
            if alike and len(sizes) == 2 and sizes[0] > sizes[1]:
                values = {"read": mine["dtype"], "wrote": theirs["dtype"], "line": wrote.lineno}
                return hint("memmap-of-other-dtype", **values)
    return None


def of_workers(failure: Failure) -> Hint | None:
    """Of a part of a file that did not fit, read by a worker in a function that opens no file: by one that
    was opened before the fork, whose position all workers have in common."""
    at = failure.place
    if at is None or not any(_WORKERS.search(frame.file) for frame in failure.frames):
        return None
    functions = functions_of(Call(file=at.file, line=at.line, function=at.function), failure.sources)
    if not functions or any(map(_OPENS.search, map(ast.unparse, functions))):
        return None
    return hint("zip-read-by-workers")


def of_lock(failure: Failure, sides: Iterable[Side], run: Run) -> Hint | None:
    """Of a database that was locked for long, while all other ranks waited for this one and wrote nothing."""
    others = [side for side in sides if failure.rank not in side.ranks]
    told = tuple(sorted(rank for side in others for rank in side.ranks))
    if len(told) != run.spec.world_size - 1 or not all(side.place.waits for side in others):
        return None
    return hint("database-held-open", others=told, call=others[0].call, line=others[0].place.line)


def of_removal(failure: Failure) -> Hint | None:
    """Of a file or folder that is not there where it was to be removed: by this statement itself, or by what
    ``shutil.rmtree()`` does in it."""
    at, path = failure.place, failure.found.get("path")
    if at is None or not path or not failure.frames:
        return None
    last = failure.frames[-1]
    if failure.sources.is_own(last.file):
        called = _called(node_at(Call(file=at.file, line=at.line, function=""), failure.sources))
        removes = any(name.rpartition(".")[2] in _REMOVES for name in called)
    else:
        within = [frame.function for frame in failure.frames if _REMOVED_BY_SHUTIL.search(frame.file)]
        removes = within[:1] == ["rmtree"] and _REMOVED_BY_SHUTIL.search(last.file) is not None
    return hint("file-removed-already", path=path) if removes else None


def _being_written(call: Call, read: set[str], sources: Sources) -> int | None:
    """The line of a call that saves, or of a ``with`` that opens a file to save into it, which is under way
    and is no matter of another module than what was read by those of ``read``."""
    statement = node_at(call, sources)
    # one that holds others is stood in at its head, before all that is in it
    under_way = [] if statement is None or hasattr(statement, "body") else [statement]
    for node, _ in reversed(around(call, sources)):
        if isinstance(node, ast.With | ast.AsyncWith) and any(
            _writes(one.context_expr) for one in node.items
        ):
            under_way.append(node)
    for one in under_way:
        if _saves(one) and not (read and _modules(one) - read):
            return one.lineno
    return None


def _saves(node: ast.AST) -> bool:
    return any(name.rpartition(".")[2] in _WRITES for name in _called(node))


def _modules(node: ast.AST | None) -> set[str]:
    """The modules whose functions for files are called: ``json``, ``torch``."""
    of_files = {*_WRITES, "load", "loads"}
    names = (name.split(".") for name in _called(node) if "." in name)
    return {first for first, *_, last in names if first in _MODULES and last in of_files}


def _called(node: ast.AST | None) -> list[str]:
    calls = (one for one in own_nodes(node) if isinstance(one, ast.Call)) if node is not None else ()
    return [ast.unparse(one.func) for one in calls]


def _saving(path: str, file: str, failure: Failure) -> Iterator[Call]:
    """Where a file of the program's writes to a path."""
    names = _named_by(path, failure)
    for name in _SAVES:
        for call in calls_of_function(name, file, failure.sources):
            statement = node_at(call, failure.sources)
            if (name != "open" or _writes(statement)) and _names(statement, names, path):
                yield call


def _removed_below(saved: Call, path: str, failure: Failure) -> ast.stmt | None:
    """What removes a path in a file of the program, below the call that writes it."""
    names = _named_by(path, failure)
    for node in sorted(removing(saved.file, failure.sources), key=lambda node: node.lineno):
        removes = any(name.rpartition(".")[2] in _REMOVES for name in _called(node))
        if removes and node.lineno > saved.line and _names(node, names, path):
            return node
    return None


def _named_by(path: str, failure: Failure) -> set[str]:
    """The names in the line of the error that may stand for this path."""
    length = f"str of {len(path)} characters"
    return {one.name for one in failure.operands if one.what == length}


def of_missing(failure: Failure, run: Run, path: str) -> Hint | None:
    """Of a file that is missing: the lines of the program that make it, and those that remove files."""
    if not path.startswith("/"):
        return None
    files = {run.spec.program} | ({failure.place.file} if failure.place is not None else set())
    made = {call.line: call for file in files for call in _saving(path, file, failure)}
    if failure.line in made:
        return hint("folder-of-file-missing", path=path)
    told = [both("diagnosis.made-at", line=at, under=under(one, failure.sources)) for at, one in made.items()]
    named = [one for file in files if (one := own_names(file, failure.sources)) is not None]
    if named and failure.rank and _OF_MOMENT.search(path) and _has_other(path, failure):
        values = {"line": named[0].lineno, "source": head(named[0]), "late": (failure.rank,)}
        return hint("file-of-own-name", path=path, **values)
    told += [both("diagnosis.names-at", line=one.lineno, source=head(one)) for one in named]
    removed = {node.lineno: node for file in files for node in removing(file, failure.sources)}
    # of a DataLoader worker's error, what left the program tells where its rank was
    frames = [*failure.frames, *(failure.report.frames if failure.report is not None else ())]
    for node in removed.values():
        within = any(holds(node, frame.line) for frame in frames if frame.file in files)
        if _held_it(node, path) and not within:
            return hint("folder-of-with-gone", path=path, line=node.lineno, source=head(node))
    told += [both("diagnosis.removed-at", line=at, source=head(node)) for at, node in removed.items()]
    if not 0 < len(told) <= _FEW:
        return None
    lines = Both("; ".join(one.en for one in told), "；".join(one.zh for one in told))
    return hint("file-missing-made", path=path, lines=lines)


def _has_other(path: str, failure: Failure) -> bool:
    """Whether there is a folder or file that differs from what is missing of the path by numbers alone."""
    for one in failure.report.folders if failure.report is not None else ():
        missing = one.path.removeprefix(one.folder).strip(os.sep).partition(os.sep)[0]
        plain = _NUMBERS.sub("0", missing)
        if one.path == path and any(_NUMBERS.sub("0", name.rstrip(os.sep)) == plain for name in one.names):
            return True
    return False


def _held_it(node: ast.stmt, path: str) -> bool:
    """Whether a ``with`` makes a temporary folder, and the path is in one of such a name."""
    calls = [one.context_expr for one in node.items] if isinstance(node, ast.With) else []
    for call in (one for one in calls if isinstance(one, ast.Call)):
        given = {one.arg: one.value for one in call.keywords}
        if call.args or not ast.unparse(call.func).endswith("TemporaryDirectory"):
            continue
        prefix = getattr(given.get("prefix", ast.Constant("tmp")), "value", None)
        ending = getattr(given.get("suffix", ast.Constant("")), "value", None)
        # as tempfile names them
        named = rf"/{re.escape(prefix)}\w{{8}}{re.escape(ending)}/" if prefix and ending is not None else None
        if named is not None and re.search(named, path):
            return True
    return False


def _writes(statement: ast.AST | None) -> bool:
    """Whether a statement opens a file to write it."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call)) if statement else ()
    modes = (arg for call in calls for arg in [*call.args[:2], *(one.value for one in call.keywords)])
    return any(
        isinstance(one, ast.Constant) and re.fullmatch(r"[wxa][bt+]*", str(one.value)) for one in modes
    )


def _is_alone(call: Call, sources: Sources) -> bool:
    """Whether a call is in an ``if`` for some ranks."""
    ifs = (node for node, _ in around(call, sources) if isinstance(node, ast.If))
    return any(asks_for_rank(node.test, call, sources) for node in ifs)


def _names(statement: ast.AST | None, names: set[str], path: str) -> bool:
    """Whether a statement has the path, by one of these names or by a part that it writes."""
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if len(node.value) >= _LONG_ENOUGH and path.endswith(node.value):
                return True
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names:
            return True
    return False
