"""The check of a kernel on the GPU that failed: which it was, and the call of the program that it belongs to.

Python raises for it later, in whatever waits for the GPU next.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint, match, variant
from nbdist.diagnosis.statements import functions_of, head, holds, node_at
from nbdist.store.reports import Call
from nbdist.text import Both, both

_OTHER_OWNERS = re.compile(
    r"(?:^|[._])(?:np|numpy|rng|random|plt|pyplot|axe?s?|dist|distributed|comm|accelerator|fabric|asyncio|strategy)$"
)
"""Whose gather(), scatter() and multinomial() are others than torch's."""

_PRETRAINED = re.compile(r"from_pretrained\(|rcnn|retinanet|maskformer|detection\.", re.IGNORECASE)
"""Models of libraries, which have embeddings and losses of their own."""

_OF_LIBRARIES = frozenset(
    {"kernel-labels", "kernel-labels-of-pixels", "kernel-embedding", "kernel-index-add"}
)
_OF_GPU = re.compile(
    r"CUDA error|CUDA driver error|CUBLAS|CUDNN|cuDNN|CUSOLVER|CUFFT|NCCL|Triton Error|Assertion `"
)


_WAITS = frozenset({"item", "cpu", "tolist", "numpy", "nonzero", "synchronize"})
_ON_GPU = re.compile(
    r"(?:Tensor|Parameter) \((?P<shape>[\d, ]*)\) (?:(?P<float32>float32)|\w+) on (?:cuda|gpu)"
)
_MOST = 2**31 - 1
_FLASH = re.compile(r"FLASH_ATTENTION|enable_flash=True")
_OTHERS = re.compile(r"EFFICIENT_ATTENTION|CUDNN_ATTENTION|\.MATH\b|enable_(?:mem_efficient|math)=True")


@dataclass(frozen=True, slots=True)
class _Calls:
    """Functions, and classes whose objects are called."""

    functions: frozenset[str]
    classes: frozenset[str] = frozenset()


