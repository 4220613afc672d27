"""Ranks that read their data by themselves, in the DataLoader of torch or of paddle: do they get a batch?"""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LOOPS, around, goes_on, head, holds, method, own_nodes
from nbdist.store.reports import Call

_OF_PADDLE = "/paddle/io/"
_OF_LOADERS = re.compile(r"/torch/utils/data/|/paddle/io/")
_OF_WORKERS = re.compile(
    r"/(?:multiprocessing|queue)\b|:_(?:try_)?get_data$|:_shutdown_workers?$|/pin_memory\b"
    r"|:_(?:init_workers|try_put_indices|on_output_batch)$"
)
# where torch's loader takes a sample: not where it takes the numbers of the next ones, which its own samplers
# give at once
_READS = re.compile(r"/torch/utils/data/_utils/")
_LEAVING_LOOP = (ast.Break, ast.Return)


def has_no_workers(side: Side, sources: Sources) -> bool:
    """Whether these ranks are in a loader, and in nothing that waits for its workers or starts them. Of
    paddle's, which has the same functions for both, by what the program says."""
    calls = [call for call in side.calls if not _OF_WORKERS.search(f"{call.file}:{call.function}")]
    loaders = [call for call in calls if _OF_LOADERS.search(call.file)]
    if len(calls) < len(side.calls) or not loaders:
        return False
    if not any(_OF_PADDLE in call.file for call in loaders):
        return True
    made = [node for call in side.way for node in _loaders_of(call.file, sources)]
    given = [one for node in made for one in node.keywords if one.arg in (None, "num_workers")]
    return not side.workers and bool(made) and all(ast.unparse(one.value) == "0" for one in given)


def _loaders_of(file: str, sources: Sources) -> list[ast.Call]:
    """Where a file makes a DataLoader."""
    nodes = ast.walk(parsed(sources.text(file)) or ast.Module([], []))
    return [node for node in nodes if isinstance(node, ast.Call) and method(node) == "DataLoader"]


def no_batches(side: Side, sources: Sources) -> Hint | None:
    """Of ranks that read by themselves. One that is about to ask for a batch, in a loop over a loader that
    another loop repeats for ever, was hardly met there in its only round: it goes round without a batch."""
    call = side.way[-1] if side.way else None
    loops = [node for node, _ in around(call, sources) if isinstance(node, LOOPS)] if call else []
    if call is None or any(_READS.search(f"{one.file}:{one.function}") for one in side.calls):
        return None
    # paddle reads in a thread, for which the main one waits
    of_paddle = [one for one in side.calls if _OF_PADDLE in one.file]
    asks = not of_paddle or not (side.beside or any(one.function == "__next__" for one in of_paddle))
    if asks and len(loops) > 1 and loops[-1].lineno == call.line:
        outer, inner = loops[-2:]
        if isinstance(outer, ast.While) and isinstance(inner, ast.For):
            values = {"test": head(outer), "line": outer.lineno, "at": inner.lineno}
            return hint("hang-no-batches", who=side.ranks, **values)
    if loops and (anew := _begins_anew(loops[-1], call)) is not None:
        values = {"test": head(loops[-1]), "line": loops[-1].lineno, "at": anew.lineno}
        return hint("hang-no-batches", who=side.ranks, **values)
    return None


def _begins_anew(loop: ast.stmt, call: Call) -> ast.Try | None:
    """``while True: try: return next(it) except StopIteration: it = iter(loader)``, where these are in the
    ``except``: a loop that the first batch would have ended."""
    for node in (node for node in own_nodes(loop) if isinstance(node, ast.Try)):
        leaves = any(isinstance(one, ast.Return | ast.Break) for one in (*node.body, *node.orelse))
        for handler in node.handlers if leaves and isinstance(loop, ast.While) else ():
            ended = handler.type is not None and ast.unparse(handler.type) == "StopIteration"
            if (
                ended
                and goes_on(handler)
                and not isinstance(handler.body[-1], _LEAVING_LOOP)
                and holds(handler, call.line)
            ):
                return node
    return None
