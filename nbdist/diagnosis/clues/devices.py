"""Tensors of two devices that meet: which value of the failing line is where, and why it stayed there."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbdist.diagnosis.clues.origins import origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import around, functions_of, head, holds, node_at, own_nodes
from nbdist.store.reports import Call
from nbdist.text import Both, both

_TYPES = re.compile(
    r"Input type \(torch\.(?P<input>cuda\.)?\w+\) and weight type \(torch\.(?P<weight>cuda\.)?"
)
_TWO = re.compile(
    r"found at least two devices, (?P<others>[\w:]+) and (?P<device>[\w:]+)!"
    r"(?: \(when checking argument for argument (?P<argument>\w+) in method (?P<method>\w+))?"
)
_ONE = re.compile(
    r"but got (?P<argument>\w+) is on (?P<device>[\w:]+), different from other tensors on (?P<others>[\w:]+)"
    r"(?: \(when checking argument in method (?P<method>\w+))?"
)
_INPUTS = frozenset({"mat1", "index", "indices"})
_OF_LOSS = re.compile(r"nll_loss|cross_entropy")
_CPU = "cpu"
_KNOWN = re.compile(r"(?:cpu|cuda|xpu|npu|mps)(?::\d+)?$")
_REPLICAS = re.compile(r"(?<![A-Za-z])DataParallel\(")

_TENSOR = re.compile(r"(?:Tensor|Parameter) \((?P<shape>[\d, ]*)\) \w+(?P<rest>.*)")
_AT = re.compile(r" on (\w+(?::\d+)?)$")
_LAYER = re.compile(r"\w+ with weight \([\d, ]*\) \w+(?P<where> on \S+?)?(?P<got>, got Tensor .*)?$")
_MODEL = re.compile(
    r"(?!Tensor |Parameter )\w+(?: with weight [^,]*\([\d, ]*\) \w+)? on ((?:cuda|xpu|npu)(?::\d+)?)$"
)
_DEVICE = re.compile(r"\b(?:cpu|cuda:\d+)\b")
_LOSS = re.compile(r"/torch/nn/modules/loss\.py$")
_CUT = 80
"""What is as long as this may have lost its end."""

_OPTIMIZER = re.compile(r"/torch/optim/(?!lr_scheduler|swa_utils)")
_OF_TORCH = re.compile(r"/torch/(?!optim/)")
_MODULES = re.compile(r"(?:^|\.)(?:\w*Module|\w*Model|\w*PreTrainedModel|Metric)$")
_LENGTHS = re.compile(r"len|size|count|num", re.IGNORECASE)
"""Some functions want the lengths of texts on the CPU."""

_MAKES = re.compile(
    r"\b(?:torch\.)(?:zeros|ones|empty|full|rand|randn|randint|randperm|arange|linspace|eye|tensor"
    r"|from_numpy|as_tensor|tril|triu|Tensor|FloatTensor|LongTensor|hann_window)\("
)
_NAMES_DEVICE = re.compile(r"str of|device$|\d+$")
_TO_CPU = re.compile(r"\.(?:cpu\(\)|to\(['\"]cpu['\"]\)|numpy\(\))$")
_NOT_TO_GPU = re.compile(r"cpu|\.to\((?:dtype=)?(?:torch\.)?(?:b?float|half|double|u?int|long|bool|complex)")
_COSTS = re.compile(r"loss|criter|objective|entropy|nll|bce|mse|(?:^|[._])(?:ce|l1)(?:_|$)", re.IGNORECASE)
_BY_HAND = re.compile(r"device_map|['\"]cuda:[1-9]|\.cuda\([1-9]")
_MOVES = frozenset({"to", "cuda"})
_LAYERS = re.compile(r"^(?:torch\.)?nn\.[A-Z]|(?:Block|Layer|Head|Conv|Attention)\w*$")
_OBJECTS = re.compile(r"(?:^|\.)[A-Z]\w*$")
_METRIC = "Encountered different devices in metric calculation"


@dataclass(frozen=True, slots=True)
class _Said:
    """What the error tells: where a layer's input or its weights are, labels, or the weights of classes."""

    role: str = ""
    device: str = ""
    devices: frozenset[str] = frozenset()


