"""A loss that is made up where a batch has nothing for it: its backward() exchanges no gradients."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import around, head
from nbdist.store.reports import Call

_MAKES = frozenset({"torch.tensor", "torch.zeros", "torch.zeros_like", "torch.FloatTensor"})
_DECIDES = (ast.If, ast.ExceptHandler, ast.Try)


def constant_loss(sides: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks of which some wait for gradients: with the line of a branch that gives a tensor of its own as
    the loss, with ``requires_grad=True``."""
    in_backward = [side for side in sides if side.place.what == "backward" and side.way]
    for side in in_backward:
        for file in dict.fromkeys(call.file for call in side.way):
            for node in ast.walk(parsed(sources.text(file)) or ast.Module([], [])):
                if not isinstance(node, ast.Return | ast.Assign) or not _is_made_up(node.value):
                    continue
                if isinstance(node, ast.Assign) and "loss" not in ast.unparse(node.targets[0]):
                    continue
                steps = around(Call(file=file, line=node.lineno, function=""), sources)
                if any(isinstance(step, _DECIDES) for step, _ in steps):
                    return hint("hang-constant-loss", line=node.lineno, source=head(node))
    return None


def _is_made_up(value: ast.expr | None) -> bool:
    """Whether an expression makes a tensor with a gradient of its own, of nothing that the model gave."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func) not in _MAKES:
        return False
    return any(
        one.arg == "requires_grad" and isinstance(one.value, ast.Constant) and one.value.value is True
        for one in value.keywords
    )
