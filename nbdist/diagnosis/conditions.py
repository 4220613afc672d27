"""Whether a condition of a program asks for the rank, holds on all ranks, or on one of this number."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping

from nbdist.diagnosis.places import Sources, parsed
from nbdist.store.reports import Call

_OF_RANKS = re.compile(
    r"(?<!lora_)(?<!low_)(?<!matrix_)rank(?!ing|ed|er|_loss)|main_process|is_(?:main|master|chief|primary)"
    r"|process_index|trainer_id|(?:global|process)_zero",
    re.IGNORECASE,
)
OWN_RANK = re.compile(r"(?:\w+\.)*(?:rank|local_rank|global_rank|get_rank\(\))")
_OF_ALL = re.compile(
    r"[\w.]*\b\w*(?:is_initialized|is_available|is_built|avail_and_initialized)\(\)"
    r"|[\w.]*\b(?:is_|use_)?(?:distributed|ddp)(?:_(?!\w*rank)\w+)?(?:\(\))?"
    r"|[\w.]*\b(?:is_)?dist_(?:avail|init|enabled|is_)\w*(?:\(\))?"
    r"|[\w.]+\.training"
    r"|[\w.]*\b(?:world_size|get_world_size\(\w*\)|num_processes|nranks)(?: [=!<>]+ \d+)?"
    r"|'\w*(?:RANK|WORLD_SIZE)' (?:not )?in os\.environ"
    r"|(?:\w+\.)*(?:local_|global_)?rank (?:[=!]= -1|> -1|>= 0|< 0|is (?:not )?None)"
)
"""Conditions that hold on all ranks or on none."""
_OPERATORS = (ast.cmpop, ast.boolop, ast.unaryop, ast.operator, ast.expr_context)
_VALUES = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Constant, ast.Tuple, ast.List, ast.Set)


def is_of_all(test: ast.expr) -> bool:
    """Whether a condition holds on all ranks or on none: it asks whether there are several."""
    if isinstance(test, ast.BoolOp):
        return all(map(is_of_all, test.values))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_of_all(test.operand)
    return _OF_ALL.fullmatch(ast.unparse(test)) is not None


def asks_for_rank(test: ast.expr, call: Call, sources: Sources) -> bool:
    """Whether a condition is about the rank's number, itself or by a name that was given a value of it."""
    if is_of_all(test):
        return False
    if _OF_RANKS.search(ast.unparse(test)):
        return True
    tree = parsed(sources.text(call.file)) or ast.Module([], [])
    names = {ast.unparse(node) for node in ast.walk(test) if isinstance(node, ast.Name | ast.Attribute)}
    return spelt_out(test, call, sources) != ast.unparse(test) or any(
        ast.unparse(target) in names and _OF_RANKS.search(_asked(node.value)) and not is_of_all(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name | ast.Attribute)
    )


def spelt_out(test: ast.expr, call: Call, sources: Sources) -> str:
    """A condition with what the functions and properties of the program in it say of the rank, where that is
    all that they do: ``dist.get_rank() == 0`` for ``ckpt.is_writer()``. Of several with one name all have
    to."""
    asked = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    asked |= {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    told: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(parsed(sources.text(call.file)) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef) and node.name in asked:
            told.setdefault(node.name, []).append(_told_of_rank(node))
    known = {name: values[0] for name, values in told.items() if values[0] is not None and all(values)}
    return ast.unparse(_SpeltOut(known).visit(copy.deepcopy(test)))


def _told_of_rank(function: ast.FunctionDef) -> ast.expr | None:
    """What a function returns that does nothing else, where that is about the rank's number."""
    documented = isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant)
    rest = function.body[1:] if documented else function.body
    value = rest[0].value if len(rest) == 1 and isinstance(rest[0], ast.Return) else None
    of_rank = value is not None and _OF_RANKS.search(_asked(value)) and not is_of_all(value)
    return value if of_rank else None


class _SpeltOut(ast.NodeTransformer):
    """Puts what functions return in the place of their calls."""

    def __init__(self, known: Mapping[str, ast.expr]) -> None:
        self._known = known

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func).rpartition(".")[2]
        return self._known[name] if name in self._known else self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._known[node.attr] if node.attr in self._known else self.generic_visit(node)


def _asked(value: ast.expr) -> str:
    """A value without what its calls are given, its texts and its slices have in them: neither
    ``mean(run_epoch(model, rank))``, nor ``f"cuda:{rank}"``, nor ``files[rank::2]`` is about the number."""
    bare = copy.deepcopy(value)
    for node in ast.walk(bare):
        if isinstance(node, ast.Call):
            node.args, node.keywords = [], []
        elif isinstance(node, ast.JoinedStr):
            node.values = []
        elif isinstance(node, ast.Slice):
            node.lower = node.upper = node.step = None
    return ast.unparse(bare)


def holds_for(test: ast.expr, rank: int, had: Mapping[str, str]) -> bool | None:
    """Whether a condition holds on a rank, whose names ``had`` these values; None where it asks for more than
    the rank's number."""
    names = _Numbers(rank, {name for name, what in had.items() if what == str(rank)})
    asked = names.visit(copy.deepcopy(test))
    if not all(isinstance(node, (*_OPERATORS, *_VALUES)) for node in ast.walk(asked)):
        return None
    try:
        code = compile(ast.fix_missing_locations(ast.Expression(asked)), "<condition>", "eval")
        return bool(eval(code, {"__builtins__": {}}))
    except (TypeError, ValueError, ArithmeticError):
        return None


class _Numbers(ast.NodeTransformer):
    """Puts the rank's number in the place of what stands for it."""

    def __init__(self, rank: int, names: set[str]) -> None:
        self._rank, self._names = rank, names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            text = ast.unparse(node)
            if OWN_RANK.fullmatch(text) and (isinstance(node, ast.Call) or text in self._names):
                return ast.Constant(self._rank)
        return super().generic_visit(node)
