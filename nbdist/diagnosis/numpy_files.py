"""Files that numpy gives a longer name than the program does: ``.npy``, ``.npz``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.statements import calls_of_function, node_at, own_nodes
from nbdist.store.reports import Call

_REMOVES = ("rmtree", "remove", "unlink", "TemporaryDirectory", "rename", "replace", "move")

_OF_FILES = re.compile(r"\b(?:os|shutil|tempfile)\.|rmtree\(|unlink\(|TemporaryDirectory\(")

_ADDED = {"save": ".npy", "savez": ".npz", "savez_compressed": ".npz"}
"""What numpy puts behind the name of a file that does not end so."""

_WRITTEN_OUT = re.compile(r"(?P<end>[^{}'\"]+)['\"]\)*$")
"""The end of a path that is told in the program."""


def longer_name(asked: Iterable[str], here: Call, sources: Sources) -> dict[str, object]:
    """What numpy writes under a longer name than a loop looks for: to a path that is one of these expressions
    and ends, wherever it is set, with letters that the program has. Empty where there is none."""
    tree = parsed(sources.text(here.file)) or ast.Module([], [])
    sets = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    read = (getattr(node, "value", None) or node for node in removing(here.file, sources))
    moved = {ast.unparse(one) for node in read for one in own_nodes(node)}
    for call, saved in saved_by_numpy((here.file,), sources):
        path = ast.unparse(saved.args[0])
        mine = [node for node in sets if path in map(ast.unparse, node.targets)]
        # a name in another function may be that of another path
        alike = call.function == here.function or "." in path or all(one in tree.body for one in mine)
        function, ending = named_by(saved)
        ends = [_WRITTEN_OUT.search(ast.unparse(one.value)) for one in mine]
        ends += [] if mine else [_WRITTEN_OUT.search(path)]
        # what is moved may get the shorter name after all
        alike = alike and path not in moved
        if path in asked and alike and all(one and one["end"][-len(ending) :] != ending for one in ends):
            return {"call": function, "at": call.line, "path": path, "ending": ending}
    return {}


def named_by(saved: ast.Call) -> tuple[str, str]:
    """The function of numpy, and what it puts behind the name of a file."""
    function = ast.unparse(saved.func)
    return function, _ADDED[function.rpartition(".")[2]]


def saved_by_numpy(files: Iterable[str], sources: Sources) -> Iterator[tuple[Call, ast.Call]]:
    for file in files:
        for name in _ADDED:
            for call in calls_of_function(name, file, sources):
                statement = node_at(call, sources)
                for one in own_nodes(statement) if statement is not None else ():
                    saves = isinstance(one, ast.Call) and ast.unparse(one.func) in (
                        f"np.{name}",
                        f"numpy.{name}",
                    )
                    if isinstance(one, ast.Call) and saves and one.args:
                        yield call, one


def removing(file: str, sources: Sources) -> Iterator[ast.stmt]:
    """What removes or moves files: not an item of a list, or a part of a text."""
    for name in _REMOVES:
        for call in calls_of_function(name, file, sources):
            statement = node_at(call, sources)
            if statement is not None and _OF_FILES.search(ast.unparse(statement)):
                yield statement
