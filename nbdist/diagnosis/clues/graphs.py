"""What a program keeps of the graphs of autograd, as far as its text tells: of which value there is one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.statements import LOOPS, around, functions_of, node_at, own_nodes
from nbdist.store.reports import Call

NO_GRADIENTS = re.compile(r"no_grad|inference_mode|set_grad_enabled|set_grad_mode")
_ASKS = re.compile(rf"{NO_GRADIENTS.pattern}|requires_grad|\bgrad\(|jacobian|hessian|jacrev|backward_hook")
"""Where a part of it has no gradients, or asks for them by itself."""

_SOUNDS_OFF = re.compile(r"(?<!enable_)(?<!auto)grad(?!ient)|inference|freeze|frozen|eval")
"""Of what a ``with`` is given."""

_OFF_FOR_ALL = re.compile(
    r"\bset_grad_enabled\((?!True)|\.requires_grad ?= ?False|\.requires_grad_\(False|stop_gradient = True"
    r"|(?<!un)freeze(?!_support)\w*\(|(?:no_grad|inference_mode)\(\)\.__enter__|enter_context\("
    r"|\b\w+\.stop_gradient\b|autograd\.grad\(|paddle\.grad\(|checkpoint_sequential|functional_call"
)
"""Where autograd is off, or is asked of by itself: what has a graph there the text does not tell."""

_DECORATED = frozenset({"decorate_context", "_decorate_function"})
"""What no_grad(), as a decorator, calls a function through."""

_OF_TRAINERS = re.compile(
    r"/(?:lightning|pytorch_lightning|ignite|fastai|skorch|keras|diffusers|sentence_transformers|mmengine)/"
    r"|/transformers/(?:trainer|generation|pipelines)|/paddle/hapi/"
)
"""These switch gradients on and off by themselves."""

_PASSES_ON = re.compile(
    r"/torch/nn/modules/|/torch/nn/parallel/|/torch/_dynamo/|/paddle/nn/layer/"
    r"|/(?:hydra|click|fire|typer|absl|tqdm|runpy|contextlib|functools)\b"
)
"""Libraries that call the program's functions, and leave gradients as they are."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
_OF_MODULES = re.compile(r"(?:parameters|named_parameters|train|eval)$")
_LOSS = re.compile(r"loss|criter|objective", re.IGNORECASE)
_PLAIN_LAYER = re.compile(
    r"nn\.(?:\w*Loss|Softmax|LogSoftmax|ReLU|Sigmoid|Tanh|GELU|Flatten|Dropout|Upsample|Identity|\w*Pool\w*)$"
)
"""Layers without parameters: what they give has a graph where what they get has one."""

_KEEPS = re.compile(
    r"(?:mean|sum|view|reshape|squeeze|unsqueeze|flatten|transpose|permute|t|softmax|log_softmax|sigmoid|tanh|relu"
    r"|exp|log|float|half|double|cpu|cuda|to|clone|contiguous|div|mul|add|sub|pow|sqrt|abs|norm|clamp|expand|repeat"
    r"|astype|cast|values|items|square|logsumexp|unbind|chunk|split|gather|index_select|masked_select)$"
)
"""Methods whose tensor has the graph of the one that they are called of."""

_ENDS = re.compile(
    r"(?:arg\w+|round|floor|ceil|sign|eq|ne|gt|lt|ge|le|max|min|topk|sort|kthvalue|median|mode|is\w+|\w*_like|one_hot"
    r"|zeros|ones|full|tensor|to_tensor|manual_seed|cuda\.\w+|histc|bincount|unique|where|logical_\w+|save|allclose)$"
)
_OF_LIBRARY = re.compile(r"(?:F|nn\.functional|torch\.nn\.functional|paddle\.nn\.functional|torch|paddle)\.")
_TRAINS = frozenset({"step", "fit", "minimize", "train_on_batch", "train_batch"})
_TRAIN = re.compile(r"(?:^|_)(?:train|learn|fit)_|_train$|^learn$|optimi[sz]e(?!r)|loss_scaler$")
_OPTIMIZER = re.compile(r"(?:^|[._])(?:opt|optim|optimi[sz]er)s?(?:_\w+)?$")
_ONLY_READS = re.compile(r"^[A-Z]|save|load|prepare|log|print|get|wrap|initialize|schedule")
"""What is given an optimizer, and takes no step with it."""

_PARTS = frozenset({"loss", "logits", "last_hidden_state", "hidden_states", "pooler_output", "T", "mT"})
"""Attributes of what a model gave that have a graph, too."""

_PLAIN_NUMBER = re.compile(r"\.item\(|detach|\bfloat\(|tolist|\.data\b")
_TELLS = re.compile(
    r"reduce|(?:^|_)log(?:_|$)|avg|average|mean|value|detach|item|scalar|gather|meter|record|scaler|print"
)
"""Functions of other files that give the number of a loss, and not what it is computed of."""