def of_devices(failure: Failure) -> Hint | None:
    """Of an error that a row knows as one of two devices."""
    complaint = failure.complaint
    if complaint is None:
        return None
    if _METRIC in complaint.outer.message:
        return _of_metric(failure)
    said, place = _said(complaint.root.message), failure.place
    below = failure.frames[failure.frames.index(place) + 1 :] if place in failure.frames else failure.frames
    # a closure of the program's may be called by an optimizer, and then there is more below it
    if place is not None and any(_OPTIMIZER.search(frame.file) for frame in below):
        return hint("devices-of-optimizer")
    if said is None or place is None:
        return None
    told = {one.name: at for one in failure.operands if (at := _device(one.what))}
    if not all(_KNOWN.match(device) for device in said.devices):
        return None
    is_weight = said.role == "weight" and said.device == _CPU
    if is_weight and (left_behind := _of_layer(failure)) is not None:
        return left_behind
    if said.role == "classes":
        return hint("device-of-loss-weights")
    if _CPU not in said.devices:
        return _of_gpus(told, failure)
    if any(_LOSS.search(frame.file) for frame in below) and _gives_alone(told, failure):
        return hint("device-of-loss-weights")
    left = [name for name, device in told.items() if device == _CPU]
    left = [name for name in left if not _LENGTHS.search(name)] or [
        name for name in left if not _is_given(name, failure)
    ]
    if any(_LOSS.search(frame.file) for frame in below):
        left = [name for name in left if _meets_loss(name, failure)]
    there = next(((name, device) for name, device in told.items() if device != _CPU), None)
    is_input = said.role == "input"
    got = [one.name for one in failure.operands if (found := _LAYER.match(one.what)) and found["got"]]
    got = (
        got
        if is_input and not any(_AT.search(one.what) for one in failure.operands if one.name in got)
        else []
    )
    model = next(((one.name, on[1]) for one in failure.operands if (on := _MODEL.match(one.what))), None)
    there = there or (model if is_input else None)
    fits = (
        bool(got) or all(_OF_TORCH.search(frame.file) for frame in below) or (is_input and there is not None)
    )
    # what stays on the CPU on purpose
    layers = [found for one in failure.operands if (found := _LAYER.match(one.what)) and not found["got"]]
    split = is_input and {bool(one["where"]) for one in layers} == {True, False}
    brought = [text for one in _calls_of_line(failure) if _TO_CPU.search(text := ast.unparse(one))]
    if split or any(
        re.search(rf"(?<![\w.]){re.escape(name)}\b", text) is None for name in left for text in brought
    ):
        return None
    if left and fits and (there is not None or is_input):
        return _of_tensors(left, there, failure)
    return hint("device-of-layer-input", name=got[0]) if got and not left else None


def _calls_of_line(failure: Failure) -> list[ast.Call]:
    place = failure.place
    here = Call(file=place.file, line=place.line, function="") if place is not None else None
    statement = node_at(here, failure.sources) if here is not None else None
    return [one for one in own_nodes(statement or ast.Pass()) if isinstance(one, ast.Call)]


def _takes(call: ast.Call, name: str) -> bool:
    given = (*call.args, *(one.value for one in call.keywords))
    return any(ast.unparse(part) == name for one in given for part in ast.walk(one))


def _is_given(name: str, failure: Failure) -> bool:
    """Whether a call of the failing line is given this, which it may want on the CPU."""
    return any(_takes(call, name) for call in _calls_of_line(failure))


def _meets_loss(name: str, failure: Failure) -> bool:
    """Whether this is what a loss is given, of several calls in the failing line."""
    calls = _calls_of_line(failure)
    return len(calls) == 1 or any(_takes(one, name) for one in calls if _COSTS.search(ast.unparse(one.func)))


def _gives_alone(told: Mapping[str, str], failure: Failure) -> bool:
    """Whether the one call of the failing line is given tensors on the GPU, and nothing else."""
    calls = _calls_of_line(failure)
    if len(calls) != 1 or calls[0].keywords:
        return False
    names = list(map(ast.unparse, calls[0].args))
    return len(names) > 1 and all(told.get(name, _CPU) != _CPU for name in names)


def of_map_location(failure: Failure) -> Hint | None:
    """Of a checkpoint for a GPU that is not there, where the program has asked for that one."""
    place = failure.place
    here = Call(file=place.file, line=place.line, function="") if place is not None else None
    statement = node_at(here, failure.sources) if here is not None else None
    # below the head of a loop or of a "with" there are others
    is_one = statement is not None and not hasattr(statement, "body")
    for node in ast.walk(statement) if statement is not None and is_one else ():
        if isinstance(node, ast.keyword) and node.arg == "map_location":
            value = ast.unparse(node.value)
            # a dict or a function may have left it where the file says
            plain = isinstance(node.value, ast.Constant | ast.JoinedStr) and value != "None"
            if plain or any(one.name == value and _NAMES_DEVICE.match(one.what) for one in failure.operands):
                return hint("map-location-not-there", value=value)
    return None


