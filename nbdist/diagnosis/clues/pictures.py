"""Pictures: with colours or without, and masks that are resized."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint

_OF_PIXELS = re.compile(r"Tensor \(\d+, \d+, \d+(?:, \d+)?\) u?int\d+")
_RESIZERS = frozenset(
    {
        "zoom",
        "resize",
        "Resize",
        "rescale",
        "interpolate",
        "rotate",
        "warpAffine",
        "RandomRotation",
        "RandomAffine",
    }
)
"""What gives a picture new pixels, between those that it had."""

_MASK = re.compile(r"mask|\blab|label|seg|\bgt|target|annot", re.IGNORECASE)
_BY_NEAREST = re.compile(r"NEAREST|nearest|order\s*=\s*0")
_OPENS = re.compile(r"Image\.open\(|imread\(")
_LEAST_SIDE = 8
"""Of a picture."""


def of_alpha(failure: Failure) -> Hint | None:
    """Of three channels that meet four: in a program that opens pictures as they are."""
    found, place = failure.found, failure.place
    text = failure.sources.text(place.file) if place is not None else ""
    if {found.get("a"), found.get("b")} != {"3", "4"} or "Image.open(" not in text or ".convert(" in text:
        return None
    return hint("image-with-alpha")


def of_gray(failure: Failure) -> Hint | None:
    """Of a picture without colours that meets values for three, in a program that opens pictures."""
    shapes = [re.findall(r"\d+", failure.found.get(name) or "") for name in ("a", "b")]
    place = failure.place
    text = failure.sources.text(place.file) if place is not None else ""
    sides = [shape for shape in shapes if len(shape) == len(("height", "width"))]
    is_gray = ["3"] in shapes and len(sides) == 1 and min(map(int, sides[0])) >= _LEAST_SIDE
    return hint("image-gray") if is_gray and _OPENS.search(text) is not None else None


def of_flat_picture(failure: Failure) -> Hint | None:
    """Of an array that has no axis for colours, in a line that works with a picture."""
    is_flat = (failure.found.get("have"), failure.found.get("want")) == ("2", "3")
    is_picture = any(one.what == "Image" for one in failure.operands)
    return hint("image-without-colours") if is_flat and is_picture else None


def of_masks(failure: Failure) -> Hint | None:
    """Of a class that there is none of, among labels of pixels: of masks that the program resizes."""
    place = failure.place
    text = failure.sources.text(place.file) if place is not None else ""
    tree = parsed(text)
    labels = any(_OF_PIXELS.search(one.what) for one in failure.operands)
    if not labels or tree is None or _BY_NEAREST.search(text):
        return None
    resizers = {name for node in ast.walk(tree) for name in _made_to_resize(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (_resizes(node) or _last(node.func) in resizers):
            given = [*node.args, *(one.value for one in node.keywords)]
            if any(_MASK.search(ast.unparse(one)) for one in given):
                return hint("masks-resized", line=node.lineno)
    return None


def _resizes(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _last(node.func) in _RESIZERS


def _made_to_resize(node: ast.AST) -> Iterator[str]:
    """The name of a function of the program that resizes, or of what is made to do so."""
    if isinstance(node, ast.FunctionDef) and any(map(_resizes, ast.walk(node))):
        yield node.name
    elif isinstance(node, ast.Assign) and any(map(_resizes, ast.walk(node.value))):
        yield from map(_last, node.targets)


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