OF_LAYERS = re.compile(r"^forward|^__call__$|_step$|loss", re.IGNORECASE)
"""Functions that go through one batch."""

_EVALUATES = re.compile(
    r"(?:^|_)(?:eval|evaluate|evaluation|valid|validate|validation|val|test|predict|infer|inference)(?:_|$)"
)
_MOST_CALLS = 3


def are_off(failure: Failure) -> bool:
    """Whether there may be no gradients where a program failed: by what is around the lines of its traceback,
    by the library that called them, or by what the files say for all that is in them."""
    if any(frame.function in _DECORATED or _OF_TRAINERS.search(frame.file) for frame in failure.frames):
        return True
    own = [at for at, frame in enumerate(failure.frames) if failure.sources.is_own(frame.file)]
    between = failure.frames[own[0] : own[-1]] if own else ()
    if any(not failure.sources.is_own(one.file) and not _PASSES_ON.search(one.file) for one in between):
        return True
    for frame in failure.frames:
        if not failure.sources.is_own(frame.file):
            continue
        call = Call(file=frame.file, line=frame.line, function=frame.function)
        tree = parsed(failure.sources.text(frame.file)) or ast.Module([], [])
        withs = [node for node, _ in around(call, failure.sources) if isinstance(node, ast.With)]
        if any(leaves_out(node, tree) for node in withs) or _OFF_FOR_ALL.search(
            failure.sources.text(frame.file)
        ):
            return True
        functions = functions_of(call, failure.sources)
        if any(_is_decorated(one) for one in functions):
            return True
    return False


def leaves_out(node: ast.AST, tree: ast.Module) -> bool:
    """``with torch.no_grad():``, and ``with off:``, where the file makes ``off`` of that."""
    return isinstance(node, ast.With) and any(_is_off(one.context_expr, tree) for one in node.items)


def _is_off(given: ast.expr, tree: ast.Module) -> bool:
    text = ast.unparse(given)
    if _SOUNDS_OFF.search(text):
        return True
    name = ast.unparse(given.func if isinstance(given, ast.Call) else given).rpartition(".")[2]
    made = [one for one in ast.walk(tree) if isinstance(one, ast.Assign) and name in set(set_by(one))]
    return any(NO_GRADIENTS.search(ast.unparse(one)) for one in (*made, *_functions(tree).get(name, ())))


def _is_decorated(function: Function) -> bool:
    return any(NO_GRADIENTS.search(ast.unparse(one)) for one in getattr(function, "decorator_list", ()))


def goes_back(node: ast.AST, tree: ast.Module, depth: int = 0) -> bool:
    """Whether a statement calls backward() or takes a step of an optimizer, or calls a function of the file
    that does."""
    calls = (one for one in own_nodes(node) if isinstance(one, ast.Call))
    names = {called.rpartition(".")[2] for called in (ast.unparse(one.func) for one in calls)}
    if any("backward" in name or name in _TRAINS for name in names):
        return True
    known = _functions(tree)
    if any(_TRAIN.search(name) for name in names if name not in known):
        return True
    if any(_takes_step(one) for one in own_nodes(node) if isinstance(one, ast.Call)):
        return True
    own = [one for name in sorted(names) for one in known.get(name, ())]
    return depth < _MOST_CALLS and any(_trains(one, tree, depth + 1) for one in own)


def _takes_step(call: ast.Call) -> bool:
    """``loss_scaler(loss, optimizer)``"""
    given = (*call.args, *(one.value for one in call.keywords))
    name = ast.unparse(call.func).rpartition(".")[2]
    return not _ONLY_READS.search(name) and any(_OPTIMIZER.search(ast.unparse(one)) for one in given)


@lru_cache(maxsize=1024)
def _trains(function: Function, tree: ast.Module, depth: int) -> bool:
    return any(goes_back(child, tree, depth) for child in function.body)