def _said(message: str) -> _Said | None:
    if (types := _TYPES.search(message)) is not None:
        if bool(types["input"]) is bool(types["weight"]):
            return None
        return _Said("weight" if types["input"] else "input", _CPU, frozenset({_CPU, "cuda"}))
    found = _ONE.search(message) or _TWO.search(message)
    if found is None:
        named = frozenset(_DEVICE.findall(message)) if "same device" in message else frozenset()
        return _Said(devices=named) if len(named) > 1 else None
    argument, device, others = found["argument"], found["device"], found["others"]
    devices = frozenset({device, others})
    if argument in _INPUTS:
        # of a layer: where its input is not, its weights are
        return _Said("input", device, devices) if device == _CPU else _Said("weight", others, devices)
    if argument == "mat2":
        return _Said("weight", device, devices)
    if _OF_LOSS.search(found["method"] or "") and device == _CPU:
        if argument == "weight":
            return _Said("classes", device, devices)
        if argument == "target":
            return _Said("labels", device, devices)
    return _Said("", "", devices)


def _device(what: str) -> str:
    """Where a tensor is; empty of anything else, of one number, which may be anywhere, and of a cut text."""
    found = _TENSOR.match(what)
    if found is None or not found["shape"] or len(what) >= _CUT:
        return ""
    at = _AT.search(found["rest"])
    return at[1] if at is not None else _CPU


def _of_gpus(told: Mapping[str, str], failure: Failure) -> Hint | None:
    text = failure.sources.text(failure.place.file) if failure.place is not None else ""
    places = {device: name for name, device in reversed(list(told.items()))}
    if len(places) != len(("one", "other")) or _REPLICAS.search(text) or _BY_HAND.search(text):
        return None
    (there, other), (here, one) = places.items()
    return hint("device-of-two-gpus", name=one, here=here, other=other, there=there)


def _of_tensors(left: Sequence[str], there: tuple[str, str] | None, failure: Failure) -> Hint:
    """Of tensors in the failing line that are on the CPU."""
    other = both("diagnosis.on-device", name=there[0], device=there[1]) if there else both("diagnosis.on-gpu")
    if (thrown := _thrown_away(left, failure)) is not None:
        name = ast.unparse(thrown.value.func.value)  # type: ignore[attr-defined]
        return hint("device-thrown-away", name=name, line=thrown.lineno, source=head(thrown))
    values: dict[str, object] = {"name": " and ".join(left[:3]), "first": left[0], "other": other}
    # a module has no device of its own
    is_tensor = there is not None and any(
        one.name == there[0] and _TENSOR.match(one.what) for one in failure.operands
    )
    values["device"] = f"{there[0]}.device" if there is not None and is_tensor else "device"
    if any(one.name in left and one.what.startswith("Parameter") for one in failure.operands):
        return hint("device-of-parameter", **values)
    if len(left) > 1:
        return hint("device-of-value", **values)
    own = list(failure.own_frames)
    at = origin_of(left[0], own, failure)
    if _is_plain(left[0], failure):
        line = both("diagnosis.set-at", line=at.line, source=at.source) if at is not None else Both("", "")
        return hint("device-plain-tensor", **values, attribute=left[0].partition(".")[2], line=line)
    if at is not None and _MAKES.search(at.source) and "device" not in at.source:
        return hint("device-made-here", **values, line=at.line, source=at.source)
    return hint("device-of-value", **values)


def _thrown_away(names: Sequence[str], failure: Failure) -> ast.Expr | None:
    """``images.to(device)`` alone, of one of these, or of what a loop of a caller gives for it."""
    own = list(failure.own_frames)
    at = origin_of(names[0], own, failure)
    for frame in reversed(own):
        if not failure.sources.is_program(frame.file):
            continue
        here = Call(file=frame.file, line=frame.line, function=frame.function)
        for function in functions_of(here, failure.sources):
            nodes = [node for child in function.body for node in own_nodes(child)]
            wanted = set(names)
            if frame is not own[-1]:
                loops = [node for node in nodes if isinstance(node, ast.For)]
                of_loop = at is not None and any(
                    (at.file, at.line) == (frame.file, one.lineno) for one in loops
                )
                wanted = _taken_apart(loops) & _given(here, failure) if of_loop else set()
            found = [
                node
                for node in nodes
                if isinstance(node, ast.Expr) and _moved(node.value) in wanted and node.lineno < frame.line
            ]
            if found:
                return found[-1]
    return None


