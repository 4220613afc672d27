"""Memory that ran out: what the message tells of who holds it, and the program of what it keeps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbdist.diagnosis.clues.graphs import (
    OF_LAYERS,
    Function,
    are_off,
    backward_of,
    goes_back,
    modules,
    untrained,
)
from nbdist.diagnosis.clues.keeping import Kept, begins_anew, can_grow, is_of_batches, kept_in
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import LOOPS, around, functions_of, head, node_at, own_nodes
from nbdist.model import Run
from nbdist.store import ErrorFrame
from nbdist.store.reports import Call
from nbdist.text import Both, both

_SIZE = r"(?P<{}>[\d.]+ ?(?:[KMGT]i?B|bytes|B))"
_ASKED = re.compile(
    "(?:Tried to allocate|Cannot allocate|you tried to allocate) " + _SIZE.format("size"), re.IGNORECASE
)
_TOTAL = re.compile(
    f"total capaci?ty of {_SIZE.format('new')} of which|{_SIZE.format('old')} total capacity;"
)
_FREE = re.compile(f"of which {_SIZE.format('new')} is free|{_SIZE.format('old')} free;")
_OWN = re.compile(f"this process has {_SIZE.format('size')} memory in use")
_OTHER = re.compile(f"Process (?P<pid>\\d+) has {_SIZE.format('size')} memory in use")
_NUMBER = re.compile(r"GPU (\d+) has a total|\(GPU (\d+);")
_ALLOWED = re.compile(f"{_SIZE.format('size')} allowed;")
_ALLOCATED = re.compile(
    f"{_SIZE.format('new')} is allocated by PyTorch|{_SIZE.format('old')} already allocated"
)
_UNUSED = re.compile(f"{_SIZE.format('size')} is reserved by PyTorch but unallocated")
_RESERVED = re.compile(f"{_SIZE.format('size')} reserved in total by PyTorch")
_OF_PADDLE = re.compile(
    f"{_SIZE.format('held')} memory has been allocated and available memory is only {_SIZE.format('free')}"
)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_GIB, _MIB = 1 << 30, 1 << 20

_SHAPE = re.compile(r"Tensor \((?P<shape>[\d, ]+)\) (?P<dtype>\w+)(?P<gpu> on (?:cuda|gpu))?")
_OPTIMIZER = re.compile(r"/(?:torch/optim|paddle/optimizer)/")
_FRAMEWORKS = re.compile(r"/(?:torch|paddle)/")
_LAYERS = re.compile(r"/(?:torch/nn/modules/module|paddle/nn/layer/layers)\.py$")
_LIST = re.compile(r"list of \d+ \(Tensor \([\d, ]+\)\)$")
_JOINS = re.compile(r"(?:torch|paddle)\.(?:cat|concat|concatenate|stack|vstack|hstack)$")
_MOVES = re.compile(r"\.(?:to|cuda)\(")
_NOT_GROWN = re.compile(
    r"^(?:-?\d[\d.e+-]*|-?inf|nan|None|list of \d+|dict of 0)$|^(?:list of \d+ \()?ndarray|; without a graph$"
)
"""Nothing yet, plain numbers, or what has no graph."""

_OF_LOSS = re.compile(r"loss|criter|objective|cross_entropy|nll", re.IGNORECASE)
_TRAINS = re.compile(r"train|fit|finetune")
_MOVED = ("to", "cuda")
_MANY_WORDS = 20_000
"""What is the last size of a tensor that has a number for each word."""

_MANY_ROWS = 1_000
"""What has as many may be all data, and no batch."""

_LITTLE = 20
"""A part of the GPU: what a process holds there that computes elsewhere."""

_CONTEXT = 1.5 * _GIB
"""What CUDA itself takes of a GPU for a process, at most."""

_LARGE_ON_CPU = 4 * _GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a message tells, in bytes; 0 of what it does not. ``others`` are other processes; ``unused`` is
    reserved, and not in one piece; ``allowed`` what the program lets itself have."""

    asked: int = 0
    total: int = 0
    own: int = 0
    others: int = 0
    unused: int = 0
    allowed: int = 0

    @property
    def most(self) -> int:
        return self.allowed or self.total


def room_of(text: str) -> Room:
    total, free = _size(_TOTAL, text), _size(_FREE, text)
    unused, own = _size(_UNUSED, text), _size(_OWN, text)
    held = _size(_ALLOCATED, text) + unused
    if reserved := _size(_RESERVED, text):
        unused, held = max(reserved - held, 0), reserved
    others = sum(_bytes(one["size"]) for one in _OTHER.finditer(text)) if own else 0
    if total and not own and total - free - held > _CONTEXT:
        # one of the processes that are named may be this one, by the number that it has out of its container
        others = int(total - free - held - _CONTEXT)
    if (paddle := _OF_PADDLE.search(text)) is not None:
        total = _bytes(paddle["held"]) + _bytes(paddle["free"])
    allowed = _size(_ALLOWED, text)
    return Room(
        asked=_size(_ASKED, text),
        total=total,
        own=held if allowed else own or held,
        others=others,
        unused=unused,
        allowed=allowed,
    )