# the nodes of a tree are told apart by identity
@lru_cache(maxsize=4)
def _functions(tree: ast.Module) -> Mapping[str, Sequence[ast.FunctionDef | ast.AsyncFunctionDef]]:
    found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    for one in ast.walk(tree):
        if isinstance(one, _FUNCTIONS):
            found.setdefault(one.name, []).append(one)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """Which values of a function of a file have a graph, as far as that is certain. ``given`` are its
    parameters that have one."""

    tree: ast.Module
    function: Function
    line: int
    given: frozenset[str] = frozenset()
    depth: int = 0

    def has(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return self._of_name(node.id)
        if isinstance(node, ast.BinOp):
            return self.has(node.left) or self.has(node.right)
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not) and self.has(node.operand)
        if isinstance(node, ast.Subscript):
            return self.has(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr in _PARTS and self.has(node.value)
        if isinstance(node, ast.Tuple | ast.List):
            return any(map(self.has, node.elts))
        if isinstance(node, ast.Dict):
            return any(map(self.has, node.values))
        return isinstance(node, ast.Call) and self._of_call(node)

    def _of_name(self, name: str) -> bool:
        """By what set it last above the line."""
        nodes = (node for child in self.function.body for node in own_nodes(child))
        sets = [node for node in nodes if name in set_by(node) and node.lineno <= self.line]  # type: ignore[attr-defined]
        if not sets:
            return name in self.given
        last = max(sets, key=lambda one: one.lineno)  # type: ignore[attr-defined]
        if not isinstance(last, ast.Assign) or self.depth > 2 * _MOST_CALLS:
            return False
        if self._is_off(last):
            return False
        at = replace(self, line=last.lineno - 1, depth=self.depth + 1)
        target, value = last.targets[0], last.value
        if isinstance(target, ast.Tuple):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                pairs = zip(target.elts, value.elts, strict=True)
                return any(
                    at.has(part) for one, part in pairs if isinstance(one, ast.Name) and one.id == name
                )
            # of (output, hidden) each has it; of (value, index) one has
            return isinstance(value, ast.Call) and at.has(value) and not _gives_indices(value)
        return at.has(value)

    def _is_off(self, within: ast.AST) -> bool:
        nodes = (node for child in self.function.body for node in own_nodes(child))
        return any(leaves_out(node, self.tree) and is_in(within, node) for node in nodes)

    def _of_call(self, call: ast.Call) -> bool:
        text = ast.unparse(call.func)
        owner, _, name = text.rpartition(".")
        arguments = [*call.args, *(one.value for one in call.keywords)]
        if text in modules(self.tree):
            return True
        if owner and _KEEPS.match(name) and not _OF_LIBRARY.match(text):
            return self.has(call.func.value)  # type: ignore[attr-defined]
        if _OF_LIBRARY.match(text):
            return not _ENDS.search(text) and any(map(self.has, arguments))
        if text == "sum":
            if _PLAIN_NUMBER.search(ast.unparse(call)):
                return False
            names = (one for node in arguments for one in ast.walk(node) if isinstance(one, ast.Name))
            return any(map(self.has, names))
        own = _functions(self.tree).get(name, ())
        if len(own) == 1 and owner in ("", "self"):
            return self._returned(own[0], call)
        computes = _LOSS.search(name) is not None and _TELLS.search(name) is None
        return computes and not own and any(map(self.has, arguments))

    def _returned(self, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> bool:
        """Whether a function of the file gives back what has a graph."""
        if self.depth > _MOST_CALLS or _is_decorated(function):
            return False
        if _trains(function, self.tree, 0):
            return False
        names = [one.arg for one in function.args.args]
        names = names[1:] if names[:1] == ["self"] else names
        given = {name for name, one in zip(names, call.args, strict=False) if self.has(one)}
        given |= {one.arg for one in call.keywords if one.arg and self.has(one.value)}
        ends = [
            node
            for child in function.body
            for node in own_nodes(child)
            if isinstance(node, ast.Return) and node.value is not None
        ]
        inside = replace(self, function=function, given=frozenset(given), depth=self.depth + 1)
        given_back = (one for one in ends if not inside._is_off(one))
        return any(replace(inside, line=one.lineno).has(one.value) for one in given_back if one.value)


def _gives_indices(call: ast.Call) -> bool:
    return _ENDS.search(ast.unparse(call.func)) is not None


def set_by(node: ast.AST) -> Iterator[str]:
    """The names that a statement sets anew."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.For | ast.AsyncFor | ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [one.optional_vars for one in node.items if one.optional_vars is not None]
    else:
        return
    for target in targets:
        for one in ast.walk(target):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def addition(node: ast.AST) -> tuple[str, ast.expr] | None:
    """``total += loss``, ``total = total + loss``, ``losses.append(loss)``."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return ast.unparse(node.target), node.value
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Add)
    ):
        name = ast.unparse(node.targets[0])
        sides = {ast.unparse(one): one for one in (node.value.left, node.value.right)}
        other = [one for text, one in sides.items() if text != name]
        return (name, other[0]) if name in sides and len(other) == 1 else None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        is_kept = isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1
        return (ast.unparse(call.func.value), call.args[0]) if is_kept else None  # type: ignore[attr-defined]
    return None


def is_in(node: ast.AST, outer: ast.AST) -> bool:
    return any(one is node for one in ast.walk(outer))