def _moved(node: ast.expr) -> str:
    """``images`` of ``images.to(device)`` and ``images.cuda()``, as it is written."""
    called = node.func if isinstance(node, ast.Call) else None
    if (
        not isinstance(called, ast.Attribute)
        or called.attr not in _MOVES
        or _NOT_TO_GPU.search(ast.unparse(node))
    ):
        return ""
    return ast.unparse(called.value)


def _taken_apart(loops: Sequence[ast.For]) -> set[str]:
    """The names that a loop takes a batch apart into: a batch as one may be moved in place."""
    several = (loop.target for loop in loops if isinstance(loop.target, ast.Tuple))
    return {one.id for target in several for one in ast.walk(target) if isinstance(one, ast.Name)}


def _given(here: Call, failure: Failure) -> set[str]:
    """The names that the calls of a line are given."""
    calls = (
        one for one in ast.walk(node_at(here, failure.sources) or ast.Pass()) if isinstance(one, ast.Call)
    )
    given = (one for call in calls for one in (*call.args, *(each.value for each in call.keywords)))
    return {one.id for one in given if isinstance(one, ast.Name)}


def _is_plain(name: str, failure: Failure) -> bool:
    """Whether this is an attribute that a module of the program sets, and has not registered as a buffer."""
    owner = _class(failure)
    if owner is None or not re.fullmatch(r"self\.\w+", name):
        return False
    attribute, nodes = repr(name.partition(".")[2]), list(ast.walk(owner))
    is_set = any(isinstance(one, ast.Assign) and name in map(ast.unparse, one.targets) for one in nodes)
    calls = (one for one in nodes if isinstance(one, ast.Call) and one.args)
    return is_set and not any(ast.unparse(call.args[0]) == attribute for call in calls)


def _class(failure: Failure) -> ast.ClassDef | None:
    """The class of the program's, a module, whose method the failing line is in."""
    place = failure.place
    tree = parsed(failure.sources.text(place.file)) if place is not None else None
    if place is None or tree is None:
        return None
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    # a base of the program's own may be a module
    modules: set[str] = set()
    for node in classes:
        if any(_MODULES.search(base) or base in modules for base in map(ast.unparse, node.bases)):
            modules.add(node.name)
    return next((one for one in reversed(classes) if one.name in modules and holds(one, place.line)), None)


def _of_layer(failure: Failure) -> Hint | None:
    """Of a layer whose weights are on the CPU, and its input on the GPU."""
    layers = [
        one.name for one in failure.operands if (found := _LAYER.match(one.what)) and not found["where"]
    ]
    name = layers[-1] if layers else ""
    if (kept := _kept_plainly(failure, _LAYERS)) is not None:
        return hint("device-layers-in-list", name=kept[0], line=kept[1])
    own = list(failure.own_frames)
    at = origin_of(name, own, failure) if name.isidentifier() else None
    if at is not None and own[-1].function == "forward" and re.search(r"= (?:torch\.)?nn\.[A-Z]", at.source):
        return hint("device-layer-made-here", name=name, line=at.line, source=at.source)
    return hint("device-of-layer", name=name) if name and len(name) < _CUT else None


def _of_metric(failure: Failure) -> Hint:
    kept = _kept_plainly(failure, _OBJECTS)
    return hint("metrics-in-dict", name=kept[0], line=kept[1]) if kept else hint("metric-on-other-device")


def _kept_plainly(failure: Failure, made: re.Pattern[str]) -> tuple[str, int] | None:
    """The list or the dict of a module, with its line, that the failing line or a loop around it reads, and
    which holds what is ``made`` so: ``.to()`` does not look into it."""
    owner, place = _class(failure), failure.place
    if owner is None or place is None:
        return None
    here = Call(file=place.file, line=place.line, function=place.function)
    read = failure.sources.line(place.file, place.line)
    read += "".join(
        ast.unparse(step.iter) for step, _ in around(here, failure.sources) if isinstance(step, ast.For)
    )
    sets = [node for node in ast.walk(owner) if isinstance(node, ast.Assign)]
    for node in sets:
        name = ast.unparse(node.targets[0])
        is_once = [ast.unparse(one.targets[0]) for one in sets].count(name) == 1
        if is_once and re.search(rf"{re.escape(name)}\b", read) and _holds(node.value, name, made, owner):
            return name, node.lineno
    return None


def _holds(value: ast.expr, name: str, made: re.Pattern[str], owner: ast.ClassDef) -> bool:
    if not isinstance(value, ast.List | ast.Dict | ast.ListComp | ast.DictComp):
        return False
    given: list[ast.AST] = [value]
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{name}.append":
            given += node.args
    calls = (one for each in given for one in ast.walk(each) if isinstance(one, ast.Call))
    return any(made.search(ast.unparse(call.func)) for call in calls)