def _size(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return _bytes(next(filter(None, found.groups()), "0 B")) if found is not None else 0


def _bytes(text: str) -> int:
    number = re.match(r"[\d.]+", text)
    unit = text[number.end() :].strip() if number is not None else ""
    return int(float(number[0].rstrip(".")) * _UNITS.get(unit[:1], 1)) if number is not None else 0


def _told(size: float) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


def of_gpu(failure: Failure) -> Hint | None:
    """Of the memory of a GPU."""
    text = failure.said
    room = room_of(text)
    if room.most and room.asked >= room.most:
        return hint("gpu-asked-too-much", **_values(room, failure))
    crowded = room.total and not room.allowed and room.others > room.total / 2
    others = {"others": _told(room.others), "total": _told(room.total), "asked": _told(room.asked)}
    if crowded and room.own < room.total / 4:
        return hint("gpu-held-by-others", own=_told(room.own), **others)
    is_large = room.most and room.asked > room.most / 2
    found = None if is_large else of_kept(failure)
    if found is None and crowded:
        found = hint("gpu-held-by-others", own=_told(room.own), **others)
    found = found or _of_joined(failure) or _of_pieces(room, failure)
    return found or _of_stage(room, failure) or _full(room, failure)


def of_sharing(failure: Failure, run: Run) -> Hint | None:
    """Of a GPU that several ranks use: as they were started; or, though each has one of its own, by the
    number of the one that is full, which is another rank's, or by the processes that the message names."""
    text = failure.said
    full = _NUMBER.search(text)
    mine = run.ranks[failure.rank].spec
    near = [one for one in run.ranks if one.spec.node_rank == mine.node_rank]
    own = {str(one.spec.device) for one in near if one.spec.device.kind == "gpu"}
    if mine.device.kind == "gpu" and [one.spec.device for one in near].count(mine.device) > 1:
        # the others that the message names are these ranks, as was asked
        room = room_of(text)
        return of_kept(failure) or _full(room, failure) if room.others > room.total / 2 else None
    if full is None or run.spec.framework != "torch" or len(own) != len(near):
        return None
    number = int(next(filter(None, full.groups())))
    least = room_of(text).total / _LITTLE
    pids = {int(one["pid"]) for one in _OTHER.finditer(text) if _bytes(one["size"]) > least}
    others = {one.rank for one in near if one.process is not None and one.process.pid in pids}
    if number != mine.local_rank:
        others |= {one.rank for one in near if one.spec.local_rank == number}
    others -= {failure.rank}
    ranks = tuple(sorted({failure.rank, *others}))
    return hint("gpu-of-several-ranks", ranks=ranks, gpu=number) if others else None


def of_cpu(failure: Failure) -> Hint | None:
    """Of the memory of the machine, where a tensor of torch or paddle found no room in it."""
    text = failure.said
    asked = room_of(text).asked
    return of_kept(failure) if "DefaultCPUAllocator" in text and asked <= _LARGE_ON_CPU else None


def of_kept(failure: Failure) -> Hint | None:
    """What the program's text tells: graphs or models that it keeps in each round, gradients that nothing
    needs."""
    idle = untrained(failure)
    for frame in reversed(list(failure.own_frames)):
        call = Call(file=frame.file, line=frame.line, function=frame.function)
        tree = parsed(failure.sources.text(frame.file))
        functions = functions_of(call, failure.sources)[-1:]
        if tree is None or not functions:
            continue
        for loop in _loops(call, failure):
            models = _models_kept(loop, tree)
            if models is not None and _has_grown(models[1], frame, failure):
                node, name = models[0], models[2]
                return hint("models-kept", line=node.lineno, name=name, source=head(node))
            kept = None if goes_back(loop, tree) or are_off(failure) else kept_in(loop, functions[0], tree)
            if kept is not None and _has_grown(kept.name, frame, failure):
                return _graphs(kept, functions[0], is_idle=idle is not None)
    if idle is None:
        return None
    if not idle.function:
        return hint("no-grad-missing-in-loop", line=idle.line)
    return hint("no-grad-missing", line=idle.line, function=idle.function)


def _graphs(kept: Kept, function: Function, *, is_idle: bool) -> Hint | None:
    values = {"line": kept.node.lineno, "value": kept.value, "source": kept.source, "loop": kept.loop.lineno}
    if is_idle:
        return hint("graphs-kept-untrained", **values)
    backward = backward_of({re.split(r"[.\[]", kept.name)[0]}, function)
    if backward is None:
        return hint("graphs-kept", **values)
    if not _OF_LOSS.search(kept.name + kept.value) and not kept.is_sum:
        # of features, say, one loss may be computed of all: none of them can go back alone
        return None
    return hint("graphs-kept-for-backward", **values, name=kept.name, backward=backward.lineno)


def _loops(call: Call, failure: Failure) -> Iterator[ast.stmt]:
    """Those around a line in its function, from the inside out."""
    for node, part in reversed(around(call, failure.sources)):
        if isinstance(node, LOOPS) and part == "body":
            yield node


def _has_grown(name: str, frame: ErrorFrame, failure: Failure) -> bool:
    """Whether something had been kept in a name, as far as it is known what that was."""
    values = failure.report.values if failure.report is not None else ()
    known = [one.what for one in values if (one.file, one.name) == (frame.file, name)]
    return not known or _NOT_GROWN.search(known[-1]) is None


def _models_kept(loop: ast.stmt, tree: ast.Module) -> tuple[ast.stmt, str, str] | None:
    """What puts a model or an optimizer that a loop has made into a list or dict: it, that, the model."""
    nodes = [node for child in getattr(loop, "body", ()) for node in own_nodes(child)]
    calls = [one for one in nodes if isinstance(one, ast.Call)]
    called = [ast.unparse(one.func) for one in calls]
    # model.train() only sets how it works
    trains = [
        one for one in called if _TRAINS.search(one) and (not one.endswith(".train") or "rainer" in one)
    ]
    if not goes_back(loop, tree) and not trains:
        return None
    made = {
        name.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for name in node.targets
        if isinstance(name, ast.Name) and "trainer" not in name.id.lower()
    } & modules(tree)
    leaves = [ast.unparse(one) for one in nodes if isinstance(one, ast.Call | ast.Delete)]
    made = {
        one for one in made if not any(re.match(rf"{one}\.(?:cpu\(|to\(.*cpu|half)", text) for text in leaves)
    }
    begun = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for node in nodes:
        found = _put(node)
        if found is None or found[0] in begun or not can_grow(found[0], tree):
            continue
        if begins_anew(found[0], node, nodes):
            continue
        for name in sorted(made & set(_as_it_is(found[1]))):
            return node, found[0], name  # type: ignore[return-value]
    return None


def _put(node: ast.AST) -> tuple[str, ast.expr] | None:
    """``results.append(…)``, ``models[k] = …``."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1:
            return ast.unparse(call.func.value), call.args[0]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key = node.targets[0].slice
        if not isinstance(key, ast.Constant):
            return ast.unparse(node.targets[0].value), node.value
    return None


def _as_it_is(node: ast.expr) -> Iterator[str]:
    """The names in a value that it holds as they are, without what is computed of them."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Tuple | ast.List):
        for one in node.elts:
            yield from _as_it_is(one)
    elif isinstance(node, ast.Dict):
        for one in node.values:
            yield from _as_it_is(one)


def _of_joined(failure: Failure) -> Hint | None:
    """Of a list of tensors on the GPU that a line makes one tensor of, beside them."""
    place = failure.place
    if place is None or failure.frames[-1] is not place:
        return None
    call = Call(file=place.file, line=place.line, function=place.function)
    lists = {one.name: one.what for one in failure.operands if _LIST.match(one.what)}
    joins = [
        ast.unparse(one.args[0])
        for one in own_nodes(node_at(call, failure.sources) or ast.Pass())
        if isinstance(one, ast.Call) and one.args and _JOINS.search(ast.unparse(one.func))
    ]
    tree = parsed(failure.sources.text(place.file))
    if tree is None or OF_LAYERS.search(place.function) or _MOVES.search(place.source):
        return None
    for function in functions_of(call, failure.sources)[-1:]:
        for node in (node for child in function.body for node in own_nodes(child)):
            found = _put(node)
            if found is None or found[0] not in joins or found[0] not in lists:
                continue
            line: int = getattr(node, "lineno", 0)
            at = Call(file=place.file, line=line, function=place.function)
            of_data = [one for one in _loops(at, failure) if is_of_batches(one) and not goes_back(one, tree)]
            statement = node_at(call, failure.sources)
            targets = getattr(statement, "targets", [])
            made = {one.id for each in targets for one in ast.walk(each) if isinstance(one, ast.Name)}
            if backward_of(made, function) is not None:
                continue
            if line < call.line and "cpu" not in ast.unparse(found[1]) and of_data:
                values = {"name": found[0], "what": lists[found[0]], "line": line, "source": head(node)}
                return hint("gpu-joined", **values)
    return None


def _of_pieces(room: Room, failure: Failure) -> Hint | None:
    """Of memory that is there, and in no piece that is large enough; what CUDA graphs have reserved is for
    them alone."""
    text = failure.said
    own = [one.file for one in failure.frames if failure.sources.is_own(one.file)]
    if "private pools" in text or any("expandable_segments:True" in failure.sources.text(one) for one in own):
        return None
    if room.asked and room.unused > 2 * room.asked and room.unused > room.most / 10:
        return hint("gpu-in-pieces", unused=_told(room.unused), asked=_told(room.asked))
    return None


def _of_stage(room: Room, failure: Failure) -> Hint | None:
    """By what the failing line was about to do."""
    own = [at for at, one in enumerate(failure.frames) if failure.sources.is_own(one.file)]
    if not own:
        return None
    below = failure.frames[own[-1] + 1 :]
    values = _values(room, failure)
    if not room.most:
        return None
    if any(_OPTIMIZER.search(one.file) for one in below):
        made = any(one.function in ("_init_group", "_add_accumulator") for one in below)
        # sgd makes its momentum there, too
        copies = any(re.match(r"_multi_tensor_(?!sgd)", one.function) for one in below)
        name = "gpu-optimizer-state" if made else "gpu-optimizer-copies" if copies else "gpu-full"
        return hint(name, **values)
    # a forward() of the program's may be below it, computed anew for checkpointing
    if any(one.function == "backward" and _FRAMEWORKS.search(one.file) for one in failure.frames):
        return hint("gpu-backward", **values)
    return _of_move(values, room, failure) or _of_forward(values, failure)


def _of_move(values: dict[str, object], room: Room, failure: Failure) -> Hint | None:
    """Of a line that brings something to the GPU: a model, or a tensor as a whole."""
    place = failure.place
    if place is None:
        return None
    call = Call(file=place.file, line=place.line, function=place.function)
    moved = [
        ast.unparse(one.func.value)
        for one in own_nodes(node_at(call, failure.sources) or ast.Pass())
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _MOVED
    ]
    if any(_LAYERS.search(one.file) and one.function in _MOVED for one in failure.frames):
        return hint("gpu-model-moved", **values)
    known = {one.name: one.what for one in failure.operands}
    own = list(failure.own_frames)
    at = [Call(file=one.file, line=one.line, function=one.function) for one in own]
    in_loop = any(True for one in at for _ in _loops(one, failure))
    for name in moved:
        shape = _SHAPE.match(known.get(name, ""))
        if shape is None or shape["gpu"] or in_loop or OF_LAYERS.search(place.function):
            continue
        first = int(re.findall(r"\d+", shape["shape"])[0])
        if first >= _MANY_ROWS or room.asked > room.most / _LITTLE:
            return hint("gpu-data-moved", **values, name=name, shape=f"({shape['shape']})")
    return None


def _of_forward(values: dict[str, object], failure: Failure) -> Hint | None:
    """Of the tensors of the innermost line: the largest of them is named."""
    sizes: dict[str, tuple[int, ...]] = {}
    for one in failure.operands:
        found = _SHAPE.match(one.what)
        if found is not None and found["gpu"]:
            sizes[one.name] = tuple(map(int, re.findall(r"\d+", found["shape"])))
    if not sizes:
        return None
    name, shape = max(sizes.items(), key=lambda one: _count(one[1]))
    named = values | {"name": name, "shape": str(shape)}
    if len(shape) > 1 and shape[-1] >= _MANY_WORDS and "logit" in name:
        return hint("gpu-vocabulary", **named, words=shape[-1])
    of_model = any(_LAYERS.search(one.file) or one.function == "forward" for one in failure.frames)
    return hint("gpu-forward" if of_model else "gpu-line", **named)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for one in shape:
        count *= one
    return count


def _full(room: Room, failure: Failure) -> Hint | None:
    """The numbers of the message alone."""
    if not room.asked or not room.most or not room.own:
        return None
    return hint("gpu-full", **_values(room, failure))


def _values(room: Room, failure: Failure) -> dict[str, object]:
    more = both("diagnosis.raise-limit") if room.allowed else Both("", "")
    return {
        "asked": _told(room.asked),
        "own": _told(room.own),
        "room": _room(room, failure),
        "more": more,
    }


def _room(room: Room, failure: Failure) -> Both:
    """``the 4.0 GiB that the program allows itself (line 28)``, else ``the GPU's 80.0 GiB``."""
    if not room.allowed:
        others = "-with-others" if room.others > room.total / _LITTLE else ""
        return both(f"diagnosis.room{others}", total=_told(room.total), others=_told(room.others))
    files = {frame.file for frame in failure.frames if failure.sources.is_own(frame.file)}
    lines = [
        at
        for file in sorted(files)
        for at, text in enumerate(failure.sources.lines(file), 1)
        if "set_per_process_memory_fraction(" in text
    ]
    name = "diagnosis.room-allowed-at" if len(lines) == 1 else "diagnosis.room-allowed"
    return both(name, allowed=_told(room.allowed), line=lines[0] if lines else 0)