_LOSSES = _Calls(
    frozenset({"cross_entropy", "nll_loss"}), frozenset({"CrossEntropyLoss", "NLLLoss", "NLLLoss2d"})
)
_BINARY = _Calls(frozenset({"binary_cross_entropy"}), frozenset({"BCELoss"}))
_SAMPLING = _Calls(frozenset({"multinomial"}))
_CALLS = {
    "kernel-labels": _LOSSES,
    "kernel-labels-of-pixels": _LOSSES,
    "kernel-embedding": _Calls(frozenset({"embedding", "index_select"}), frozenset({"Embedding"})),
    "kernel-gather": _Calls(
        frozenset({"gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "one_hot"})
    ),
    "kernel-index-add": _Calls(
        frozenset({"index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_"})
    ),
    "kernel-not-probabilities": _BINARY,
    "kernel-labels-beyond-one": _BINARY,
    "kernel-sampling": _SAMPLING,
    "kernel-check": _SAMPLING,
    "paddle-kernel-label": _LOSSES,
}


def of_assertion(failure: Failure) -> Hint | None:
    """Of an error of the GPU, after a kernel has printed which check has failed."""
    said = failure.said
    known = match(failure.assertion) if _OF_GPU.search(said) else None
    if known is None:
        return None
    row, found = known
    text = failure.sources.text(failure.place.file) if failure.place is not None else ""
    told = Hint.of(variant(row, text), found.groupdict())
    may_be_inside = row.name in _OF_LIBRARIES and _PRETRAINED.search(text) is not None
    may_be_inside = may_be_inside or (row.name == "kernel-check" and "_assert_async" in text)
    line = _line(_CALLS[row.name], failure) if row.name in _CALLS and not may_be_inside else None
    if line is None or failure.place is None:
        return told
    at = both("diagnosis.of-call", line=line, source=failure.sources.line(failure.place.file, line))
    return replace(told, cause=Both(told.cause.en + at.en, told.cause.zh + at.zh))


def of_capture(failure: Failure) -> Hint | None:
    """Of a call in the failing line that waits for the GPU, while a CUDA graph is captured."""
    place = failure.place
    here = Call(file=place.file, line=place.line, function="") if place is not None else None
    statement = node_at(here, failure.sources) if here is not None else None
    for node in ast.walk(statement or ast.Pass()):
        called = node.func if isinstance(node, ast.Call) else None
        waits = isinstance(called, ast.Attribute) and called.attr in _WAITS
        if waits and here is not None and holds(node, here.line):
            return hint("cuda-graph-waits", call=head(node))
    return None


def of_large(failure: Failure) -> Hint | None:
    """Of a tensor in the failing line with more elements than 32 bits can count."""
    for one in failure.operands:
        found = _ON_GPU.match(one.what)
        count = math.prod(map(int, re.findall(r"\d+", found["shape"]))) if found is not None else 0
        if count > _MOST:
            return hint("illegal-access-of-large", name=one.name, count=f"{count:,}")
    return None


def of_attention(failure: Failure) -> Hint | None:
    """Of attention by the flash kernel alone that is given float32."""
    text = failure.sources.text(failure.place.file) if failure.place is not None else ""
    given = _given(failure)
    names = [
        one.name
        for one in failure.operands
        if (found := _ON_GPU.match(one.what)) and found["float32"] and (given is None or one.name in given)
    ]
    # autocast gives the kernel half precision, and something else is wrong
    if "autocast" in text or not names or not _FLASH.search(text) or _OTHERS.search(text):
        return None
    said = Both(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}", f"{'、'.join(names)} 是")
    return hint("attention-float32", names=said)


def _given(failure: Failure) -> set[str] | None:
    """The query, key and value of attention in the failing line, without its mask; None of another line."""
    place = failure.place
    here = Call(file=place.file, line=place.line, function="") if place is not None else None
    statement = node_at(here, failure.sources) if here is not None else None
    for node in ast.walk(statement or ast.Pass()):
        if isinstance(node, ast.Call) and _name(node) == "scaled_dot_product_attention":
            named = [one.value for one in node.keywords if one.arg in ("query", "key", "value")]
            return {ast.unparse(one) for one in (*node.args[:3], *named)}
    return None


def _line(wanted: _Calls, failure: Failure) -> int | None:
    """The one call that a check belongs to: in the functions of the traceback, else in their file."""
    place = failure.place
    tree = parsed(failure.sources.text(place.file)) if place is not None else None
    if place is None or tree is None:
        return None
    objects = set(_objects(tree, wanted.classes))
    called = {_of_object(one) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    if not objects <= called:
        # in a list that a loop goes over, or by another name: which of them it was is open
        return None
    on_the_way: list[ast.AST] = []
    for frame in failure.frames:
        if frame.file == place.file and frame.function != "<module>":
            here = Call(file=frame.file, line=frame.line, function=frame.function)
            on_the_way += functions_of(here, failure.sources)
    for scope in (on_the_way, [tree]):
        lines = set(_called(scope, wanted, objects))
        if lines:
            return lines.pop() if len(lines) == 1 else None
    return None


def _objects(tree: ast.Module, classes: frozenset[str]) -> Iterator[str]:
    """``criterion``, ``self.embed``: what is set to an object of one of these classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_name(one) in classes for one in ast.walk(node.value)):
            yield from map(ast.unparse, node.targets)


def _called(scope: Iterable[ast.AST], wanted: _Calls, objects: set[str]) -> Iterator[int]:
    for node in (one for each in scope for one in ast.walk(each)):
        if isinstance(node, ast.Call):
            is_object = _of_object(node) in objects or _name(node.func) in wanted.classes
            owner = ast.unparse(node.func).rpartition(".")[0]
            if is_object or (_name(node) in wanted.functions and not _OTHER_OWNERS.search(owner)):
                yield node.lineno


def _of_object(call: ast.Call) -> str:
    """``self.tables`` of ``self.tables[k](ids)``."""
    called = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return ast.unparse(called)


def _name(node: ast.AST) -> str:
    """``CrossEntropyLoss`` of ``nn.CrossEntropyLoss(…)``; empty of what is no call."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