@lru_cache(maxsize=4)
def modules(tree: ast.Module) -> frozenset[str]:
    """What a file treats as a model: it asks for its parameters, or sets how it works."""
    found, plain = set(), set()
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and _OF_MODULES.match(called.attr):
            found.add(ast.unparse(called.value))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func)
            if re.match(r"(?:torch\.|paddle\.)?nn\.[A-Z]\w*$", made):
                names = {ast.unparse(one) for one in node.targets}
                found |= names
                plain |= names if _PLAIN_LAYER.search(made) else set()
    return frozenset(one for one in found - plain - {"self"} if not _LOSS.search(one))


@dataclass(frozen=True, slots=True, kw_only=True)
class Untrained:
    """What calls a model and trains nothing with it, in no torch.no_grad(): a ``function``, or a loop."""

    function: str
    line: int


def untrained(failure: Failure) -> Untrained | None:
    """Of a failure while a model is called. Its caller is not given anything that it trains with."""
    own = list(failure.own_frames)
    calls = [Call(file=one.file, line=one.line, function=one.function) for one in own]
    within = next((at for at, one in enumerate(calls) if one.function in ("forward", "__call__")), len(calls))
    if within == 0 or are_off(failure):
        return None
    at = calls[within - 1]
    tree = parsed(failure.sources.text(at.file))
    functions = functions_of(at, failure.sources)[-1:]
    if tree is None or not functions or not _calls_model(at, tree, failure):
        return None
    if any(_trains_with(one, failure) for one in calls[: within - 1]):
        return None
    function = functions[0]
    if not isinstance(function, ast.Module) and _ASKS.search(ast.unparse(function)):
        return None
    if isinstance(function, ast.Module):
        return _untrained_loop(at, function, failure)
    if _trains(function, tree, 0) or OF_LAYERS.search(function.name):
        return None
    if not _EVALUATES.search(function.name) and _last_mode(function, at.line) != "eval":
        return None
    return Untrained(function=function.name, line=function.lineno)


def _calls_model(call: Call, tree: ast.Module, failure: Failure) -> bool:
    statement = node_at(call, failure.sources) or ast.Pass()
    named = {ast.unparse(one.func) for one in own_nodes(statement) if isinstance(one, ast.Call)}
    return bool(named & modules(tree))


def _untrained_loop(call: Call, tree: ast.Module, failure: Failure) -> Untrained | None:
    loops = [one for one, part in around(call, failure.sources) if isinstance(one, LOOPS) and part == "body"]
    alone = [one for one in loops if not goes_back(one, tree) and not _ASKS.search(ast.unparse(one))]
    if not alone or _last_mode(tree, call.line) != "eval":
        return None
    return Untrained(function="", line=alone[0].lineno)


def _last_mode(function: Function, line: int) -> str:
    """``eval`` or ``train``: the last that a model was set to above a line."""
    nodes = [node for child in function.body for node in own_nodes(child) if isinstance(node, ast.Call)]
    modes = [
        (node.lineno, node.func.attr)
        for node in nodes
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("eval", "train") and node.lineno < line
    ]
    return max(modes)[1] if modes else ""


def _trains_with(call: Call, failure: Failure) -> bool:
    """Whether what the statement in a line gives goes to a backward() of the same function."""
    statement = node_at(call, failure.sources)
    functions = functions_of(call, failure.sources)[-1:]
    if statement is None or not functions:
        return True
    if "backward" in ast.unparse(statement):
        return True
    names = set(set_by(statement))
    if isinstance(statement, ast.Assign):
        # self.loss = …, losses["total"] = …
        names |= {next(iter(reads(one)), "") for one in statement.targets}
    elif isinstance(statement, ast.AugAssign | ast.Expr):
        found = addition(statement)
        names |= set() if found is None else reads(ast.parse(found[0]))
    calls = [node for child in functions[0].body for node in own_nodes(child) if isinstance(node, ast.Call)]
    given = _with_what_is_made(names, functions[0])
    if any(_takes_step(one) and given & reads(one) for one in calls):
        return True
    return backward_of(names, functions[0]) is not None


def backward_of(names: set[str], function: Function) -> ast.Call | None:
    """The backward() of a function that what these names have goes to."""
    given = _with_what_is_made(names, function)
    nodes = (node for child in function.body for node in own_nodes(child))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return next((one for one in calls if "backward" in ast.unparse(one.func) and given & reads(one)), None)


def _with_what_is_made(names: set[str], function: Function) -> set[str]:
    """These names of a function, and those of what it computes of them."""
    given = set(names)
    nodes = [node for child in function.body for node in own_nodes(child)]
    for _ in range(_MOST_CALLS):
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AugAssign) and given & reads(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                given |= {one.id for each in targets for one in ast.walk(each) if isinstance(one, ast.Name)}
    return given


def reads(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
