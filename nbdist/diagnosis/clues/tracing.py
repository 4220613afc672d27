"""A failing line that a framework runs to record a graph: its tensors have the shapes that were declared, and
no values."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.statements import head
from nbdist.text import Both, both

_TRACERS = (
    (re.compile(r"/paddle/jit/"), "paddle.jit"),
    (re.compile(r"/torch/onnx/"), "torch.onnx"),
    (re.compile(r"/torch/export/"), "torch.export"),
    (re.compile(r"/torch/fx/_symbolic_trace\.py$"), "torch.fx"),
    (re.compile(r"/torch/_dynamo/(?:symbolic_convert|convert_frame|output_graph)\.py$"), "torch.compile"),
)
_WITH_DATA = re.compile(r"/torch/jit/_trace\.py$")
"""Records what it is given, and so does the older torch.onnx by it."""

_IS_SAID = re.compile(r"jit|static|trac|spec|compil|dynamo|export|onnx|graph")
_SPEC = "InputSpec"


def note_of_tracing(failure: Failure) -> list[Both]:
    """By whom the failing line is traced, and from which line of the program, unless the hint says so."""
    at, known = failure.place, failure.hint
    if at is None or (known is not None and _IS_SAID.search(known.signature + known.cause.en)):
        return []
    frames = list(failure.frames)
    last = max((place for place, one in enumerate(frames) if one == at), default=0)
    outer = next((one for one in frames[:last] if failure.sources.is_own(one.file)), None)
    within = [name for one in frames[:last] for pattern, name in _TRACERS if pattern.search(one.file)]
    if outer is None or not within or any(_WITH_DATA.search(one.file) for one in frames[:last]):
        return []
    spec = _spec(failure) if within[0] == "paddle.jit" else Both("", "")
    return [both("diagnosis.traced", line=at.line, by=within[0], outer=outer.line, spec=spec)]


def _spec(failure: Failure) -> Both:
    """The shapes that the program declares, where they are declared once."""
    files = dict.fromkeys(one.file for one in failure.frames if failure.sources.is_own(one.file))
    found = [
        node
        for file in files
        for node in ast.walk(parsed(failure.sources.text(file)) or ast.Module([], []))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == _SPEC
    ]
    if len(found) != 1:
        return Both("", "")
    return both("diagnosis.traced-spec", spec=head(found[0]), line=found[0].lineno)
