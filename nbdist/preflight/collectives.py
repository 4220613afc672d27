"""Process groups, collectives under conditions, keyboards, and data that ranks do not divide."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from nbdist.preflight.capabilities import at_least
from nbdist.preflight.finding import Finding, Situation, finding_of, words
from nbdist.preflight.missing_names import undefined_names
from nbdist.preflight.program import Call, Program

_OF_GROUPS = ("torch.distributed.", "paddle.distributed.")
_RANK = re.compile(
    r"(?:int\()?[\w.]*(?:get_rank\(\)|(?:environ(?:\.get)?|getenv)[\[(]'(?:RANK|PADDLE_TRAINER_ID)'[^()\[]*[\])])\)?"
)
_PARALLEL = frozenset({"DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"})
_DIVIDES = re.compile(
    r"sampler|subset|random_split|iterable|shard|distributed_?batch|split_dataset|partition|num_replicas",
    re.IGNORECASE,
)
_SAMPLERS = {
    "torch": "sampler=DistributedSampler(dataset, shuffle=True)",
    "paddle": "batch_sampler=paddle.io.DistributedBatchSampler(dataset, batch_size, shuffle=True)",
}
_OF_KEYBOARDS = {
    "input": "input",
    "ipdb.set_trace": "debugger",
}


def check_training(program: Program, situation: Situation) -> Iterator[Finding]:
    yield from _keyboards(program, situation)
    yield from _fleet(program, situation)
    seen = _sees_all(program, situation)
    if seen:
        yield from _no_group(program, situation)
    if situation.world_size > 1:
        yield from _on_one_rank(program)
        if seen:
            yield from _undivided(program, situation)


def _sees_all(program: Program, situation: Situation) -> bool:
    """Return whether the program calls nothing but its own functions, Python's and known libraries': any
    other might start the group, or divide the data."""
    known = sys.stdlib_module_names.union(words("known_libraries")).difference(words("opens_by_name"))
    if any(isinstance(node, ast.ImportFrom) and node.level for node in program.places):
        return False
    unseen = {*words("calls_by_name"), *situation.given, *undefined_names(program.tree)}
    for call in program.calls:
        by_name = call.name == "getattr" and not isinstance(call.argument("", 1), ast.Constant)
        if by_name or unseen & {call.name, call.name.partition(".")[0]}:
            return False
    hidden = {"sys.modules", "torch.hub"}.intersection(map(program.dotted, program.places))
    return not hidden and all(name.partition(".")[0] in known for name, _ in program.imports())


def _keyboards(program: Program, situation: Situation) -> Iterator[Finding]:
    for call in program.calls:
        rule = _OF_KEYBOARDS.get(call.name)
        if rule and call.place.plain and not program.switched_off(call.place, situation.args):
            yield finding_of(rule, call.line, call.place.always and rule == "input")
            return


def _fleet(program: Program, situation: Situation) -> Iterator[Finding]:
    build = situation.build("paddle")
    if situation.world_size > 1 or build is None or not at_least(build.version, "3.0"):
        return
    for call in program.calls:
        if call.name == "paddle.distributed.fleet.distributed_model" and call.place.plain:
            yield finding_of("fleet-with-one-rank", call.line)
            return


def _no_group(program: Program, situation: Situation) -> Iterator[Finding]:
    """Yield the first parallel model or collective where nothing starts a group."""
    if program.mentions(*words("starts_on_all_ranks"), *words("starts_the_group")):
        return
    if any(call.name.endswith("fleet.init") for call in program.calls):
        return
    for call in program.calls:
        collective = call.name.startswith(_OF_GROUPS) and call.method in words("collectives")
        torch = call.name.startswith("torch.")
        parallel = torch and call.method in _PARALLEL
        parallel = parallel or (call.name == "paddle.DataParallel" and situation.world_size > 1)
        if not (collective or parallel) or not call.place.plain:
            continue
        if not program.switched_off(call.place, situation.args):
            fix = "dist.init_process_group()" if torch else "paddle.distributed.init_parallel_env()"
            yield finding_of("no-group", call.line, said=call.method, fix=fix)
            return


def _on_one_rank(program: Program) -> Iterator[Finding]:
    """Yield a collective, or the group's start, that stands only under a condition on the rank."""
    if program.mentions(*words("parts_of_the_group")):
        return
    ranks = _rank_names(program)
    by_method: dict[str, list[Call]] = {}
    for call in program.calls:
        of_all = call.method in (*words("collectives"), *words("starts_on_all_ranks"))
        if of_all and call.name.startswith(_OF_GROUPS):
            by_method.setdefault(call.method, []).append(call)
    for method, calls in by_method.items():
        conditions = {_rank_condition(call, ranks, program) for call in calls}
        if len(conditions) == 1 and all(conditions) and not any(call.argument("group") for call in calls):
            rule = "group-on-one-rank" if method in words("starts_on_all_ranks") else "collective-on-one-rank"
            yield finding_of(rule, calls[0].line, said=method, condition=conditions.pop())


def _rank_names(program: Program) -> set[str]:
    held = {name for name, value in program.once.items() if _RANK.fullmatch(ast.unparse(value))}
    return held | {"rank", "global_rank"}


def _rank_condition(call: Call, ranks: set[str], program: Program) -> str:
    """Return a call's only condition if it compares the rank, as ``if rank == 0``; else empty."""
    if len(call.place.conditions) != 1:
        return ""
    test = call.place.conditions[0]
    for node in ast.walk(program.tree):
        if isinstance(node, ast.If) and node.test is test and "(" in "".join(map(ast.unparse, node.orelse)):
            return ""  # the other ranks may make it in what they call
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=int())]):
            compared = left
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            compared = operand
        case _:
            return ""
    named = isinstance(compared, ast.Name) and compared.id in ranks
    return f"if {ast.unparse(test)}" if named or ast.unparse(compared).endswith("get_rank()") else ""


def _undivided(program: Program, situation: Situation) -> Iterator[Finding]:
    """Yield the loader of a parallel model that shuffles all data on every rank."""
    called = {call.method for call in program.calls}
    # torch's DataParallel works in one process, which has no group to divide anything by
    parallel = _PARALLEL | {"distributed_model", *(["DataParallel"] if program.uses("paddle") else [])}
    if called.isdisjoint(parallel) or any(map(_DIVIDES.search, program.words)):
        return
    drawn = program.mentions(*words("draws_at_random"))
    if drawn or _uses_rank(program.tree, program, _rank_names(program)):
        return
    for call in program.calls:
        shuffles = program.value(call.argument("shuffle")) is True
        fix = _SAMPLERS.get(call.name.partition(".")[0])
        if call.method == "DataLoader" and shuffles and fix:
            yield finding_of("data-not-divided", call.line, count=situation.world_size, fix=fix)
            return


def _uses_rank(node: ast.AST, program: Program, ranks: set[str]) -> bool:
    """Return whether a node reads the rank for more than to store it, print it or choose a device."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) if name in ranks or name == "local_rank":
            return False
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in words(
            "harmless_with_a_rank"
        ):
            return False
        case ast.If(body=body, orelse=[]) if all(isinstance(inner, ast.Expr) for inner in body):
            # to print on one rank divides nothing
            return any(_uses_rank(inner, program, ranks) for inner in body)
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            if name in ranks or name in (*words("reads_the_rank"), *words("rank_variables")):
                return True
    return any(_uses_rank(child, program, ranks) for child in ast.iter_child_nodes(node))
